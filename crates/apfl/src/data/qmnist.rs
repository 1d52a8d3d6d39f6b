//! `qmnist`: all 70,000 digits of MNIST with their writers, who are the clients.
//!
//! QMNIST (Yadav and Bottou, 2019) traced MNIST's digits back to their writers. Row k of
//! its extended label tables belongs to image k of MNIST; of the test table only the
//! first 10,000 rows do. Columns: class, NIST series, writer, digit index, class code,
//! global index, duplicate, unused.

use std::path::{Path, PathBuf};

use super::idx::Array;
use super::images::assemble;
use super::mnist::{CLASSES, MOMENTS, digits, read_images};
use super::{Common, InMemory, Scaling, Source, SourceFile, SourceKind, assign, folder};
use crate::error::{Error, Result};
use crate::settings::{Kind, Section};

/// Represents QMNIST.
#[derive(Clone, Debug, PartialEq)]
pub struct Qmnist {
    /// The folder; MNIST's images are in it or in the folder `mnist` beside it.
    pub dir: PathBuf,
    /// Seed, held-out shares and minimum number of examples.
    pub common: Common,
}

pub(super) const KIND: SourceKind = Kind {
    name: "qmnist",
    about: "the 70,000 digits of MNIST by writer: the writers are the clients",
    settings: &[&folder::DIR],
    examples: &["{ kind = 'qmnist', min_examples = 20 }"],
    value: |s, common| Source::Qmnist(Qmnist::read(s, common)),
};

impl Qmnist {
    /// Reads `[data]`.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        Self {
            dir: folder::read_dir(s, "qmnist"),
            common,
        }
    }

    /// Loads the digits and assigns each to its writer.
    pub fn load(&self) -> Result<InMemory> {
        let beside = self.dir.with_file_name("mnist");
        let own = folder::find(&self.dir, "train-images-idx3-ubyte", "mnist").is_ok();
        let images_dir = if own { &self.dir } else { &beside };
        let (mut images, file) = read_images(images_dir, "train", "mnist")?;
        let mut files = vec![file];
        let (mut labels, mut writers) = (Vec::new(), Vec::new());
        let mut table = |part: &str, rows: usize, files: &mut Vec<SourceFile>| -> Result<()> {
            let name = format!("qmnist-{part}-labels-idx2-int");
            let path = folder::find(&self.dir, &name, "qmnist")?;
            files.push(read_table(&path, rows, &mut labels, &mut writers)?);
            Ok(())
        };
        table("train", images.len(), &mut files)?;
        let (test, file) = read_images(images_dir, "t10k", "mnist")?;
        files.push(file);
        table("test", test.len(), &mut files)?;
        images.bytes.extend_from_slice(&test.bytes);
        let owners = assign::group_by_owner(&writers, |id| id.to_string());
        let assigned = assign::by_owner(owners, None, &self.common)?;
        let scaling = Scaling::normalized(&[MOMENTS]);
        Ok(assemble(images, labels, digits(), scaling, assigned, files))
    }
}

/// Appends the classes and writers of the first `rows` rows.
fn read_table(
    path: &Path,
    rows: usize,
    labels: &mut Vec<u32>,
    writers: &mut Vec<i64>,
) -> Result<SourceFile> {
    let (array, file) = Array::read(path)?;
    let columns = match array.shape[..] {
        [n, columns] if n >= rows && columns >= 3 => columns,
        _ => {
            return Err(Error::in_file(
                path,
                format!(
                    "has the dimensions {:?}; expected at least {rows} rows of 8 columns",
                    array.shape
                ),
            ));
        }
    };
    let values = array.integers().map_err(|e| Error::in_file(path, e))?;
    for (k, row) in values.chunks_exact(columns).take(rows).enumerate() {
        let class = u32::try_from(row[0]).ok().filter(|c| *c < CLASSES as u32);
        let class = class.ok_or_else(|| {
            Error::in_file(
                path,
                format!("row {k}: the class is {}; allowed is 0 to 9", row[0]),
            )
        })?;
        labels.push(class);
        writers.push(row[2]);
    }
    Ok(file)
}
