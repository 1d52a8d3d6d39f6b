//! The data of one client that was never in training.

use std::collections::BTreeSet;
use std::path::Path;

use super::folder::wrong;
use super::partition::hold_out_parts;
use super::synthetic::Synthetic;
use super::table::{ClientOf, Files, InferenceReader, Table, TableSource, header_for};
use super::{Dataset, Examples, Features, Labels, Normalization, Schema, Shard, Task};
use crate::error::{Error, Result};

/// How a newcomer's table is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// The column to be predicted.
    pub label: String,
    /// The column that says `train` or `valid`, used where the table has it.
    pub split: String,
    /// The share held out where it has not.
    pub validation: f64,
    /// The seed of that choice.
    pub seed: u64,
}

/// Reads a CSV or Parquet file with the training table's raw columns as the data of one client.
/// Columns that the model was not trained on are ignored, but for the client's, which names the
/// newcomer; without one the file does. Also returns what a user should be told.
pub fn read_table(
    path: &Path,
    schema: &Schema,
    table: Option<&Table>,
    columns: &Columns,
) -> Result<(Shard, Vec<String>)> {
    let error = |message: String| wrong(path, message);
    let paths = [path.to_path_buf()];
    let plain = Files {
        paths: &paths,
        header: None,
    };
    let header = header_for(table, &plain)?;
    let files = Files {
        paths: &paths,
        header: header.as_deref(),
    };
    let has = |name: &String| Ok::<_, Error>(files.open()?.header().contains(name));
    let whose = match table.map(|table| &table.client) {
        Some(ClientOf::Column(name)) if has(name)? => vec![name.clone()],
        _ => Vec::new(),
    };
    let question = InferenceReader {
        schema,
        table,
        client: Some(""), // nobody that the run knows
        label: Some(&columns.label),
        split: Some(&columns.split),
        ids: &whose,
    };
    let asked = question.ask(&files)?;
    let clients: BTreeSet<&String> = asked.ids.iter().flatten().collect();
    let name = match clients.len() {
        0 | 1 => clients.first().map(|name| (*name).clone()),
        n => {
            let some: Vec<&str> = clients.iter().take(5).map(|name| name.as_str()).collect();
            return Err(error(format!(
                "its column '{}' names {n} clients ({}{}); a newcomer is one: give a file with \
                 the rows of one",
                whose[0],
                some.join(", "),
                if n > 5 { ", …" } else { "" }
            )));
        }
    };
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| {
        let stem = path.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    });
    let m = asked.rows;
    let Some(targets) = asked.targets.filter(|_| m > 0) else {
        return Err(error("there is a header but not one row".into()));
    };
    let parts = match asked.split {
        Some(parts) => parts,
        None => hold_out_parts(m, [columns.validation, 0.0], columns.seed, 0),
    };
    for (kind, word, part) in [("training", "train", 0), ("validation", "valid", 1)] {
        if parts[part].is_empty() {
            return Err(error(format!(
                "has {m} row{} but no {kind} example; add rows, or name some '{word}' in a column \
                 '{}'",
                if m == 1 { "" } else { "s" },
                columns.split
            )));
        }
    }
    let width: usize = schema.shape.iter().product();
    let all = Examples::new(width, Features::Floats(asked.x), targets);
    let [train, valid, test] = parts.map(|rows| all.gathered(&rows));
    let shard = Shard {
        name,
        train,
        valid,
        test,
    };
    Ok((shard, asked.strange.notes()))
}

/// The largest index of a synthetic newcomer.
const LARGEST: usize = 10_000_000;

/// Client number `k` of a synthetic run's generator, one that was not in training.
pub fn synthetic(settings: &Synthetic, k: usize) -> Result<Shard> {
    if k < settings.clients || k > LARGEST {
        return Err(Error::Request(format!(
            "synthetic:{k}: clients 0 to {} were in training; a newcomer has a number from {} \
             to {LARGEST}",
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

/// A client's data as the text of a CSV file that [`read_table`] reads to the same bits.
/// Its features must be used as they are (no normalization).
pub fn as_table(shard: &Shard, schema: &Schema) -> Vec<u8> {
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

    fn columns() -> Columns {
        Columns {
            label: "label".into(),
            split: "split".into(),
            validation: 0.25,
            seed: 9,
        }
    }

    #[test]
    fn a_synthetic_newcomer_is_the_generators_next_client_and_survives_its_table() {
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
        std::fs::write(&path, as_table(&new_client, data.schema())).unwrap();
        let (read, notes) = read_table(&path, data.schema(), None, &columns()).unwrap();
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
            read_table(&path, data.schema(), None, &columns()).map(|(shard, _)| shard)
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
                "line 4, column 'label': found '5', the run knows 0, 1",
            ),
            ("x0,x1,x2,label\n1,2,oops,1\n", "'oops'"),
            ("x0,x1,x2,label\n", "not one row"),
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
