//! From a table to every client's examples.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::preparation::Preparation;
use super::records::{Answers, Layout, Part, Records, stem};
use super::source::TableSource;
use super::split::{Parts, index_of};
use super::survey::Survey;
use super::troubles::Troubles;
use super::value::{Missing, Value, value_of};
use super::{ClientOf, Scale, Standardize, Table};
use crate::data::rows::{Cell, RowReader};
use crate::data::scales::scale_warning;
use crate::data::{Examples, Features, InMemory, Normalization, Schema, Shard, Targets, Task};
use crate::error::{Error, Result};
use crate::moments::Moments;

/// What pieces of a table have in common before its numbers are read.
struct Surveyed {
    layout: Layout,
    records: Records,
    parts: Parts,
    task: Task,
    /// Whether every row could be read.
    clean: bool,
    /// A survey for each client that takes part, in their order.
    surveys: Vec<Survey>,
}

impl Table {
    /// Reads the files, splits every client's rows and checks all of it.
    pub fn load(&self) -> Result<InMemory> {
        self.take(&self.files())
    }

    /// The data set that the rows of a source make.
    pub fn take(&self, source: &dyn TableSource) -> Result<InMemory> {
        let mut files = source.files()?;
        let mut notes = Vec::new();
        let mut troubles = Troubles::new(source.place().map(Into::into));
        self.require_one_client_a_file(&mut troubles);

        let mut rows = source.open()?;
        let layout = self.layout(&*rows)?;
        let mut records = self.records(&mut *rows, &layout, &mut troubles)?;
        drop(rows);
        if records.client.is_empty() {
            troubles.note("there is a header but not one row");
            troubles.check()?;
            unreachable!("a trouble was noted");
        }
        let dealing = match &self.partition {
            None => None,
            Some(partition) => Some(
                self.deal(partition, &mut records)
                    .map_err(|e| self.told_of(source, e))?,
            ),
        };
        if let Some(dealing) = &dealing {
            notes.extend(dealing.notes.iter().cloned());
            files.extend(dealing.file.clone());
        }
        // Where rows are wrong already, what follows from their absence is not told too.
        let clean = troubles.none();
        let mut untold = Troubles::default();
        let derived = if clean { &mut troubles } else { &mut untold };
        let parts = self.parts(&mut records, derived);
        let task = self.task(&records, &parts, derived);
        let mut surveyed = Surveyed {
            clean,
            surveys: vec![Survey::new(layout.features.len()); parts.kept.len()],
            layout,
            records,
            parts,
            task,
        };
        let samples = self.survey(source, &mut surveyed, &mut troubles)?;
        let preparation = self.prepare(&surveyed, &samples, &mut troubles);
        troubles.check()?;
        let preparation = preparation.expect("else a trouble was noted");

        let (left_out, count) = (surveyed.parts.left_out, surveyed.records.clients.len());
        if left_out > 0 {
            notes.push(format!(
                "{left_out} of {count} clients have fewer than {} examples and are left out",
                self.common.min_examples
            ));
        }
        notes.extend(without(&surveyed.parts));
        notes.extend(preparation.notable());
        if self.standardize == Standardize::No {
            notes.extend(warning(&preparation, &surveyed));
        }
        let (shards, strange) = self.fill(source, surveyed, &preparation)?;
        notes.extend(strange);
        let features = preparation.features();
        let mut data = InMemory::new(
            Schema {
                task: shards.1,
                shape: vec![features.len()],
                features,
                normalization: Normalization::Prepared(preparation),
            },
            shards.0,
        );
        (data.files, data.notes, data.dealing) = (files, notes, dealing);
        Ok(data)
    }

    /// The place of an error that a partition knows nothing of.
    fn told_of(&self, source: &dyn TableSource, error: Error) -> Error {
        match source.place() {
            Some(path) => Error::in_file(path, error),
            None => error,
        }
    }

    fn require_one_client_a_file(&self, troubles: &mut Troubles) {
        if self.client != ClientOf::File {
            return;
        }
        let mut seen: HashMap<String, &Path> = HashMap::new();
        for path in &self.paths {
            let name = stem(path);
            if let Some(before) = seen.insert(name.clone(), path) {
                troubles.note(format!(
                    "{} and {} would both be the client '{name}' (data.client = {{ file = true }}); \
                     rename one",
                    before.display(),
                    path.display()
                ));
            }
        }
    }

