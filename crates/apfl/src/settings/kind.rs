//! Registries: the kinds of a thing that a spec chooses by name, one line of a table each.

use super::values::one_of;
use super::{Declaration, Section, shown};

/// One kind of algorithm, model, data, partition, rule or attack.
#[derive(Clone, Copy, Debug)]
pub struct Kind<T> {
    /// Its name, as a spec writes it.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Its settings, beside those that all kinds of its table have.
    pub settings: &'static [&'static dyn Declaration],
    /// Whole tables as a spec writes them: what tests run over, so that a new kind is
    /// tested before anyone writes a test.
    pub examples: &'static [&'static str],
    /// What it stands for: a blank value whose settings are then read, or what reads them.
    pub value: T,
}

impl<T> Kind<T> {
    /// Returns the kind without its value: what people and tests look at.
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
    /// Reads one of the kinds of a table by its name, by default `default`.
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

    /// The same; by default the first.
    pub fn pick<'k, T>(&mut self, key: &str, kinds: &'k [Kind<T>]) -> &'k Kind<T> {
        self.pick_or(key, kinds[0].name, kinds)
    }

    /// Binds a value to the kind of a table: reads the kind's blank value, whose own settings
    /// are read after it, or writes the value's `kind`.
    pub fn kind<T: Clone>(&mut self, key: &str, kinds: &[Kind<T>], kind: &str, value: &mut T) {
        if self.reads() {
            *value = self.pick(key, kinds).value.clone();
        } else {
            self.resolve(key, kind);
        }
    }
}

/// Makes the table of an enum's kinds and the way back from a value to its kind's name out
/// of one list, so that neither can lack what the other has:
///
/// ```text
/// registry! { Partition, PartitionKind: Stripe = stripe::KIND, Shards = shards::KIND, … }
/// ```
///
/// makes `Partition::KINDS` and `Partition::kind()`. A kind may have several variants. `; Own`
/// at the end names a variant that no spec can choose: what a caller brings along.
macro_rules! registry {
    ($of:ident, $type:ty: $($($variant:ident)|+ = $kind:expr),+ $(,)? $(; $own:ident)?) => {
        impl $of {
            /// Every kind that a spec may name, in the order in which they are shown; the first
            /// is the default.
            pub const KINDS: &'static [$type] = &[$($kind),+];

            /// Returns its kind, as a spec writes it.
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
