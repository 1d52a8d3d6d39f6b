//! Settings of `federation.privacy`.

use super::LEAST_NOISE;
use crate::rng::{Purpose, Stream, stream, system_stream};
use crate::settings::{
    Custom, Declaration, Number, Section, Setting, Words, above_zero, as_number, at_least,
};

/// The level of privacy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Protects the participation of a client: updates are clipped and the server's sum gets noise.
    Client,
    /// Protects the presence of an example in a client's data: the gradient of each example is
    /// clipped and every local step gets noise.
    Example,
}

impl Level {
    /// Returns its name in a spec and a summary.
    pub fn name(self) -> &'static str {
        match self {
            Level::Client => "client",
            Level::Example => "example",
        }
    }
}

/// The source of the noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseSeed {
    /// The run's `seed`: a simulation, because the noise can be removed with the seed.
    Seed,
    /// The operating system, also for the samples that ε relies on: no run is reproducible, and
    /// a round that is repeated after a resume counts again.
    System,
}

impl NoiseSeed {
    /// Returns its name in a spec.
    pub fn name(self) -> &'static str {
        match self {
            NoiseSeed::Seed => "seed",
            NoiseSeed::System => "system",
        }
    }

    /// Returns the stream of these values, or one that is not reproducible.
    pub(crate) fn stream(self, seed: u64, purpose: Purpose, round: u64, client: u64) -> Stream {
        match self {
            NoiseSeed::Seed => stream(seed, purpose, round, client),
            NoiseSeed::System => system_stream(),
        }
    }
}

/// Settings of `federation.privacy`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrivacySettings {
    /// What is protected.
    pub level: Level,
    /// The largest ε that is allowed.
    pub epsilon: Option<f64>,
    /// σ in units of the clip; without it, it follows from ε.
    pub noise: Option<f64>,
    /// δ
    pub delta: f64,
    /// C, the largest norm.
    pub clip: f64,
    /// Where the noise comes from.
    pub noise_seed: NoiseSeed,
}

const LEVEL: Setting<Words<Level>> = Setting::words(
    "level",
    "client",
    &[
        ("client", Level::Client, "that a client took part"),
        ("example", Level::Example, "that an example is a client's"),
    ],
)
.help("what is protected; required")
.required("is missing; allowed is client · example");

const EPSILON: Setting<Number> = Setting::optional("epsilon", at_least(1e-6).to(1e6))
    .symbol("ε")
    .help("upper limit of ε: sets the noise or, beside `noise`, the last round")
    .example("8.0");

const NOISE: Setting<Custom<f64>> = Setting::custom(
    "noise",
    Custom {
        name: "number",
        default: || None,
        allowed: "0, or 0.01 to 1e6",
        parse: |found| as_number(found).filter(|x| *x == 0.0 || (LEAST_NOISE..=1e6).contains(x)),
        write: |noise| (*noise).into(),
    },
)
.symbol("σ")
.help("the noise's standard deviation in units of the clip; without it, it follows from epsilon");

const DELTA: Setting<Number> = Setting::number("delta", 1e-5, at_least(1e-15).to(0.5))
    .symbol("δ")
    .help("the chance that ε does not hold");

const CLIP: Setting<Number> = Setting::number("clip", 1.0, above_zero(f64::MIN_POSITIVE))
    .symbol("C")
    .help("the largest norm of an update, or of an example's gradient");

const NOISE_SEED: Setting<Words<NoiseSeed>> = Setting::words(
    "noise_seed",
    "seed",
    &[
        ("seed", NoiseSeed::Seed, "from the run's seed: a simulation"),
        ("system", NoiseSeed::System, "from the operating system"),
    ],
)
.help("where the noise comes from")
.usually("`\"seed\"`, over sites `\"system\"`");

impl PrivacySettings {
    /// The settings of `[federation.privacy]`.
    pub const SETTINGS: &[&'static dyn Declaration] =
        &[&LEVEL, &EPSILON, &NOISE, &DELTA, &CLIP, &NOISE_SEED];

    /// Binds `privacy = { … }` within `[federation]`; `None` without it. `default_seed` is the
    /// default source of the noise.
    pub fn settings(privacy: &mut Option<Self>, s: &mut Section<'_>, default_seed: NoiseSeed) {
        s.knows(&["privacy"]);
        if s.has("privacy") {
            *privacy = Some(Self {
                level: Level::Client,
                epsilon: None,
                noise: None,
                delta: 0.0,
                clip: 0.0,
                noise_seed: default_seed,
            });
        }
        if let Some(privacy) = privacy {
            s.section("privacy", |s| privacy.bind(s, default_seed));
        }
    }

    fn bind(&mut self, s: &mut Section<'_>, default_seed: NoiseSeed) {
        let is_set = s.has("epsilon") || s.has("noise");
        s.field(&LEVEL, &mut self.level);
        s.optional_field(&EPSILON, &mut self.epsilon);
        s.optional_field(&NOISE, &mut self.noise);
        if !is_set && self.epsilon.is_none() && self.noise.is_none() {
            let missing = "`epsilon` and `noise` are both missing; give one or both";
            s.problem("epsilon", missing);
        }
        s.field(&DELTA, &mut self.delta);
        s.field(&CLIP, &mut self.clip);
        s.field_or(&NOISE_SEED, default_seed, &mut self.noise_seed);
    }
}