    /// The second reading: every client's survey of its training rows. Returns a few cells of
    /// each column that are no numbers, and where.
    fn survey(
        &self,
        source: &dyn TableSource,
        surveyed: &mut Surveyed,
        troubles: &mut Troubles,
    ) -> Result<Samples> {
        let missing = Missing::new(&self.missing);
        let Surveyed {
            layout,
            records,
            parts,
            task,
            surveys,
            clean,
        } = surveyed;
        let known: Vec<bool> = match (&records.answers, &*task) {
            (Answers::Labels { names, .. }, Task::Classification { classes }) => {
                let index = index_of(classes);
                let known = |name: &String| index.contains_key(name.as_str());
                names.iter().map(known).collect()
            }
            _ => Vec::new(),
        };
        let mut samples = Samples(vec![Vec::new(); layout.features.len()]);
        self.again(source, parts.owner.len(), |row, rows| {
            let Some((client, part)) = parts.of(row) else {
                return Ok(!troubles.full());
            };
            if let (Answers::Labels { names, of }, true) = (&records.answers, part != Part::Train) {
                let label = of[row] as usize;
                if !known[label] && *clean && !troubles.full() {
                    let kept = parts.kept[client].0;
                    troubles.note_row(
                        rows,
                        &format!(
                            ": the label '{}' of client '{}' is in its {} rows but in no client's \
                             training rows; {}, or remove such rows",
                            names[label],
                            records.clients[kept],
                            if part == Part::Test {
                                "test"
                            } else {
                                "validation"
                            },
                            match layout.split {
                                Some(_) => "move such a row to training",
                                None =>
                                    "another data.seed may hold out other rows, a split \
                                         column says which",
                            }
                        ),
                    );
                }
            }
            if part != Part::Train {
                return Ok(!troubles.full());
            }
            let survey = &mut surveys[client];
            survey.rows += 1;
            match &records.answers {
                Answers::Values(values) => survey.values.add(values[row]),
                Answers::Labels { names, of } => {
                    let name = &names[of[row] as usize];
                    match survey.labels.get_mut(name) {
                        Some(count) => *count += 1,
                        None => {
                            survey.labels.insert(name.clone(), 1);
                        }
                    }
                }
            }
            for (k, place) in layout.features.iter().enumerate() {
                let cell = rows.cell(*place);
                let value = value_of(&cell, &missing);
                if !matches!(value, Value::Missing | Value::Number(_)) {
                    samples.note(k, &cell, rows);
                }
                survey.columns[k].add(&value, &cell, layout.categorical[k]);
            }
            Ok(!troubles.full())
        })?;
        Ok(samples)
    }

    /// What the merged surveys make of the columns; `None` where a trouble was noted.
    fn prepare(
        &self,
        surveyed: &Surveyed,
        samples: &Samples,
        troubles: &mut Troubles,
    ) -> Option<Preparation> {
        let Surveyed {
            layout,
            records,
            parts,
            surveys,
            ..
        } = surveyed;
        let all = Survey::merged(surveys)?;
        let prepared = Preparation::of(&layout.names, &all, &layout.categorical, self.standardize);
        let mut preparation = match prepared {
            Ok(preparation) => preparation,
            Err(refused) => {
                for (k, why) in refused {
                    troubles.note(samples.told(k, &layout.names[k], &why));
                }
                return None;
            }
        };
        preparation.ignored = self.ignore.clone();
        preparation.missing = self.missing.clone();
        if self.standardize != Standardize::No && self.regression {
            preparation.label = Some(Scale::of(&all.values));
        }
        if self.standardize == Standardize::Client {
            let own = parts.kept.iter().zip(surveys).map(|((client, _), survey)| {
                let name = records.clients[*client].clone();
                (name, preparation.scales_of(survey))
            });
            preparation.clients = own.collect();
        }
        Some(preparation)
    }

    /// The third reading: every client's numbers.
    fn fill(
        &self,
        source: &dyn TableSource,
        surveyed: Surveyed,
        preparation: &Preparation,
    ) -> Result<((Vec<Arc<Shard>>, Task), Vec<String>)> {
        let Surveyed {
            layout,
            records,
            parts,
            task,
            surveys,
            ..
        } = surveyed;
        drop(surveys);
        let width = preparation.features().len();
        let mut troubles = Troubles::new(source.place().map(Into::into));
        let mut made: Vec<[Made; 3]> = (parts.kept.iter())
            .map(|(_, sizes)| sizes.map(|rows| Made::new(rows, width, self.regression)))
            .collect();
        let scales: Vec<_> = (parts.kept.iter())
            .map(|(client, _)| preparation.of_client(&records.clients[*client]))
            .collect();
        let class: Vec<u32> = match (&records.answers, &task) {
            (Answers::Labels { names, .. }, Task::Classification { classes }) => {
                let index = index_of(classes);
                let class = |name: &String| index.get(name.as_str()).copied().unwrap_or(0);
                names.iter().map(class).collect()
            }
            _ => Vec::new(),
        };
        let label = preparation.label;
        let mut encoder = preparation.encoder();
        self.again(source, parts.owner.len(), |row, rows| {
            let Some((client, part)) = parts.of(row) else {
                return Ok(true);
            };
            let made = &mut made[client][part as usize];
            match &records.answers {
                Answers::Labels { of, .. } => made.classes.push(class[of[row] as usize]),
                Answers::Values(values) => made.values.push(match label {
                    None => values[row] as f32,
                    Some(scale) => ((values[row] - scale.mean) / scale.deviation) as f32,
                }),
            }
            for (k, place) in layout.features.iter().enumerate() {
                let cell = rows.cell(*place);
                if let Err(e) = encoder.encode(k, &cell, scales[client], &mut made.x) {
                    let name = &layout.names[k];
                    troubles.note_row(rows, &format!(", column '{name}': {e}"));
                }
            }
            Ok(!troubles.full())
        })?;
        troubles.check()?;
        let strange = encoder.strange.notes();
        let shard = |((client, _), parts): (&(usize, [usize; 3]), [Made; 3])| {
            let [train, valid, test] = parts.map(|made| made.examples(width, self.regression));
            Arc::new(Shard {
                name: records.clients[*client].clone(),
                train,
                valid,
                test,
            })
        };
        let shards = parts.kept.iter().zip(made).map(shard).collect();
        Ok(((shards, task), strange))
    }

