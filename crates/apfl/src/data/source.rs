//! `[data]`: the kinds of data there are.

use std::sync::Arc;

use super::Dataset;
use crate::error::Result;
use crate::settings::{Kind, Section};

/// Keys that every kind of data has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Common {
    /// The data's seed.
    pub seed: u64,
    /// The share of its examples that a client holds out.
    pub validation: f64,
    /// The share that it holds out beside that and that nothing is chosen by.
    pub test: f64,
    /// Clients with fewer examples are left out.
    pub min_examples: usize,
}

/// One kind of data: what reads the rest of `[data]`, and what is shown.
pub type SourceKind = Kind<fn(&mut Section<'_>, Common) -> Source>;

/// Makes [`Source`] of the kinds of data: each is a module with a `KIND` and a type of the
/// variant's name, which has `load`.
macro_rules! sources {
    ($($module:ident => $variant:ident;)+) => {
        /// One of the kinds of data, with its settings.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Source {
            $(
                #[doc = concat!("See [`", stringify!($module), "`](super::", stringify!($module), ").")]
                $variant(super::$module::$variant),
            )+
        }

        crate::settings::registry! {
            Source, SourceKind: $($variant = super::$module::KIND),+
        }

        impl Source {
            /// Reads or makes the data.
            pub fn load(&self) -> Result<Arc<dyn Dataset>> {
                match self {
                    $(Source::$variant(source) => Ok(Arc::new(source.load()?)),)+
                }
            }
        }
    };
}

// Every kind of data there is.
sources! {
    synthetic => Synthetic;
    mnist => Mnist;
    qmnist => Qmnist;
    femnist => Femnist;
    cifar10 => Cifar10;
    leaf => Leaf;
    idx => Idx;
    table => Table;
}

impl Source {
    /// Reads `[data]`; `seed` is the run's.
    pub fn read(s: &mut Section<'_>, seed: u64) -> Self {
        let kind = s.pick("kind", Self::KINDS);
        let most = i64::MAX as u64;
        let common = Common {
            seed: s.integer("seed", seed, 0..=most, "a whole number ≥ 0"),
            validation: s.float("validation", 0.2, 1e-9..1.0, "more than 0, less than 1"),
            test: s.float("test", 0.0, 0.0..1.0, "0 to less than 1"),
            min_examples: s.integer("min_examples", 0, 0..=most, "a whole number ≥ 0") as usize,
        };
        if common.validation + common.test >= 1.0 {
            let Common {
                validation, test, ..
            } = common;
            s.problem(
                "test",
                format!(
                    "found {test}: with data.validation = {validation} nothing is left to train on"
                ),
            );
        }
        (kind.read)(s, common)
    }

    /// Whether a number is predicted, and not a class.
    pub fn predicts_numbers(&self) -> bool {
        matches!(self, Source::Table(table) if table.regression)
    }
}
