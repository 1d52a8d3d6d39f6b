//! The registry of algorithms, generated from the list in `mod.rs`.

use toml::Table;

use super::extensions::choosing;
use super::{Algorithm, AlgorithmSpec, Apfl, Properties};
use crate::choice::Choosing;
use crate::settings::{Kind, Problems, Section, Settings};

/// Registry entry of an algorithm, with the reader of `[algorithm]`.
pub type AlgorithmKind = Kind<fn(&mut Section<'_>) -> AlgorithmSpec>;

/// An operation on an algorithm of any type.
pub trait AlgorithmVisitor {
    /// The result.
    type Output;
    /// Visits the algorithm.
    fn visit<A: Algorithm + Clone>(self, algorithm: A) -> Self::Output;
}

/// Exports the types of every algorithm and defines `AlgorithmSpec`.
macro_rules! algorithms {
    ($($module:ident => $($variant:ident($type:ident)),+;)+) => {
        $(pub use $module::{$($type),+};)+

        /// One of the algorithms, with its settings.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum AlgorithmSpec {
            $($(
                #[doc = concat!("[`", stringify!($type), "`] of [`", stringify!($module), "`].")]
                $variant($type),
            )+)+
            /// Description of a custom algorithm in a plan.
            #[doc(hidden)]
            Own(OwnAlgorithm),
        }

        $crate::settings::registry! {
            AlgorithmSpec, AlgorithmKind: $($($variant)|+ = $module::KIND),+; Own
        }

        impl AlgorithmSpec {
            /// Visits the algorithm.
            pub fn accept<T: AlgorithmVisitor>(self, visitor: T) -> T::Output {
                match self {
                    $($(AlgorithmSpec::$variant(algorithm) => visitor.visit(algorithm),)+)+
                    AlgorithmSpec::Own(own) => {
                        panic!("{own:?} is a custom algorithm, which a plan cannot run")
                    }
                }
            }

            /// Returns a listed algorithm as its variant, and a description of any other.
            pub(crate) fn of<A: Algorithm>(algorithm: &A) -> Self {
                let any: &dyn std::any::Any = algorithm;
                $($(if let Some(listed) = any.downcast_ref::<$type>() {
                    return AlgorithmSpec::$variant(listed.clone());
                })+)+
                AlgorithmSpec::Own(OwnAlgorithm::of(algorithm))
            }
        }

        impl $crate::settings::Settings for AlgorithmSpec {
            /// Binds `[algorithm]`.
            fn settings(&mut self, s: &mut $crate::settings::Section<'_>) {
                if s.is_reading() {
                    *self = AlgorithmSpec::read(s);
                    return;
                }
                s.resolve("kind", self.kind());
                match self {
                    $($(AlgorithmSpec::$variant(algorithm) => algorithm.settings(s),)+)+
                    AlgorithmSpec::Own(own) => own.settings(s),
                }
            }
        }
    };
}

/// Description of a custom algorithm in a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnAlgorithm {
    /// Text of its settings.
    description: String,
    properties: Properties,
    choosing: Option<Choosing>,
}

impl OwnAlgorithm {
    pub(super) fn of<A: Algorithm>(algorithm: &A) -> Self {
        Self {
            description: format!("{algorithm:?}"),
            properties: algorithm.properties(),
            choosing: choosing(algorithm).cloned(),
        }
    }
}

impl Settings for OwnAlgorithm {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.resolve("settings", self.description.as_str());
        if let Some(pass) = self.choosing.as_ref().and_then(|choosing| choosing.pass) {
            s.resolve("pass", pass as i64);
        }
        if let Some(problem) = &self.properties.problem {
            s.problem(
                "settings",
                format!("found {}, but {problem}", self.description),
            );
        }
    }
}

