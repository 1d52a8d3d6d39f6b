//! The data of one client that was never in training.

use std::path::Path;

use super::folder::wrong;
use super::partition::hold_out;
use super::rows::open;
use super::synthetic::Synthetic;
use super::table::read_features;
use super::{Dataset, Examples, Features, Labels, Normalization, Schema, Shard, Targets, Task};
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

/// Reads a CSV or Parquet file with the training table's columns as the data of one client. A client
/// column, and any other that the model was not trained on, is ignored.
pub fn read_table(path: &Path, schema: &Schema, columns: &Columns) -> Result<Shard> {
    let error = |message: String| wrong(path, message);
    let x = read_features(path, schema)?;
    let width = schema.features.len();
    let Labelled {
        unit,
        numbers,
        labels,
        held,
    } = read_labels(path, columns)?;
    let m = labels.len();
    if m != x.len() / width {
        return Err(error("changed while it was being read".into()));
    }
    let targets = targets(&labels, &schema.task).map_err(|(row, message)| {
        let number = numbers[row];
        error(format!(
            "{unit} {number}, column '{}': {message}",
            columns.label
        ))
    })?;
    let (train, valid) = match held {
        Some(held) => {
            let rows = 0..m as u32;
            rows.partition(|row| !held[*row as usize])
        }
        None => hold_out(m, columns.validation, columns.seed, 0),
    };
    for (kind, part) in [("training", &train), ("validation", &valid)] {
        if Vec::is_empty(part) {
            return Err(error(format!(
                "has {m} rows but no {kind} example; add rows, or name some '{}' in a column '{}'",
                if kind == "training" { "train" } else { "valid" },
                columns.split
            )));
        }
    }
    let all = Examples::new(width, Features::Floats(x), targets);
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Shard {
        name: name.into_owned(),
        train: all.gathered(&train),
        valid: all.gathered(&valid),
    })
}

/// What the label and split columns say, row by row.
#[derive(Default)]
struct Labelled {
    /// `line` or `row`, and every row's number in the file.
    unit: &'static str,
    numbers: Vec<u64>,
    labels: Vec<String>,
    held: Option<Vec<bool>>,
}

fn read_labels(path: &Path, columns: &Columns) -> Result<Labelled> {
    let mut rows = open(path)?;
    let place = |name: &str| rows.header().iter().position(|column| column == name);
    let label = place(&columns.label).ok_or_else(|| {
        wrong(
            path,
            format!(
                "there is no column '{}', the label that the run was trained on",
                columns.label
            ),
        )
    })?;
    let split = place(&columns.split);
    let mut found = Labelled {
        unit: rows.unit(),
        held: split.map(|_| Vec::new()),
        ..Labelled::default()
    };
    while rows.advance().map_err(|e| wrong(path, e))? {
        let number = rows.number();
        let text = |k: usize, name: &str| {
            let cell = rows.cell(k);
            let text = cell.text().map(std::borrow::Cow::into_owned);
            text.map_err(|e| {
                wrong(
                    path,
                    format!("{} {number}, column '{name}' {e}", rows.unit()),
                )
            })
        };
        found.numbers.push(number);
        found.labels.push(text(label, &columns.label)?);
        if let (Some(split), Some(held)) = (split, &mut found.held) {
            held.push(match text(split, &columns.split)?.as_str() {
                "train" => false,
                "valid" => true,
                other => {
                    return Err(wrong(
                        path,
                        format!(
                            "{} {number}, column '{}': found '{other}', allowed is train or valid",
                            rows.unit(),
                            columns.split
                        ),
                    ));
                }
            });
        }
    }
    match found.labels.is_empty() {
        true => Err(wrong(path, "there is a header but not one row")),
        false => Ok(found),
    }
}

/// Labels as the run's targets, or the row that is wrong and why.
fn targets(labels: &[String], task: &Task) -> std::result::Result<Targets, (usize, String)> {
    match task {
        Task::Classification { classes } => {
            let class = |(row, label): (usize, &String)| {
                let found = classes.iter().position(|class| class == label);
                found.map(|k| k as u32).ok_or_else(|| {
                    let known = classes.iter().take(20).map(String::as_str);
                    let known = known.collect::<Vec<_>>().join(", ");
                    (row, format!("found '{label}', the run knows {known}"))
                })
            };
            let classes = labels.iter().enumerate().map(class);
            Ok(Targets::Classes(
                classes.collect::<std::result::Result<_, _>>()?,
            ))
        }
        Task::Regression => {
            let value = |(row, label): (usize, &String)| match label.parse::<f32>() {
                Ok(value) if value.is_finite() => Ok(value),
                _ => Err((
                    row,
                    format!("found '{label}', which is not a finite number"),
                )),
            };
            let values = labels.iter().enumerate().map(value);
            Ok(Targets::Values(
                values.collect::<std::result::Result<_, _>>()?,
            ))
        }
    }
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
        let newcomer = synthetic(&settings(), 6).unwrap();
        let of_seven = Synthetic {
            clients: 7,
            ..settings()
        };
        let same = of_seven.load().unwrap().shard(6).unwrap();
        assert_eq!(
            (&newcomer.train, &newcomer.valid),
            (&same.train, &same.valid)
        );
        let wrong = synthetic(&settings(), 3).unwrap_err().to_string();
        assert!(wrong.contains("clients 0 to 3 were in training"), "{wrong}");

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new.csv");
        let data = settings().load().unwrap();
        std::fs::write(&path, as_table(&newcomer, data.schema())).unwrap();
        let read = read_table(&path, data.schema(), &columns()).unwrap();
        assert_eq!(
            (&read.train, &read.valid),
            (&newcomer.train, &newcomer.valid)
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
            read_table(&path, data.schema(), &columns())
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
                "x0,x1,x2,label,split\n1,2,3,1,test\n",
                "allowed is train or valid",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
