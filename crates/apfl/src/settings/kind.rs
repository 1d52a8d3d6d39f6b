//! Registries: the kinds of a thing that a spec chooses by name, one line of a table each.

use super::Section;

/// One kind of algorithm, model, data, partition, rule or attack.
#[derive(Clone, Copy, Debug)]
pub struct Kind<T> {
    /// Its name, as a spec writes it.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Its settings: a line of TOML at its default, and what it means. A line that starts
    /// with `# ` has no default, or is better left out by those who do not need it.
    pub keys: &'static [(&'static str, &'static str)],
    /// Whole tables as a spec writes them: what tests run over, so that a new kind is
    /// tested before anyone writes a test.
    pub examples: &'static [&'static str],
    /// What reads its settings.
    pub read: T,
}

impl<T> Kind<T> {
    /// The kind without its reader: what people and tests look at.
    pub fn shown(&self) -> Kind<()> {
        Kind {
            name: self.name,
            about: self.about,
            keys: self.keys,
            examples: self.examples,
            read: (),
        }
    }
}

impl Section<'_> {
    /// One of the kinds of a table, by its name; by default the first.
    pub fn pick<'k, T>(&mut self, key: &str, kinds: &'k [Kind<T>]) -> &'k Kind<T> {
        self.pick_or(key, kinds[0].name, kinds)
    }

    /// The same with another default.
    pub fn pick_or<'k, T>(
        &mut self,
        key: &str,
        default: &str,
        kinds: &'k [Kind<T>],
    ) -> &'k Kind<T> {
        let named: Vec<(&str, &Kind<T>)> = kinds.iter().map(|kind| (kind.name, kind)).collect();
        self.choice(key, default, &named)
    }
}

/// Makes the table of an enum's kinds and the way back from a value to its kind's name out
/// of one list, so that neither can lack what the other has:
///
/// ```text
/// registry! { Partition, PartitionKind: Stripe = stripe::KIND, Shards = shards::KIND, … }
/// ```
///
/// makes `Partition::KINDS` and `Partition::kind()`. A kind may have several variants.
macro_rules! registry {
    ($of:ident, $type:ty: $($($variant:ident)|+ = $kind:expr),+ $(,)?) => {
        impl $of {
            /// Every kind there is, in the order in which they are shown; the first is the
            /// default.
            pub const KINDS: &'static [$type] = &[$($kind),+];

            /// Its kind, as a spec writes it.
            pub fn kind(&self) -> &'static str {
                match self {
                    $($($of::$variant { .. })|+ => $kind.name,)+
                }
            }
        }
    };
}
pub(crate) use registry;