impl AlgorithmSpec {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let kind = s.pick("kind", Self::KINDS);
        (kind.value)(s)
    }

    /// Returns one algorithm of every kind, with the default settings.
    pub fn defaults() -> impl Iterator<Item = Self> {
        Self::KINDS.iter().map(|kind| {
            let mut problems = Problems::default();
            (kind.value)(&mut Section::new("algorithm", Table::new(), &mut problems))
        })
    }

    /// Checks that the algorithm is listed. A plan describes a custom one but cannot run it.
    ///
    /// # Errors
    /// If the algorithm is custom; the text says how to run it.
    pub(crate) fn require_listed(&self) -> Result<(), String> {
        match self {
            AlgorithmSpec::Own(own) => Err(format!(
                "algorithm.kind: found \"own\" ({}), which a plan cannot run; build the run with \
                 Run::builder or Training::with_algorithm",
                own.description
            )),
            _ => Ok(()),
        }
    }

    /// Returns APFL's settings for APFL in any form; `None` for other algorithms.
    pub fn apfl(&self) -> Option<&Apfl> {
        match self {
            AlgorithmSpec::Apfl(apfl) => Some(apfl),
            AlgorithmSpec::Averaged(averaged) => Some(&averaged.apfl),
            AlgorithmSpec::AgnosticApfl(agnostic) => Some(&agnostic.inner),
            _ => None,
        }
    }

    /// Returns the settings of the choice among several α, if there is one.
    pub fn choosing(&self) -> Option<&Choosing> {
        match self {
            AlgorithmSpec::Chosen(chosen) => Some(&chosen.choosing),
            AlgorithmSpec::AgnosticChosen(agnostic) => Some(&agnostic.inner.choosing),
            AlgorithmSpec::Own(own) => own.choosing.as_ref(),
            _ => None,
        }
    }

    /// Returns the settings of a choice for a change.
    pub(crate) fn choosing_mut(&mut self) -> Option<&mut Choosing> {
        match self {
            AlgorithmSpec::Chosen(chosen) => Some(&mut chosen.choosing),
            AlgorithmSpec::AgnosticChosen(agnostic) => Some(&mut agnostic.inner.choosing),
            AlgorithmSpec::Own(own) => own.choosing.as_mut(),
            _ => None,
        }
    }

    /// Returns the algorithm with another learning rate of its own; `None` if it has none.
    pub(crate) fn with_own_rate(&self, rate: f64) -> Option<Self> {
        struct WithRate(f64);
        impl AlgorithmVisitor for WithRate {
            type Output = Option<AlgorithmSpec>;
            fn visit<A: Algorithm + Clone>(self, algorithm: A) -> Self::Output {
                let own = algorithm.extensions().rate?;
                Some(AlgorithmSpec::of(&own.with_rate(self.0)))
            }
        }
        match self {
            AlgorithmSpec::Own(_) => None,
            listed => listed.clone().accept(WithRate(rate)),
        }
    }

    /// Returns the algorithm's properties.
    pub fn properties(&self) -> Properties {
        struct PropertiesOf;
        impl AlgorithmVisitor for PropertiesOf {
            type Output = Properties;
            fn visit<A: Algorithm>(self, algorithm: A) -> Properties {
                algorithm.properties()
            }
        }
        match self {
            AlgorithmSpec::Own(own) => own.properties.clone(),
            listed => listed.clone().accept(PropertiesOf),
        }
    }

    /// Returns whether the server chooses the clients' weights.
    pub fn agnostic(&self) -> bool {
        self.properties().weighs_clients
    }

    /// Returns the default geometric schedule: (factor, per what).
    pub(crate) fn default_decay(&self) -> (f64, &'static str) {
        self.properties().default_decay
    }

    /// Returns the kind and the notable settings.
    pub fn describe(&self) -> String {
        format!("{}{}", self.kind(), self.properties().details)
    }
}

/// Returns the examples of every algorithm, which the identity, engine and resume tests use.
pub fn every_algorithm() -> Vec<&'static str> {
    let examples = AlgorithmSpec::KINDS.iter().map(|kind| kind.examples);
    examples.flatten().copied().collect()
}
