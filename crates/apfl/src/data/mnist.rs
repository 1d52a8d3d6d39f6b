//! `mnist`: the 60,000 training digits of MNIST (LeCun, Cortes and Burges, 1998).

use std::path::{Path, PathBuf};

use super::images::{Images, assemble, read_labels};
use super::partition::Partition;
use super::{Common, InMemory, Scaling, Source, SourceFile, SourceKind, deal, folder};
use crate::error::Result;
use crate::settings::{Kind, Section};

/// Mean and deviation of the training digits' pixels, ink bright: x/255 − .1307 over .3081.
pub(super) const MOMENTS: (f64, f64) = (0.1307, 0.3081);

/// Digits 0 to 9.
pub(super) const CLASSES: usize = 10;

/// Where MNIST lies and how it is dealt.
#[derive(Clone, Debug, PartialEq)]
pub struct Mnist {
    /// The folder.
    pub dir: PathBuf,
    /// How the digits are dealt to clients.
    pub partition: Partition,
    /// Seed, held-out share and least number of examples.
    pub common: Common,
}

pub(super) const KIND: SourceKind = Kind {
    name: "mnist",
    about: "60,000 handwritten digits (MNIST), dealt to clients",
    keys: &[
        (
            "# dir = \"data/mnist\"",
            "its folder; without it, mnist in the data directory",
        ),
        ("clients = 100", "how many clients it is dealt to"),
        ("partition = \"stripe\"", "how it is dealt"),
    ],
    examples: &["{ kind = 'mnist', clients = 10, partition = 'iid' }"],
    read: |s, common| Source::Mnist(Mnist::read(s, common)),
};

impl Mnist {
    /// Reads `[data]`.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        Self {
            dir: folder::read_dir(s, "mnist"),
            partition: Partition::read(s, "stripe"),
            common,
        }
    }

    /// Reads and deals the digits.
    pub fn load(&self) -> Result<InMemory> {
        let (images, file) = read_images(&self.dir, "train", "mnist")?;
        let mut files = vec![file];
        let labels = folder::find(&self.dir, "train-labels-idx1-ubyte", "mnist")?;
        let (labels, file) = read_labels(&labels, images.len(), CLASSES)?;
        files.push(file);
        let dealt = deal::by_partition(&self.partition, &labels, CLASSES, &self.common)?;
        let scaling = Scaling::normalized(&[MOMENTS]);
        Ok(assemble(images, labels, digits(), scaling, dealt, files))
    }
}

/// The images of `train` or `t10k`.
pub(super) fn read_images(dir: &Path, part: &str, kind: &str) -> Result<(Images, SourceFile)> {
    let path = folder::find(dir, &format!("{part}-images-idx3-ubyte"), kind)?;
    let (images, file) = Images::read(&path)?;
    if images.shape != [1, 28, 28] {
        return Err(folder::wrong(
            &path,
            format!(
                "has images of the shape {:?}, MNIST's are 28×28",
                images.shape
            ),
        ));
    }
    Ok((images, file))
}

/// The classes' names.
pub(super) fn digits() -> Vec<String> {
    (0..CLASSES).map(|digit| digit.to_string()).collect()
}
