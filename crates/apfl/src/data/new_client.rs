//! The data of a new client, which was not in training.

use std::collections::BTreeSet;
use std::path::Path;

use super::partition::hold_out_parts;
use super::synthetic::Synthetic;
use super::table::{ClientSource, Files, InferenceReader, Table, TableSource, header_for};
use super::{Dataset, Examples, Features, Labels, Normalization, Schema, Shard, Task};
use crate::error::{Error, Result};

/// Says how a new client's table is read.
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    /// The column to predict.
    pub label: String,
    /// The column with `train` or `valid`, used if the table has it.
    pub split: String,
    /// The validation share otherwise.
    pub validation: f64,
    /// The seed of the random split.
    pub seed: u64,
}

/// Reads a CSV or Parquet file with the training table's raw options as the data of one new client,
/// and returns messages for the user too. The client column names the client, or else the file
/// does; other options that the model was not trained on are ignored.
///
/// # Errors
/// The table cannot be read, has rows of several clients, or lacks training or validation rows.
pub fn read_table(
    path: &Path,
    schema: &Schema,
    table: Option<&Table>,
    options: &TableOptions,
) -> Result<(Shard, Vec<String>)> {
    let error = |message: String| Error::in_file(path, message);
    let paths = [path.to_path_buf()];
    let headless = Files {
        paths: &paths,
        header: None,
    };
    let header = header_for(table, &headless)?;
    let files = Files {
        paths: &paths,
        header: header.as_deref(),
    };
    let has = |name: &String| Ok::<_, Error>(files.open()?.header().contains(name));
    let client_column = match table.map(|table| &table.client) {
        Some(ClientSource::Column(name)) if has(name)? => vec![name.clone()],
        _ => Vec::new(),
    };
    let reader = InferenceReader {
        schema,
        table,
        client: Some(""), // not a client of the run
        label: Some(&options.label),
        split: Some(&options.split),
        ids: &client_column,
    };
    let inference = reader.read(&files)?;
    let clients: BTreeSet<&String> = inference.ids.iter().flatten().collect();
    let name = match clients.len() {
        0 | 1 => clients.first().map(|name| (*name).clone()),
        n => {
            let some: Vec<&str> = clients.iter().take(5).map(|name| name.as_str()).collect();
            return Err(error(format!(
                "its column '{}' names {n} clients ({}{}); a new client's file must have the rows \
                 of one client",
                client_column[0],
                some.join(", "),
                if n > 5 { ", …" } else { "" }
            )));
        }
    };
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| {
        let stem = path.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    });
    let m = inference.rows;
    let Some(targets) = inference.targets.filter(|_| m > 0) else {
        return Err(error("the table has a header but no rows".into()));
    };
    let parts = match inference.split {
        Some(parts) => parts,
        None => hold_out_parts(m, [options.validation, 0.0], options.seed, 0),
    };
    for (kind, word, part) in [("training", "train", 0), ("validation", "valid", 1)] {
        if parts[part].is_empty() {
            return Err(error(format!(
                "has {m} row{} but no {kind} example; add rows, or name some '{word}' in a column \
                 '{}'",
                if m == 1 { "" } else { "s" },
                options.split
            )));
        }
    }
    let width: usize = schema.shape.iter().product();
    let all = Examples::new(width, Features::Floats(inference.x), targets);
    let [train, valid, test] = parts.map(|rows| all.gathered(&rows));
    let shard = Shard {
        name,
        train,
        valid,
        test,
    };
    Ok((shard, inference.unseen.notes()))
}

/// The largest index of a synthetic client.
const MAX_INDEX: usize = 10_000_000;

/// Generates client `k` of a synthetic run, which was not in training.
///
/// # Errors
/// The client was in training, or the index is too large.
pub fn synthetic(settings: &Synthetic, k: usize) -> Result<Shard> {
    if k < settings.clients || k > MAX_INDEX {
        return Err(Error::Request(format!(
            "synthetic:{k}: clients 0 to {} were in training; a new client has a number from {} \
             to {MAX_INDEX}",
            settings.clients - 1,
            settings.clients
        )));
    }
    let more = Synthetic {
        clients: k + 1,
        min_examples: 0,
        ..settings.clone()
    };
    Ok((*more.load()?.shard(k)?).clone())
}

