//! `femnist`: handwritten digits of FEMNIST (LEAF; underlying NIST SD 19) by writer.
//!
//! Four parallel IDX arrays: images of 28×28, labels, writers (a row of `writers.tsv`)
//! and the split that LEAF made, 0 for training and 1 for validation. In the files 255 is
//! white paper; pixels become 255 − v, so that ink is bright as in MNIST, and are scaled
//! with MNIST's mean and deviation.

use std::path::{Path, PathBuf};

use super::images::{Images, assemble, read_column, read_labels};
use super::mnist::{CLASSES, MOMENTS, digits};
use super::{Common, InMemory, Scaling, Source, SourceFile, SourceKind, assign, folder};
use crate::error::{Error, Result};
use crate::settings::{Kind, Section};

/// Represents the digits of FEMNIST.
#[derive(Clone, Debug, PartialEq)]
pub struct Femnist {
    /// The folder.
    pub dir: PathBuf,
    /// Minimum number of examples; seed and held-out shares are not used.
    pub common: Common,
}

pub(super) const KIND: SourceKind = Kind {
    name: "femnist",
    about: "the digits of FEMNIST by writer, in the split that LEAF made",
    settings: &[&folder::DIR],
    examples: &["{ kind = 'femnist' }"],
    value: |s, common| Source::Femnist(Femnist::read(s, common)),
};

impl Femnist {
    /// Reads `[data]`.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        Self {
            dir: folder::read_dir(s, "femnist"),
            common,
        }
    }

    /// Loads the digits and assigns each to its writer.
    pub fn load(&self) -> Result<InMemory> {
        let find =
            |name: &str| folder::find(&self.dir, &format!("femnist-digits-{name}"), "femnist");
        let mut files = Vec::new();
        let (mut images, file) = Images::read(&find("images-idx3-ubyte")?)?;
        files.push(file);
        images
            .bytes
            .iter_mut()
            .for_each(|pixel| *pixel = 255 - *pixel);
        let count = images.len();
        let (labels, file) = read_labels(&find("labels-idx1-ubyte")?, count, CLASSES)?;
        files.push(file);
        let path = find("split-idx1-ubyte")?;
        let (split, file) = read_labels(&path, count, 2)?;
        files.push(file);
        let path = find("writers-idx1-short")?;
        let (writers, file) = read_column(&path, count)?;
        files.push(file);
        let (names, file) = read_names(&self.dir.join("writers.tsv"))?;
        files.push(file);
        let unnamed = |id: &&i64| usize::try_from(**id).map_or(true, |id| id >= names.len());
        if let Some(id) = writers.iter().find(unnamed) {
            return Err(Error::in_file(
                &path,
                format!(
                    "has the writer {id}; writers.tsv has writers 0 to {}",
                    names.len().saturating_sub(1)
                ),
            ));
        }
        let is_validation: Vec<bool> = split.iter().map(|part| *part == 1).collect();
        let owners = assign::group_by_owner(&writers, |id| names[id as usize].clone());
        let mut assigned = assign::by_owner(owners, Some(&is_validation), &self.common)?;
        assigned
            .notes
            .push("pixels are read as 255 − v: ink is bright, as in MNIST".into());
        let scaling = Scaling::normalized(&[MOMENTS]);
        Ok(assemble(images, labels, digits(), scaling, assigned, files))
    }
}

/// Reads the writers' names: the second column of a table with a header.
fn read_names(path: &Path) -> Result<(Vec<String>, SourceFile)> {
    let (bytes, file) = folder::read(path)?;
    let text = std::str::from_utf8(&bytes).map_err(|e| Error::in_file(path, e))?;
    let mut names = Vec::new();
    for (k, line) in text.lines().skip(1).enumerate() {
        let mut fields = line.split('\t');
        let index = fields.next().and_then(|index| index.parse::<usize>().ok());
        match (index, fields.next()) {
            (Some(index), Some(name)) if index == k && !name.is_empty() => names.push(name.into()),
            _ => {
                return Err(Error::in_file(
                    path,
                    format!(
                        "line {}: expected '{k}', a tab and the writer's name",
                        k + 2
                    ),
                ));
            }
        }
    }
    Ok((names, file))
}
