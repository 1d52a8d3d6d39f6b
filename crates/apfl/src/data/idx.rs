//! IDX, the format of MNIST: a magic number, the dimensions, the values. And `idx`:
//! a user's own images in it.
//!
//! Bytes 0 and 1 are zero, byte 2 is the type of the values, byte 3 the number of
//! dimensions; then every dimension as a big-endian u32, then the values.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::deal::{self, Dealt};
use super::images::{Images, assemble, read_column, read_labels};
use super::partition::Partition;
use super::{Common, InMemory, Scaling, Source, SourceFile, SourceKind, folder};
use crate::error::Result;
use crate::settings::{Kind, Section};

/// The type of an array's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 0x08
    U8,
    /// 0x09
    I8,
    /// 0x0B
    I16,
    /// 0x0C
    I32,
    /// 0x0D
    F32,
    /// 0x0E
    F64,
}

impl Element {
    fn of(code: u8) -> Option<Self> {
        Some(match code {
            0x08 => Element::U8,
            0x09 => Element::I8,
            0x0b => Element::I16,
            0x0c => Element::I32,
            0x0d => Element::F32,
            0x0e => Element::F64,
            _ => return None,
        })
    }

    /// Bytes of one value.
    pub fn size(self) -> usize {
        match self {
            Element::U8 | Element::I8 => 1,
            Element::I16 => 2,
            Element::I32 | Element::F32 => 4,
            Element::F64 => 8,
        }
    }
}

/// An array as the file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The type of its values.
    pub element: Element,
    /// Its dimensions; the last runs fastest.
    pub shape: Vec<usize>,
    /// Its values, big-endian.
    pub bytes: Vec<u8>,
}

impl Array {
    /// Reads an array, plain or gzipped. What the header promises is checked against
    /// what is there before memory is taken.
    pub fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        if !folder::is_gzip(bytes) {
            let (element, shape, start, size) = header(bytes)?;
            let found = (bytes.len() - start) as u64;
            if size != found {
                return Err(promised(&shape, size, found));
            }
            return Ok(Self {
                element,
                shape,
                bytes: bytes[start..].to_vec(),
            });
        }
        // 4 bytes and up to 255 dimensions: enough for any header.
        let head = folder::inflate(bytes, 4 + 4 * 255)?;
        let (element, shape, start, size) = header(&head)?;
        let most = folder::MOST_PER_BYTE * bytes.len() as u64;
        if size > most {
            return Err(promised(&shape, size, most));
        }
        let mut values = folder::inflate(bytes, start as u64 + size + 1)?;
        let found = (values.len() - start) as u64;
        if size != found {
            return Err(promised(&shape, size, found));
        }
        values.drain(..start);
        Ok(Self {
            element,
            shape,
            bytes: values,
        })
    }

    /// Reads a file, and returns its checksum too.
    pub fn read(path: &Path) -> Result<(Self, SourceFile)> {
        let (bytes, file) = folder::read(path)?;
        let array = Self::parse(&bytes).map_err(|e| folder::wrong(path, e))?;
        Ok((array, file))
    }

    /// Its values where they are whole numbers.
    pub fn integers(&self) -> std::result::Result<Vec<i64>, String> {
        let values = self.bytes.chunks_exact(self.element.size());
        let word = |b: &[u8]| b.iter().fold(0i64, |sum, byte| sum << 8 | i64::from(*byte));
        Ok(match self.element {
            Element::U8 => values.map(word).collect(),
            Element::I8 => values.map(|b| i64::from(word(b) as i8)).collect(),
            Element::I16 => values.map(|b| i64::from(word(b) as i16)).collect(),
            Element::I32 => values.map(|b| i64::from(word(b) as i32)).collect(),
            Element::F32 | Element::F64 => {
                return Err(format!(
                    "has {:?} values, needed are integers",
                    self.element
                ));
            }
        })
    }
}

type Header = (Element, Vec<usize>, usize, u64);

fn header(bytes: &[u8]) -> std::result::Result<Header, String> {
    let &[zero, also_zero, code, dimensions, ..] = bytes else {
        return Err(format!(
            "has {} bytes, too few for an IDX file",
            bytes.len()
        ));
    };
    let element = Element::of(code).filter(|_| (zero, also_zero) == (0, 0));
    let Some(element) = element.filter(|_| dimensions > 0) else {
        return Err(format!(
            "is not an IDX file: it begins with the bytes {zero:02x} {also_zero:02x} {code:02x} \
             {dimensions:02x}, an IDX file with 00 00, a type from 08 to 0e and a number of \
             dimensions"
        ));
    };
    let start = 4 + 4 * usize::from(dimensions);
    let Some(lengths) = bytes.get(4..start) else {
        return Err(format!(
            "ends within its header: {dimensions} dimensions were promised"
        ));
    };
    let shape: Vec<usize> = lengths
        .chunks_exact(4)
        .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]) as usize)
        .collect();
    let size = shape
        .iter()
        .try_fold(element.size() as u64, |size, d| size.checked_mul(*d as u64))
        .ok_or_else(|| format!("has dimensions whose product overflows: {shape:?}"))?;
    Ok((element, shape, start, size))
}

fn promised(shape: &[usize], size: u64, found: u64) -> String {
    format!(
        "does not fit its header: dimensions {shape:?} need {size} bytes of values, \
         there are {}{found}",
        if found > size { "more: " } else { "at most " }
    )
}

/// The most classes that labels are taken for.
const MOST_CLASSES: usize = 1 << 16;

