//! `cifar10`: CIFAR-10 (Krizhevsky, 2009) from its five binary training batches.
//!
//! A record is one label byte and 3072 pixels: the red, the green and the blue plane,
//! each 32×32 row by row.

use std::path::PathBuf;

use super::images::{Images, assemble};
use super::partition::{CLIENTS, PARTITION, Partition};
use super::{Common, InMemory, Scaling, Source, SourceKind, assign, folder};
use crate::error::{Error, Result};
use crate::settings::{Kind, Section};

/// Mean and deviation of red, green and blue.
const MOMENTS: [(f64, f64); 3] = [(0.4914, 0.2023), (0.4822, 0.1994), (0.4465, 0.2010)];

const CLASSES: [&str; 10] = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
];

const PIXELS: usize = 3 * 32 * 32;

/// The number of records of an official batch.
const MAX_RECORDS: u64 = 10_000;

/// Represents CIFAR-10 and its partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Cifar10 {
    /// The folder.
    pub dir: PathBuf,
    /// The assignment of images to clients.
    pub partition: Partition,
    /// Seed, held-out shares and minimum number of examples.
    pub common: Common,
}

pub(super) const KIND: SourceKind = Kind {
    name: "cifar10",
    about: "50,000 small photographs of ten classes (CIFAR-10), assigned to clients",
    settings: &[&folder::DIR, &CLIENTS, &PARTITION],
    examples: &["{ kind = 'cifar10', partition = { kind = 'dirichlet' } }"],
    value: |s, common| Source::Cifar10(Cifar10::read(s, common)),
};

impl Cifar10 {
    /// Reads `[data]`.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        Self {
            dir: folder::read_dir(s, "cifar10"),
            partition: Partition::read(s, "stripe"),
            common,
        }
    }

    /// Loads the 50,000 training images and assigns them to clients.
    pub fn load(&self) -> Result<InMemory> {
        let (mut bytes, mut labels, mut files) = (Vec::new(), Vec::new(), Vec::new());
        for batch in 1..=5 {
            let path = folder::find(&self.dir, &format!("data_batch_{batch}.bin"), "cifar10")?;
            let (content, file) = folder::read(&path)?;
            parse(&content, &mut bytes, &mut labels).map_err(|e| Error::in_file(&path, e))?;
            files.push(file);
        }
        let images = Images {
            shape: vec![3, 32, 32],
            bytes,
        };
        let assigned = assign::by_partition(&self.partition, &labels, CLASSES.len(), &self.common)?;
        let names = CLASSES.map(String::from).to_vec();
        let scaling = Scaling::normalized(&MOMENTS);
        Ok(assemble(images, labels, names, scaling, assigned, files))
    }
}

/// Appends the images and labels of one batch, plain or gzipped.
pub fn parse(
    content: &[u8],
    bytes: &mut Vec<u8>,
    labels: &mut Vec<u32>,
) -> std::result::Result<(), String> {
    let unpacked;
    let content = if folder::is_gzip(content) {
        unpacked = folder::inflate(content, MAX_RECORDS * (PIXELS as u64 + 1) + 1)?;
        &unpacked[..]
    } else {
        content
    };
    let record = PIXELS + 1;
    if content.is_empty() || content.len() % record != 0 {
        return Err(format!(
            "has {} bytes; a batch of CIFAR-10 has a multiple of {record}",
            content.len()
        ));
    }
    let records = content.chunks_exact(record);
    if let Some((k, label)) = records
        .clone()
        .map(|record| record[0])
        .enumerate()
        .find(|(_, label)| usize::from(*label) >= CLASSES.len())
    {
        return Err(format!(
            "the label of image {k} is {label}, allowed is 0 to 9"
        ));
    }
    for record in records {
        labels.push(u32::from(record[0]));
        bytes.extend_from_slice(&record[1..]);
    }
    Ok(())
}
