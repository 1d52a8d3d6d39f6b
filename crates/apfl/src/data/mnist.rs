//! `mnist`: the 60,000 training digits of MNIST (LeCun, Cortes and Burges, 1998).

use std::path::{Path, PathBuf};

use super::images::{Images, assemble, read_labels};
use super::partition::{CLIENTS, PARTITION, Partition};
use super::{Common, InMemory, Scaling, Source, SourceFile, SourceKind, assign, folder};
use crate::error::{Error, Result};
use crate::settings::{Kind, Section};

/// Mean and deviation of the training digits' pixels, ink bright: x/255 − .1307 over .3081.
pub(super) const MOMENTS: (f64, f64) = (0.1307, 0.3081);

/// Digits 0 to 9.
pub(super) const CLASSES: usize = 10;

/// Represents MNIST and its partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Mnist {
    /// The folder.
    pub dir: PathBuf,
    /// The assignment of digits to clients.
    pub partition: Partition,
    /// Seed, held-out shares and minimum number of examples.
    pub common: Common,
}

pub(super) const KIND: SourceKind = Kind {
    name: "mnist",
    about: "60,000 handwritten digits (MNIST), assigned to clients",
    settings: &[&folder::DIR, &CLIENTS, &PARTITION],
    examples: &["{ kind = 'mnist', clients = 10, partition = 'iid' }"],
    value: |s, common| Source::Mnist(Mnist::read(s, common)),
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

    /// Loads the digits and assigns them to clients.
    pub fn load(&self) -> Result<InMemory> {
        let (images, file) = read_images(&self.dir, "train", "mnist")?;
        let mut files = vec![file];
        let labels = folder::find(&self.dir, "train-labels-idx1-ubyte", "mnist")?;
        let (labels, file) = read_labels(&labels, images.len(), CLASSES)?;
        require_mnist(&labels, &self.dir)?;
        files.push(file);
        let assigned = assign::by_partition(&self.partition, &labels, CLASSES, &self.common)?;
        let scaling = Scaling::normalized(&[MOMENTS]);
        Ok(assemble(images, labels, digits(), scaling, assigned, files))
    }
}

/// The number of each digit among MNIST's 60,000 training images.
const DIGIT_COUNTS: [usize; CLASSES] = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949];

/// Refuses the files of other data sets with MNIST's shape and file names, such as Fashion-MNIST
/// and KMNIST.
fn require_mnist(labels: &[u32], dir: &Path) -> Result<()> {
    let mut counts = [0; CLASSES];
    labels.iter().for_each(|label| counts[*label as usize] += 1);
    if labels.len() == DIGIT_COUNTS.iter().sum::<usize>() && counts != DIGIT_COUNTS {
        Err(Error::in_file(
            dir,
            "is not MNIST: the digits have other frequencies; for other data of its shape use \
             kind = \"idx\" with images and labels",
        ))
    } else {
        Ok(())
    }
}

/// Reads the images of `train` or `t10k`.
pub(super) fn read_images(dir: &Path, part: &str, kind: &str) -> Result<(Images, SourceFile)> {
    let path = folder::find(dir, &format!("{part}-images-idx3-ubyte"), kind)?;
    let (images, file) = Images::read(&path)?;
    if images.shape != [1, 28, 28] {
        return Err(Error::in_file(
            &path,
            format!("has images of shape {:?}; MNIST's are 28×28", images.shape),
        ));
    }
    Ok((images, file))
}

/// Returns the names of the classes.
pub(super) fn digits() -> Vec<String> {
    (0..CLASSES).map(|digit| digit.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_its_shape_is_not_taken_for_mnist() {
        let labels = |counts: [usize; CLASSES]| -> Vec<u32> {
            let each = counts.iter().enumerate();
            each.flat_map(|(digit, n)| vec![digit as u32; *n]).collect()
        };
        let dir = Path::new("somewhere");
        require_mnist(&labels(DIGIT_COUNTS), dir).unwrap();
        // Fashion-MNIST and KMNIST have 6,000 of each class.
        let error = require_mnist(&labels([6000; CLASSES]), dir).unwrap_err();
        assert!(error.to_string().contains("is not MNIST"), "{error}");
        // The counts of a part are not checked.
        require_mnist(&labels([10; CLASSES]), dir).unwrap();
    }
}
