//! Registries: the kinds of a thing that a spec chooses by name, one line of a table each.

use super::Declaration;

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