/// A user's own images.
#[derive(Clone, Debug, PartialEq)]
pub struct Idx {
    /// The images.
    pub images: PathBuf,
    /// Their labels.
    pub labels: PathBuf,
    /// Who owns which image.
    pub owners: Owners,
    /// How many classes there are; by default one more than the largest label.
    pub classes: Option<usize>,
    /// Seed, held-out share and least number of examples.
    pub common: Common,
}

/// How images fall on clients.
#[derive(Clone, Debug, PartialEq)]
pub enum Owners {
    /// A file that has the client's number for every image.
    File(PathBuf),
    /// By a partition.
    Dealt(Partition),
}

pub(super) const KIND: SourceKind = Kind {
    name: "idx",
    about: "your own images, as IDX files, plain or gzipped",
    keys: &[
        ("images = \"images-idx3-ubyte.gz\"", ""),
        (
            "labels = \"labels-idx1-ubyte.gz\"",
            "a class for every image",
        ),
        (
            "clients = \"owners-idx1-int.gz\"",
            "the owner of every image; or a number, and a partition",
        ),
        (
            "# classes = 10",
            "how many there are; without it, the largest label + 1",
        ),
    ],
    examples: &[
        "{ kind = 'idx', images = 'i', labels = 'l', clients = 'c' }",
        "{ kind = 'idx', images = 'i', labels = 'l', clients = 5, partition = 'shards' }",
    ],
    read: |s, common| Source::Idx(Idx::read(s, common)),
};

impl Idx {
    /// Reads `[data]`. `clients` is a file, or how many clients the images are dealt to.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        for key in ["images", "labels"] {
            if !s.has(key) {
                s.problem(key, "missing: an IDX file, plain or gzipped");
            }
        }
        Self {
            images: folder::read_path(s, "images", ""),
            labels: folder::read_path(s, "labels", ""),
            classes: s
                .optional_integer("classes", 2..=MOST_CLASSES as u64, "2 to 65536")
                .map(|classes| classes as usize),
            owners: match s.is_text("clients") {
                true => Owners::File(folder::read_path(s, "clients", "")),
                false => Owners::Dealt(Partition::read(s, "stripe")),
            },
            common,
        }
    }

    /// Reads the files. Pixels become x/255, minus the training mean, over the training
    /// deviation, one number each.
    pub fn load(&self) -> Result<InMemory> {
        let (images, file) = Images::read(&self.images)?;
        let mut files = vec![file];
        let most = self.classes.unwrap_or(MOST_CLASSES);
        let (labels, file) = read_labels(&self.labels, images.len(), most)?;
        files.push(file);
        let classes = self.class_count(&labels)?;
        let mut dealt = match &self.owners {
            Owners::Dealt(partition) => {
                deal::by_partition(partition, &labels, classes, &self.common)?
            }
            Owners::File(path) => {
                let (owners, file) = read_column(path, images.len())?;
                files.push(file);
                deal::by_owner(
                    deal::grouped(&owners, |id| id.to_string()),
                    None,
                    &self.common,
                )?
            }
        };
        let scaling = training_scaling(&images, &dealt)
            .ok_or_else(|| folder::wrong(&self.images, "every training pixel is the same"))?;
        self.check_classes(&labels, classes, &mut dealt)?;
        let names = (0..classes).map(|c| c.to_string()).collect();
        Ok(assemble(images, labels, names, scaling, dealt, files))
    }

    fn class_count(&self, labels: &[u32]) -> Result<usize> {
        let wrong = |what: String| Err(folder::wrong(&self.labels, what));
        if let Some(classes) = self.classes {
            return Ok(classes);
        }
        let classes = labels.iter().max().map_or(0, |most| *most as usize + 1);
        let different: BTreeSet<&u32> = labels.iter().collect();
        match classes {
            ..2 => wrong("every label is 0: there is nothing to learn".into()),
            // One damaged byte would make a thousand classes.
            _ if 2 * different.len() < classes => wrong(format!(
                "its labels go up to {} but only {} of them occur; data.classes says how many \
                 classes there are",
                classes - 1,
                different.len()
            )),
            _ => Ok(classes),
        }
    }

    /// A class that nobody trains on cannot be validated; one that does not occur is said.
    fn check_classes(&self, labels: &[u32], classes: usize, dealt: &mut Dealt) -> Result<()> {
        let mut trained = vec![false; classes];
        for row in dealt.parts.iter().flat_map(|part| &part.train) {
            trained[labels[*row as usize] as usize] = true;
        }
        for part in &dealt.parts {
            let label = |row: &u32| labels[*row as usize];
            if let Some(label) = part.valid.iter().map(label).find(|l| !trained[*l as usize]) {
                return Err(folder::wrong(
                    &self.labels,
                    format!(
                        "the label {label} is among the validation examples of client '{}' but \
                         in nobody's training examples; another data.seed may hold out others",
                        part.name
                    ),
                ));
            }
        }
        let missing = trained.iter().filter(|trained| !**trained).count();
        if missing > 0 {
            let note = format!("{missing} of {classes} classes have no training example");
            dealt.notes.push(note);
        }
        Ok(())
    }
}

/// (x/255 − mean)/deviation over all pixels of all training examples.
fn training_scaling(images: &Images, dealt: &Dealt) -> Option<Scaling> {
    let width = images.width();
    let mut counts = [0u64; 256];
    for row in dealt.parts.iter().flat_map(|part| &part.train) {
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
