//! `idx`: a user's own images in MNIST's format.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::assign::{self, AssignedRows};
use super::classes::{MAX_CLASSES, MAX_NUMBERED, excess};
use super::images::{Images, assemble, read_column, read_labels};
use super::leaf::CLASSES;
use super::partition::{PARTITION, Partition};
use super::{Common, InMemory, Scaling, Source, SourceFile, SourceKind, folder};
use crate::error::{Error, Result};
use crate::settings::{Custom, Inner, Kind, Section, Setting, Text};

mod array;

pub use array::{Array, Element};

/// Represents a user's own images.
#[derive(Clone, Debug, PartialEq)]
pub struct Idx {
    /// The images.
    pub images: PathBuf,
    /// Their labels.
    pub labels: PathBuf,
    /// The assignment of images to clients.
    pub owners: Owners,
    /// The validation images, if they have files of their own.
    pub validation: Option<ValidationFiles>,
    /// The number of classes; by default one more than the largest label.
    pub classes: Option<usize>,
    /// The most classes.
    pub max_classes: usize,
    /// Seed, held-out shares and minimum number of examples.
    pub common: Common,
}

/// The files of validation images.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidationFiles {
    /// The images.
    pub images: PathBuf,
    /// Their labels.
    pub labels: PathBuf,
    /// Their owners, if the training images have a file of owners; else the images of a class are
    /// assigned in proportion to its training images.
    pub owners: Option<PathBuf>,
}

/// Represents the assignment of images to clients.
#[derive(Clone, Debug, PartialEq)]
pub enum Owners {
    /// By a file with the client's number for every image.
    File(PathBuf),
    /// By a partition.
    Partition(Partition),
}

const MISSING: &str = "missing: an IDX file, plain or gzipped";
const IMAGES: Setting<Text> = Setting::text("images", || None)
    .help("an IDX file; it must be given")
    .required(MISSING)
    .example("\"images-idx3-ubyte.gz\"");
const LABELS: Setting<Text> = Setting::text("labels", || None)
    .help("an IDX file with a class for every image; it must be given")
    .required(MISSING)
    .example("\"labels-idx1-ubyte.gz\"");
const OWNERS: Setting<Text> = Setting::custom(
    "clients",
    Custom {
        name: "text or whole number",
        allowed: "a file, or 1 to 10000000",
        default: || None,
        parse: |found| found.as_str().map(str::to_owned),
        write: |file| file.clone().into(),
    },
)
.help("an IDX file with the owner of every image; or a number, and a partition")
.usually("`100`, by the partition")
.example("\"owners-idx1-int.gz\"");
const ASSIGNED_BY: Setting<Inner> = PARTITION.with("clients = 100");
const VALID_IMAGES: Setting<Text> = Setting::text("valid_images", || None)
    .help("validation images in a file of their own; validation and test are then not used")
    .example("\"…\"")
    .seldom();
const VALID_LABELS: Setting<Text> = Setting::text("valid_labels", || None)
    .help("their classes")
    .with("valid_images = \"…\"")
    .example("\"…\"")
    .seldom();
const VALID_CLIENTS: Setting<Text> = Setting::text("valid_clients", || None)
    .help("their owners, if clients is a file")
    .with("valid_images = \"…\"")
    .example("\"…\"")
    .seldom();

pub(super) const KIND: SourceKind = Kind {
    name: "idx",
    about: "your own images, as IDX files, plain or gzipped",
    settings: &[
        &IMAGES,
        &LABELS,
        &OWNERS,
        &ASSIGNED_BY,
        &VALID_IMAGES,
        &VALID_LABELS,
        &VALID_CLIENTS,
        &CLASSES,
        &MAX_CLASSES,
    ],
    examples: &[
        "{ kind = 'idx', images = 'i', labels = 'l', clients = 'c' }",
        "{ kind = 'idx', images = 'i', labels = 'l', clients = 5, partition = 'shards' }",
        "{ kind = 'idx', images = 'i', labels = 'l', clients = 5, valid_images = 'v', \
         valid_labels = 'w' }",
    ],
    value: |s, common| Source::Idx(Idx::read(s, common)),
};

