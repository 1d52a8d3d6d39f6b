//! The registry of algorithms: what follows from the list in `mod.rs`.

use toml::Table;

use super::extensions::choosing;
use super::{Algorithm, AlgorithmSpec, Apfl, Properties};
use crate::choice::Choosing;
use crate::settings::{Kind, Problems, Section, Settings};

/// One kind of algorithm: what reads the rest of `[algorithm]`, and what is shown.
pub type AlgorithmKind = Kind<fn(&mut Section<'_>) -> AlgorithmSpec>;

/// Something to be done with an algorithm of any type.
pub trait AlgorithmVisitor {
    /// What comes of it.
    type Out;
    /// Visits the algorithm.
    fn visit<A: Algorithm + Clone>(self, algorithm: A) -> Self::Out;
}

/// Exports the types of every algorithm and makes `AlgorithmSpec` of them.
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
            /// What a plan knows of an algorithm of the caller's own.
            #[doc(hidden)]
            Own(OwnAlgorithm),
        }

        $crate::settings::registry! {
            AlgorithmSpec, AlgorithmKind: $($($variant)|+ = $module::KIND),+; Own
        }

        impl AlgorithmSpec {
            /// Visits the algorithm itself.
            pub fn accept<T: AlgorithmVisitor>(self, visitor: T) -> T::Out {
                match self {
                    $($(AlgorithmSpec::$variant(algorithm) => visitor.visit(algorithm),)+)+
                    AlgorithmSpec::Own(own) => {
                        panic!("{own:?} is known to its caller alone: see AlgorithmSpec::require_listed")
                    }
                }
            }

            /// Returns a listed algorithm as its variant, and what a plan must know of any
            /// other.
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

/// What a plan knows of an algorithm of the caller's own.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnAlgorithm {
    /// Its settings, in words.
    words: String,
    properties: Properties,
    choosing: Option<Choosing>,
}

impl OwnAlgorithm {
    pub(super) fn of<A: Algorithm>(algorithm: &A) -> Self {
        Self {
            words: format!("{algorithm:?}"),
            properties: algorithm.properties(),
            choosing: choosing(algorithm).cloned(),
        }
    }
}

impl Settings for OwnAlgorithm {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.resolve("settings", self.words.as_str());
        if let Some(problem) = &self.properties.problem {
            s.problem("settings", format!("found {}, but {problem}", self.words));
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

    /// Checks that it is a listed algorithm: a plan describes one of the caller's own and cannot
    /// run it.
    ///
    /// # Errors
    /// Says how to run the caller's own.
    pub(crate) fn require_listed(&self) -> Result<(), String> {
        match self {
            AlgorithmSpec::Own(own) => Err(format!(
                "algorithm.kind: found \"own\" ({}), which a plan cannot run; build the run with \
                 Run::builder or Training::with_algorithm",
                own.words
            )),
            _ => Ok(()),
        }
    }

    /// APFL's settings, where it is APFL in any form.
    pub fn apfl(&self) -> Option<&Apfl> {
        match self {
            AlgorithmSpec::Apfl(apfl) => Some(apfl),
            AlgorithmSpec::Averaged(averaged) => Some(&averaged.apfl),
            AlgorithmSpec::AgnosticApfl(agnostic) => Some(&agnostic.inner),
            _ => None,
        }
    }

    /// How it chooses among several mixings, where it does.
    pub fn choosing(&self) -> Option<&Choosing> {
        match self {
            AlgorithmSpec::Chosen(chosen) => Some(&chosen.choosing),
            AlgorithmSpec::AgnosticChosen(agnostic) => Some(&agnostic.inner.choosing),
            AlgorithmSpec::Own(own) => own.choosing.as_ref(),
            _ => None,
        }
    }

    /// Returns what the rest of a spec must know of it.
    pub fn properties(&self) -> Properties {
        struct PropertiesOf;
        impl AlgorithmVisitor for PropertiesOf {
            type Out = Properties;
            fn visit<A: Algorithm>(self, algorithm: A) -> Properties {
                algorithm.properties()
            }
        }
        match self {
            AlgorithmSpec::Own(own) => own.properties.clone(),
            listed => listed.clone().accept(PropertiesOf),
        }
    }

    /// Whether the server weighs clients by itself.
    pub fn agnostic(&self) -> bool {
        self.properties().weighs_clients
    }

    /// The geometric schedule that a spec has where it does not say: (factor, per what).
    pub fn usual_decay(&self) -> (f64, &'static str) {
        self.properties().usual_decay
    }

    /// Its kind and what stands out, in a few words.
    pub fn describe(&self) -> String {
        format!("{}{}", self.kind(), self.properties().details)
    }
}

/// The examples of every algorithm, as a spec writes them: what the identity, engine and
/// resume tests run over.
pub fn every_algorithm() -> Vec<&'static str> {
    let examples = AlgorithmSpec::KINDS.iter().map(|kind| kind.examples);
    examples.flatten().copied().collect()
}
