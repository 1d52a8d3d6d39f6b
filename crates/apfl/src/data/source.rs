//! `[data]`: the kinds of data there are. A new one is a file and a line in
//! each list here; the compiler asks for those that are missing.

use std::sync::Arc;

use super::cifar10::Cifar10;
use super::femnist::Femnist;
use super::idx::Idx;
use super::leaf::Leaf;
use super::mnist::Mnist;
use super::qmnist::Qmnist;
use super::synthetic::Synthetic;
use super::table::Table;
use super::{Dataset, InMemory};
use crate::error::Result;
use crate::settings::Section;

/// Keys that every kind of data has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Common {
    /// The data's seed.
    pub seed: u64,
    /// The share of its examples that a client holds out.
    pub validation: f64,
    /// Clients with fewer examples are left out.
    pub min_examples: usize,
}

/// One of the kinds of data, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Made up by a generator.
    Synthetic(Synthetic),
    /// MNIST, dealt to clients.
    Mnist(Mnist),
    /// MNIST by writer.
    Qmnist(Qmnist),
    /// FEMNIST's digits by writer.
    Femnist(Femnist),
    /// CIFAR-10, dealt to clients.
    Cifar10(Cifar10),
    /// A folder as LEAF writes it.
    Leaf(Leaf),
    /// A user's own images.
    Idx(Idx),
    /// A user's own table.
    Table(Table),
}

impl Source {
    /// Reads `[data]`; `seed` is the run's.
    pub fn read(s: &mut Section<'_>, seed: u64) -> Self {
        type Read = fn(&mut Section<'_>, Common) -> Source;
        let kinds: [(&str, Read); 8] = [
            ("synthetic", |s, c| Source::Synthetic(Synthetic::read(s, c))),
            ("mnist", |s, c| Source::Mnist(Mnist::read(s, c))),
            ("qmnist", |s, c| Source::Qmnist(Qmnist::read(s, c))),
            ("femnist", |s, c| Source::Femnist(Femnist::read(s, c))),
            ("cifar10", |s, c| Source::Cifar10(Cifar10::read(s, c))),
            ("leaf", |s, c| Source::Leaf(Leaf::read(s, c))),
            ("idx", |s, c| Source::Idx(Idx::read(s, c))),
            ("table", |s, c| Source::Table(Table::read(s, c))),
        ];
        let read = s.choice("kind", "synthetic", &kinds);
        let most = i64::MAX as u64;
        let common = Common {
            seed: s.integer("seed", seed, 0..=most, "a whole number ≥ 0"),
            validation: s.float("validation", 0.2, 1e-9..1.0, "more than 0, less than 1"),
            min_examples: s.integer("min_examples", 0, 0..=most, "a whole number ≥ 0") as usize,
        };
        read(s, common)
    }

    /// Its kind, as a spec writes it.
    pub fn kind(&self) -> &'static str {
        match self {
            Source::Synthetic(_) => "synthetic",
            Source::Mnist(_) => "mnist",
            Source::Qmnist(_) => "qmnist",
            Source::Femnist(_) => "femnist",
            Source::Cifar10(_) => "cifar10",
            Source::Leaf(_) => "leaf",
            Source::Idx(_) => "idx",
            Source::Table(_) => "table",
        }
    }

    /// Reads or makes the data.
    pub fn load(&self) -> Result<Arc<dyn Dataset>> {
        let in_memory: Result<InMemory> = match self {
            Source::Synthetic(synthetic) => return Ok(Arc::new(synthetic.load()?)),
            Source::Mnist(mnist) => mnist.load(),
            Source::Qmnist(qmnist) => qmnist.load(),
            Source::Femnist(femnist) => femnist.load(),
            Source::Cifar10(cifar10) => cifar10.load(),
            Source::Leaf(leaf) => leaf.load(),
            Source::Idx(idx) => idx.load(),
            Source::Table(table) => table.load(),
        };
        Ok(Arc::new(in_memory?))
    }
}
