//! Rows of a table and the models of a run that are applied to them.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use apfl::TrainedModel;
use apfl::data::Source;
use apfl::data::table::{Files, InferenceReader, InferenceRows, Stream, Table, header_for};
use apfl::error::{Error, Result};
use apfl::run::run_dir::FinishedRun;

use crate::args::Which;
use crate::output::{counted, note_batches, tell};

/// Prints notes on values unseen in training and on rows that the shared model served.
pub fn print_notes(run: &FinishedRun, input: &InferenceRows, served: &Served) {
    note_batches(&run.plan);
    input.unseen.notes().iter().for_each(tell);
    if served.unknown > 0 {
        tell(format!(
            "{} of clients that the run does not know: the shared model was used",
            counted(served.unknown, "row")
        ));
    }
}

/// Prints a note if a run has several shared models.
fn note_clusters(run: &FinishedRun) {
    if run.plan.algorithm.kind() == "hypcluster" {
        tell(
            "the shared model of hypcluster is the largest cluster's; use --model localized or \
             personal for the model of a client's own cluster",
        );
    }
}

/// Returns the table that a run was trained on, if its data was one.
pub fn table_of(run: &FinishedRun) -> Option<&Table> {
    match &run.plan.data {
        Source::Table(table) => Some(table),
        _ => None,
    }
}

/// Reads the rows of a file, or of stdin (`-`).
pub fn read(
    run: &FinishedRun,
    input: &Path,
    client: Option<&str>,
    label: Option<&str>,
    ids: &[String],
) -> Result<InferenceRows> {
    let table = table_of(run);
    let reader = InferenceReader {
        schema: &run.schema,
        table,
        client,
        label,
        split: None,
        ids,
    };
    if input == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|source| Error::File {
                path: "stdin".into(),
                action: "read",
                source,
            })?;
        let mut stream = Stream {
            name: "stdin".into(),
            bytes,
            header: None,
        };
        stream.header = header_for(table, &stream)?;
        return reader.read(&stream);
    }
    let paths: [PathBuf; 1] = [input.to_path_buf()];
    let mut files = Files {
        paths: &paths,
        header: None,
    };
    let header = header_for(table, &files)?;
    files.header = header.as_deref();
    reader.read(&files)
}

/// Assigns rows to models.
pub struct Served {
    /// Models with their rows.
    pub groups: Vec<(TrainedModel, Vec<u32>)>,
    /// The client of each group, if it is one client's, and whether the run does not know it, so
    /// that the shared model is used.
    pub names: Vec<(Option<String>, bool)>,
    /// Number of rows of clients that the run does not know.
    pub unknown: usize,
}

impl Served {
    /// Assigns every row to the model of `client`, or of the client in its client column.
    pub fn new(
        run: &FinishedRun,
        input: &InferenceRows,
        which: Which,
        client: Option<&str>,
    ) -> Result<Self> {
        let mut served = Self {
            groups: Vec::new(),
            names: Vec::new(),
            unknown: 0,
        };
        let all = || (0..input.rows as u32).collect::<Vec<u32>>();
        if let Some(client) = client {
            if which != Which::Shared {
                run.require_client(client)?;
            }
            if which == Which::Shared {
                note_clusters(run);
            }
            let model = run.model(which.into(), client)?;
            served.groups.push((model, all()));
            served.names.push((Some(client.into()), false));
            return Ok(served);
        }
        let Some((names, of)) = &input.clients else {
            // A run of one client, such as a join's, needs no --client.
            if let ([only], true) = (&run.clients()?[..], which != Which::Shared) {
                served.groups.push((run.model(which.into(), only)?, all()));
                served.names.push((Some(only.clone()), false));
                return Ok(served);
            }
            if which != Which::Shared {
                return Err(Error::Request(
                    "--client is missing: each client has its own model, and the input has no \
                     client column; give --client ID or --model shared"
                        .into(),
                ));
            }
            served.groups.push((run.model(which.into(), "")?, all()));
            served.names.push((None, false));
            return Ok(served);
        };
        let known: HashSet<String> = run.clients()?.into_iter().collect();
        let mut rows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (row, client) in of.iter().enumerate() {
            rows.entry(*client).or_default().push(row as u32);
        }
        for (client, rows) in rows {
            let name = &names[client as usize];
            let unknown = which != Which::Shared && !known.contains(name);
            let which = if unknown { Which::Shared } else { which };
            if unknown {
                served.unknown += rows.len();
            }
            served.groups.push((run.model(which.into(), name)?, rows));
            served.names.push((Some(name.clone()), unknown));
        }
        if which == Which::Shared || served.unknown > 0 {
            note_clusters(run);
        }
        Ok(served)
    }

    /// Returns `client` if given, else the client in the row's client column.
    pub fn client_of<'a>(
        &self,
        input: &'a InferenceRows,
        row: usize,
        client: Option<&'a str>,
    ) -> &'a str {
        match (client, &input.clients) {
            (Some(client), _) => client,
            (None, Some((names, of))) => &names[of[row] as usize],
            (None, None) => "",
        }
    }
}
