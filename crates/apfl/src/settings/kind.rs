//! Registries: tables of the kinds that a spec chooses by name.

use super::values::one_of;
use super::{Declaration, Section, shown};

/// Represents one kind of algorithm, model, data, partition, aggregator or attack.
#[derive(Clone, Copy, Debug)]
pub struct Kind<T> {
    /// The name in a spec.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// Its own settings, beside those of all kinds of its table.
    pub settings: &'static [&'static dyn Declaration],
    /// Whole tables as in a spec, which tests run, so that every new kind is tested.
    pub examples: &'static [&'static str],
    /// A blank value whose settings are then read, or a function that reads them.
    pub value: T,
}

impl<T> Kind<T> {
    /// Returns the kind without its value.
    pub fn shown(&self) -> Kind<()> {
        Kind {
            name: self.name,
            about: self.about,
            settings: self.settings,
            examples: self.examples,
            value: (),
        }
    }
}

impl Section<'_> {
    /// Reads the name of a kind; `default` is used if it is absent.
    pub fn pick_or<'k, T>(
        &mut self,
        key: &str,
        default: &str,
        kinds: &'k [Kind<T>],
    ) -> &'k Kind<T> {
        let named = |name: &str| kinds.iter().find(|kind| kind.name == name);
        let mut picked = named(default).expect("the default is one of the kinds");
        if let Some(found) = self.take(key) {
            match found.as_str().and_then(named) {
                Some(kind) => picked = kind,
                None => {
                    let allowed = one_of(kinds.iter().map(|kind| kind.name), &found);
                    let message = format!("found {}, allowed is {allowed}", shown(&found));
                    self.problem(key, message);
                }
            }
        }
        self.resolve(key, picked.name);
        picked
    }

    /// Reads the name of a kind; the first one is the default.
    pub fn pick<'k, T>(&mut self, key: &str, kinds: &'k [Kind<T>]) -> &'k Kind<T> {
        self.pick_or(key, kinds[0].name, kinds)
    }

    /// Binds a value to the kind of a table: reads the kind's blank value, whose settings are read
    /// afterwards, or writes `kind`.
    pub fn kind<T: Clone>(&mut self, key: &str, kinds: &[Kind<T>], kind: &str, value: &mut T) {
        if self.is_reading() {
            *value = self.pick(key, kinds).value.clone();
        } else {
            self.resolve(key, kind);
        }
    }
}

/// Defines the table of an enum's kinds and the mapping from values to kind names from one list:
///
/// ```text
/// registry! { Partition, PartitionKind: Stripe = stripe::KIND, Shards = shards::KIND, … }
/// ```
///
/// makes `Partition::KINDS` and `Partition::kind()`. A kind may have several variants. `; Own` at
/// the end names a variant that no spec can choose, for objects of the caller.
macro_rules! registry {
    ($of:ident, $type:ty: $($($variant:ident)|+ = $kind:expr),+ $(,)? $(; $own:ident)?) => {
        impl $of {
            /// All kinds that a spec may name, in display order; the first is the default.
            pub const KINDS: &'static [$type] = &[$($kind),+];

            /// Returns the name of its kind in a spec.
            pub fn kind(&self) -> &'static str {
                match self {
                    $($($of::$variant { .. })|+ => $kind.name,)+
                    $($of::$own { .. } => "own",)?
                }
            }
        }
    };
}
pub(crate) use registry;