    /// Reads all rows once more; `each` says whether to go on.
    fn again(
        &self,
        source: &dyn TableSource,
        count: usize,
        mut each: impl FnMut(usize, &dyn RowReader) -> Result<bool>,
    ) -> Result<()> {
        let mut rows = source.open()?;
        let mut row = 0;
        while rows.advance().map_err(|e| self.broken(&*rows, e))? {
            if row >= count {
                return Err(self.changed(&*rows));
            }
            if rows.defect().is_none() && !each(row, &*rows)? {
                return Ok(());
            }
            row += 1;
        }
        match row == count {
            true => Ok(()),
            false => Err(self.changed(&*rows)),
        }
    }

    fn changed(&self, rows: &dyn RowReader) -> Error {
        self.broken(rows, "changed while it was being read".into())
    }
}

/// A part of a client's examples in the making.
struct Made {
    x: Vec<f32>,
    classes: Vec<u32>,
    values: Vec<f32>,
}

impl Made {
    fn new(rows: usize, width: usize, regression: bool) -> Self {
        Self {
            x: Vec::with_capacity(rows * width),
            classes: Vec::with_capacity(if regression { 0 } else { rows }),
            values: Vec::with_capacity(if regression { rows } else { 0 }),
        }
    }

    fn examples(self, width: usize, regression: bool) -> Examples {
        let targets = match regression {
            true => Targets::Values(self.values),
            false => Targets::Classes(self.classes),
        };
        Examples::new(width, Features::Floats(self.x), targets)
    }
}

/// A few cells of each column that are no numbers: where they stand, and what they say.
struct Samples(Vec<Vec<(String, String)>>);

impl Samples {
    fn note(&mut self, column: usize, cell: &Cell<'_>, rows: &dyn RowReader) {
        let samples = &mut self.0[column];
        if samples.len() >= 3 {
            return;
        }
        let text = cell.text().map_or_else(
            |kind| kind,
            |text| format!("found '{}'", text.chars().take(60).collect::<String>()),
        );
        samples.push((format!("{} {}", rows.unit(), rows.number()), text));
    }

    /// What is wrong with a column, beginning with a cell that shows it.
    fn told(&self, column: usize, name: &str, why: &str) -> String {
        let Some(((place, text), more)) = self.0[column].split_first() else {
            return format!("column '{name}' {why}");
        };
        let more: Vec<String> = (more.iter().filter(|(_, other)| other != text))
            .map(|(place, text)| format!("{place}: {text}"))
            .collect();
        let more = match more.is_empty() {
            true => String::new(),
            false => format!(" ({})", more.join("; ")),
        };
        format!("{place}, column '{name}': {text}{more}; the column {why}")
    }
}

/// How many clients have nothing to validate or to test with.
fn without(parts: &Parts) -> Vec<String> {
    let count = parts.kept.len();
    let tested = parts.kept.iter().any(|(_, sizes)| sizes[2] > 0);
    [(1, "validation"), (2, "test")]
        .into_iter()
        .filter(|(part, _)| *part == 1 || tested)
        .filter_map(|(part, name)| {
            let none = parts
                .kept
                .iter()
                .filter(|(_, sizes)| sizes[part] == 0)
                .count();
            (none > 0).then(|| {
                format!("{none} of {count} clients have no {name} rows and no {name} scores")
            })
        })
        .collect()
}

/// A word of warning where numbers' scales differ.
fn warning(preparation: &Preparation, surveyed: &Surveyed) -> Option<String> {
    let all = Survey::merged(&surveyed.surveys)?;
    let moments: BTreeMap<&str, Moments> = (preparation.columns.iter().zip(&all.columns))
        .filter(|(column, _)| matches!(column.encoding, super::Encoding::Number { .. }))
        .map(|(column, seen)| (column.name.as_str(), seen.numbers))
        .collect();
    scale_warning(&moments)
}