/// Returns a client's data as a CSV file that [`read_table`] reads to the same bits.
///
/// # Panics
/// The features are normalized.
pub fn to_csv(shard: &Shard, schema: &Schema) -> Vec<u8> {
    assert_eq!(schema.normalization, Normalization::None);
    let mut out = csv::Writer::from_writer(Vec::new());
    let mut header = vec!["label".to_string(), "split".into()];
    header.extend(schema.features.iter().cloned());
    out.write_record(&header).expect("writing to memory");
    for (split, examples) in [("train", &shard.train), ("valid", &shard.valid)] {
        let Features::Floats(x) = examples.features() else {
            unreachable!("bytes are always normalized")
        };
        for (r, x) in x.chunks_exact(examples.width()).enumerate() {
            let label = match (examples.all().targets, &schema.task) {
                (Labels::Classes(y), Task::Classification { classes }) => {
                    classes[y[r] as usize].clone()
                }
                (Labels::Classes(y), Task::Regression) => y[r].to_string(),
                (Labels::Values(t), _) => t[r].to_string(),
            };
            let mut row = vec![label, split.into()];
            row.extend(x.iter().map(f32::to_string));
            out.write_record(&row).expect("writing to memory");
        }
    }
    out.into_inner().expect("writing to memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Synthetic {
        Synthetic {
            clients: 4,
            gamma: 1.0,
            beta: 1.0,
            features: 3,
            classes: 2,
            iid: false,
            examples: Some(12),
            max_examples: 1000,
            min_examples: 0,
            validation: 0.25,
            test: 0.0,
            seed: 9,
        }
    }

    fn options() -> TableOptions {
        TableOptions {
            label: "label".into(),
            split: "split".into(),
            validation: 0.25,
            seed: 9,
        }
    }

    #[test]
    fn a_synthetic_new_client_is_the_generators_next_client_and_survives_its_table() {
        let new_client = synthetic(&settings(), 6).unwrap();
        let of_seven = Synthetic {
            clients: 7,
            ..settings()
        };
        let same = of_seven.load().unwrap().shard(6).unwrap();
        assert_eq!(
            (&new_client.train, &new_client.valid),
            (&same.train, &same.valid)
        );
        let wrong = synthetic(&settings(), 3).unwrap_err().to_string();
        assert!(wrong.contains("clients 0 to 3 were in training"), "{wrong}");

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new.csv");
        let data = settings().load().unwrap();
        std::fs::write(&path, to_csv(&new_client, data.schema())).unwrap();
        let (read, notes) = read_table(&path, data.schema(), None, &options()).unwrap();
        assert!(notes.is_empty());
        assert_eq!(
            (&read.train, &read.valid),
            (&new_client.train, &new_client.valid)
        );
        assert_eq!(read.name, "new");
    }

    #[test]
    fn what_is_wrong_with_a_table_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new.csv");
        let data = settings().load().unwrap();
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_table(&path, data.schema(), None, &options()).map(|(shard, _)| shard)
        };
        // The order of columns is free, a client column is ignored, ⌈4/4⌉ row is held out.
        let shard = read("x2,x0,client,x1,label\n3,1,a,2,0\n6,4,a,5,1\n1,1,b,1,1\n0,0,b,0,0\n");
        let shard = shard.unwrap();
        assert_eq!((shard.train.len(), shard.valid.len()), (3, 1));
        for (text, words) in [
            ("x0,x1,label\n1,2,0\n", "no column 'x2'"),
            ("x0,x1,x2\n1,2,0\n", "no column 'label'"),
            (
                "x0,x1,x2,label\n1,2,3,1\n\n1,2,3,5\n",
                "line 4, column 'label': found '5', the run's labels are 0, 1",
            ),
            ("x0,x1,x2,label\n1,2,oops,1\n", "'oops'"),
            ("x0,x1,x2,label\n", "a header but no rows"),
            ("x0,x1,x2,label\n1,2,3,1\n", "no training example"),
            (
                "x0,x1,x2,label,split\n1,2,3,1,train\n",
                "no validation example",
            ),
            (
                "x0,x1,x2,label,split\n1,2,3,1,other\n",
                "allowed is train, valid or test",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
