//! Rows of a table and the models of a run that serve them.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use apfl::TrainedModel;
use apfl::data::Source;
use apfl::data::table::{
    Files, InferenceReader, InferenceRows, Stream, Table, TableSource, header_for,
};
use apfl::error::{Error, Result};
use apfl::run::run_dir::FinishedRun;

use crate::args::Which;
use crate::output::{counted, note_batches, tell};

/// Tells what training did not show, and who was served by the shared model.
pub fn said(run: &FinishedRun, asked: &InferenceRows, served: &Served) {
    note_batches(&run.plan);
    asked.unseen.notes().iter().for_each(tell);
    if served.unknown > 0 {
        tell(format!(
            "{} of clients that the run does not know, served by the shared model",
            counted(served.unknown, "row")
        ));
    }
}

/// Says that a run has several shared models, where it has.
fn note_clusters(run: &FinishedRun) {
    if run.plan.algorithm.kind() == "hypcluster" {
        tell(
            "the shared model of hypcluster is the largest cluster's, for clients that are not known; \
             a client's own cluster is in --model localized and personal",
        );
    }
}

/// The table that a run was trained on, where it was one.
pub fn table_of(run: &FinishedRun) -> Option<&Table> {
    match &run.plan.data {
        Source::Table(table) => Some(table),
        _ => None,
    }
}

/// Reads an input's rows, from a file or from stdin (`-`).
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
        return asked(&reader, &stream);
    }
    let paths: [PathBuf; 1] = [input.to_path_buf()];
    let mut files = Files {
        paths: &paths,
        header: None,
    };
    let header = header_for(table, &files)?;
    files.header = header.as_deref();
    asked(&reader, &files)
}

fn asked(reader: &InferenceReader<'_>, source: &dyn TableSource) -> Result<InferenceRows> {
    reader.read(source)
}

/// Which model serves which rows.
pub struct Served {
    /// Models, and the rows of each.
    pub groups: Vec<(TrainedModel, Vec<u32>)>,
    /// Whose rows each group has, where it is one client's, and whether the shared model
    /// stands in for its own.
    pub names: Vec<(Option<String>, bool)>,
    /// Rows of clients that the run does not know.
    pub unknown: usize,
}

impl Served {
    /// Every row by its client's model: the one that was named, or the one that its client
    /// column says.
    pub fn new(
        run: &FinishedRun,
        asked: &InferenceRows,
        which: Which,
        client: Option<&str>,
    ) -> Result<Self> {
        let mut served = Self {
            groups: Vec::new(),
            names: Vec::new(),
            unknown: 0,
        };
        let all = || (0..asked.rows as u32).collect::<Vec<u32>>();
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
        let Some((names, of)) = &asked.clients else {
            // A run of one client, as a join leaves it, leaves no reader.
            if let ([only], true) = (&run.clients()?[..], which != Which::Shared) {
                served.groups.push((run.model(which.into(), only)?, all()));
                served.names.push((Some(only.clone()), false));
                return Ok(served);
            }
            if which != Which::Shared {
                return Err(Error::Request(
                    "--client is missing: each client has a model of its own, and the input has \
                     no client column (or use --model shared)"
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
            let stranger = which != Which::Shared && !known.contains(name);
            let which = if stranger { Which::Shared } else { which };
            if stranger {
                served.unknown += rows.len();
            }
            served.groups.push((run.model(which.into(), name)?, rows));
            served.names.push((Some(name.clone()), stranger));
        }
        if which == Which::Shared || served.unknown > 0 {
            note_clusters(run);
        }
        Ok(served)
    }

    /// The client of a row: the one that was named, or its own.
    pub fn client_of<'a>(
        &self,
        asked: &'a InferenceRows,
        row: usize,
        client: Option<&'a str>,
    ) -> &'a str {
        match (client, &asked.clients) {
            (Some(client), _) => client,
            (None, Some((names, of))) => &names[of[row] as usize],
            (None, None) => "",
        }
    }
}