impl Idx {
    /// Reads `[data]`. `clients` is a file of owners, or the number of clients.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        let validation = ValidationFiles::read(s);
        Self {
            images: folder::read_path(s, &IMAGES),
            labels: folder::read_path(s, &LABELS),
            validation,
            classes: s.optional(&CLASSES).map(|classes| classes as usize),
            max_classes: s.get(&MAX_CLASSES) as usize,
            owners: if s.is_text("clients") {
                Owners::File(folder::read_path(s, &OWNERS))
            } else {
                Owners::Partition(Partition::read(s, "stripe"))
            },
            common,
        }
    }

    /// Loads the files. Pixels become x/255, minus the training mean, over the training deviation,
    /// one number each.
    pub fn load(&self) -> Result<InMemory> {
        let (mut images, file) = Images::read(&self.images)?;
        let mut files = vec![file];
        let most = self.classes.unwrap_or(MAX_NUMBERED as usize);
        let trained = images.len();
        let (mut labels, file) = read_labels(&self.labels, trained, most)?;
        files.push(file);
        if let Some(validation) = &self.validation {
            files.extend(validation.append(&mut images, &mut labels, most)?);
        }
        let classes = self.class_count(&labels)?;
        if let Some(excess) = excess(classes, self.max_classes) {
            return Err(Error::in_file(&self.labels, excess));
        }
        let is_validation: Vec<bool> = (0..images.len()).map(|row| row >= trained).collect();
        let is_validation = self.validation.as_ref().map(|_| &is_validation[..]);
        let mut assigned = match &self.owners {
            Owners::Partition(partition) => match is_validation {
                None => assign::by_partition(partition, &labels, classes, &self.common)?,
                Some(is_validation) => assign::by_partition_with_validation(
                    partition,
                    &labels,
                    classes,
                    is_validation,
                    &self.common,
                )?,
            },
            Owners::File(path) => {
                let (mut owners, file) = read_column(path, trained)?;
                files.push(file);
                if let Some(path) = self.validation.as_ref().and_then(|v| v.owners.as_ref()) {
                    let (more, file) = read_column(path, images.len() - trained)?;
                    owners.extend(more);
                    files.push(file);
                }
                let owners = assign::group_by_owner(&owners, |id| id.to_string());
                assign::by_owner(owners, is_validation, &self.common)?
            }
        };
        let scaling = training_scaling(&images, &assigned)
            .ok_or_else(|| Error::in_file(&self.images, "all training pixels are equal"))?;
        self.check_classes(&labels, classes, &mut assigned)?;
        let names = (0..classes).map(|c| c.to_string()).collect();
        Ok(assemble(images, labels, names, scaling, assigned, files))
    }

    fn class_count(&self, labels: &[u32]) -> Result<usize> {
        let wrong = |what: String| Err(Error::in_file(&self.labels, what));
        if let Some(classes) = self.classes {
            return Ok(classes);
        }
        let classes = labels.iter().max().map_or(0, |most| *most as usize + 1);
        let different: BTreeSet<&u32> = labels.iter().collect();
        match classes {
            ..2 => wrong("every label is 0; classification needs at least two labels".into()),
            // One damaged byte would make a thousand classes.
            _ if 2 * different.len() < classes => wrong(format!(
                "the largest label is {}, but only {} labels occur; set data.classes to the \
                 number of classes if that is right",
                classes - 1,
                different.len()
            )),
            _ => Ok(classes),
        }
    }

    /// Refuses validation labels without a training example, and notes classes without one.
    fn check_classes(
        &self,
        labels: &[u32],
        classes: usize,
        assigned: &mut AssignedRows,
    ) -> Result<()> {
        let mut trained = vec![false; classes];
        for row in assigned.clients.iter().flat_map(|part| &part.train) {
            trained[labels[*row as usize] as usize] = true;
        }
        for part in &assigned.clients {
            let label = |row: &u32| labels[*row as usize];
            if let Some(label) = part.valid.iter().map(label).find(|l| !trained[*l as usize]) {
                return Err(Error::in_file(
                    &self.labels,
                    format!(
                        "the label {label} is among the validation examples of client '{}' but in \
                         no client's training examples{}",
                        part.name,
                        match &self.validation {
                            None => "; another data.seed may hold out others",
                            Some(_) => " (data.valid_labels)",
                        }
                    ),
                ));
            }
        }
        let missing = trained.iter().filter(|trained| !**trained).count();
        if missing > 0 {
            let note = format!("{missing} of {classes} classes have no training example");
            assigned.notes.push(note);
        }
        Ok(())
    }
}

impl ValidationFiles {
    fn read(s: &mut Section<'_>) -> Option<Self> {
        let keys = ["valid_images", "valid_labels", "valid_clients"];
        s.knows(&keys);
        if !keys.iter().any(|key| s.has(key)) {
            return None;
        }
        for key in ["valid_images", "valid_labels"] {
            if !s.has(key) {
                s.problem(
                    key,
                    "missing: validation needs data.valid_images and data.valid_labels",
                );
            }
        }
        let has_owner_file = s.is_text("clients");
        if has_owner_file && !s.has("valid_clients") {
            let what = "missing: data.clients is a file, so the validation images need one too";
            s.problem("valid_clients", what);
        }
        if !has_owner_file && s.has("valid_clients") {
            let what = "data.clients is not a file; the partition assigns these images; remove it";
            s.problem("valid_clients", what);
        }
        Some(Self {
            images: folder::read_path(s, &VALID_IMAGES),
            labels: folder::read_path(s, &VALID_LABELS),
            owners: (s.has("valid_clients")).then(|| folder::read_path(s, &VALID_CLIENTS)),
        })
    }

    /// Appends the validation images and labels to the training ones.
    fn append(
        &self,
        images: &mut Images,
        labels: &mut Vec<u32>,
        classes: usize,
    ) -> Result<[SourceFile; 2]> {
        let (validation, first) = Images::read(&self.images)?;
        if validation.shape != images.shape {
            return Err(Error::in_file(
                &self.images,
                format!(
                    "its images have the shape {:?}, the training images {:?}",
                    validation.shape, images.shape
                ),
            ));
        }
        let (more, second) = read_labels(&self.labels, validation.len(), classes)?;
        images.bytes.extend(validation.bytes);
        labels.extend(more);
        Ok([first, second])
    }
}

/// Returns the scaling (x/255 − mean)/deviation by all training pixels; `None` if they are equal.
fn training_scaling(images: &Images, assigned: &AssignedRows) -> Option<Scaling> {
    let width = images.width();
    let mut counts = [0u64; 256];
    for row in assigned.clients.iter().flat_map(|part| &part.train) {
        let image = &images.bytes[*row as usize * width..][..width];
        image
            .iter()
            .for_each(|pixel| counts[usize::from(*pixel)] += 1);
    }
    let total: u64 = counts.iter().sum();
    let expected = |f: &dyn Fn(f64) -> f64| {
        let values = counts.iter().enumerate();
        let sum: f64 = values
            .map(|(x, count)| *count as f64 * f(x as f64 / 255.0))
            .sum();
        sum / total as f64
    };
    let mean = expected(&|x| x);
    let deviation = expected(&|x| (x - mean).powi(2)).sqrt();
    (deviation > 0.0).then(|| Scaling::normalized(&[(mean, deviation)]))
}
