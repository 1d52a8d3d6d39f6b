//! `[data]`: the kinds of data.

use std::sync::Arc;

use super::Dataset;
use super::idx::Owners;
use super::partition::Partition;
use crate::error::{Error, Result};
use crate::settings::{Declaration, Kind, Number, Section, Setting, Whole, above_zero, at_least};

/// Represents the keys that every kind of data has.
#[derive(Clone, Copy, Debug, PartialEq)]
#[doc(hidden)]
pub struct Common {
    /// The data's seed.
    pub seed: u64,
    /// The share of a client's examples for validation.
    pub validation: f64,
    /// The share of a client's examples for a test.
    pub test: f64,
    /// The minimum number of examples; clients with fewer are left out.
    pub min_examples: usize,
}

/// A kind of data, with the function that reads the rest of `[data]`.
#[doc(hidden)]
pub type SourceKind = Kind<fn(&mut Section<'_>, Common) -> Source>;

/// Defines [`Source`]: each kind of data is a module with a `KIND` and a type of the variant's name
/// that has `load`.
macro_rules! sources {
    ($($module:ident => $variant:ident;)+) => {
        /// Represents a kind of data with its settings.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Source {
            $(
                #[doc = concat!("See [`", stringify!($module), "`](super::", stringify!($module), ").")]
                $variant(super::$module::$variant),
            )+
            /// Data that the caller provides.
            #[doc(hidden)]
            Own,
        }

        crate::settings::registry! {
            Source, SourceKind: $($variant = super::$module::KIND),+; Own
        }

        impl Source {
            /// Loads or generates the data.
            pub fn load(&self) -> Result<Arc<dyn Dataset>> {
                match self {
                    $(Source::$variant(source) => Ok(Arc::new(source.load()?)),)+
                    Source::Own => Err(Error::Request(
                        "data.kind: found \"own\", which only the program with the data can run; use \
                         Run::builder"
                            .into(),
                    )),
                }
            }
        }
    };
}

sources! {
    synthetic => Synthetic;
    multisite => Multisite;
    mnist => Mnist;
    qmnist => Qmnist;
    femnist => Femnist;
    cifar10 => Cifar10;
    leaf => Leaf;
    idx => Idx;
    table => Table;
}

const SEED: Setting<Whole> = Setting::optional("seed", at_least(0).to(i64::MAX as u64))
    .help("the data's own seed: synthesis, partition, split")
    .usually("`seed`")
    .example("1")
    .seldom();

const VALIDATION_SHARE: f64 = 0.2;
const VALIDATION: Setting<Number> =
    Setting::number("validation", VALIDATION_SHARE, above_zero(1e-9).below(1.0))
        .help("the share of its examples that each client holds out");

const TEST: Setting<Number> = Setting::number("test", 0.0, at_least(0.0).below(1.0))
    .help("another share, for a test that influences no choice");

const MIN_EXAMPLES: Setting<Whole> =
    Setting::number("min_examples", 0, at_least(0).to(i64::MAX as u64))
        .help("clients with fewer are left out");

impl Source {
    /// The settings that every kind of data has.
    pub const SETTINGS: &[&'static dyn Declaration] = &[&VALIDATION, &TEST, &MIN_EXAMPLES, &SEED];

    /// Reads `[data]`; `seed` is the run's.
    pub fn read(s: &mut Section<'_>, seed: u64) -> Self {
        let kind = s.pick("kind", Self::KINDS);
        let common = Common {
            seed: s.get_or(&SEED, seed),
            validation: s.get(&VALIDATION),
            test: s.get(&TEST),
            min_examples: s.get(&MIN_EXAMPLES) as usize,
        };
        if common.validation + common.test >= 1.0 {
            let Common {
                validation, test, ..
            } = common;
            s.problem(
                "test",
                format!(
                    "found {test}; data.validation + data.test must be below 1, and \
                     data.validation is {validation}"
                ),
            );
        }
        (kind.value)(s, common)
    }

    /// Returns the share of examples that every client validates with.
    pub fn validation(&self) -> f64 {
        match self {
            Source::Synthetic(own) => own.validation,
            Source::Multisite(own) => own.common.validation,
            Source::Mnist(own) => own.common.validation,
            Source::Qmnist(own) => own.common.validation,
            Source::Femnist(own) => own.common.validation,
            Source::Cifar10(own) => own.common.validation,
            Source::Leaf(own) => own.common.validation,
            Source::Idx(own) => own.common.validation,
            Source::Table(own) => own.common.validation,
            Source::Own => VALIDATION_SHARE,
        }
    }

    /// Returns how examples are assigned to clients, if the data does not name its clients.
    pub fn partition(&self) -> Option<&Partition> {
        match self {
            Source::Mnist(own) => Some(&own.partition),
            Source::Cifar10(own) => Some(&own.partition),
            Source::Idx(own) => match &own.owners {
                Owners::File(_) => None,
                Owners::Partition(partition) => Some(partition),
            },
            _ => None,
        }
    }

    /// Returns whether the task is regression.
    pub fn is_regression(&self) -> bool {
        matches!(self, Source::Table(table) if table.regression)
    }
}
