//! `federation.privacy`

use super::LEAST_NOISE;
use crate::rng::{Purpose, Stream, stream, system_stream};
use crate::settings::Section;

const NOISE: &str = "0, or 0.01 to 1e6";

/// What is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// That a client took part: its update is clipped, and the server's sum gets noise.
    Client,
    /// That an example is in a client's data: gradients are clipped one by one, and every local
    /// step gets noise.
    Example,
}

impl Level {
    /// As a spec and a summary have it.
    pub fn word(self) -> &'static str {
        match self {
            Level::Client => "client",
            Level::Example => "example",
        }
    }
}

/// Where the noise comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseSeed {
    /// From `seed`: whoever knows it can take the noise away again. A simulation.
    Seed,
    /// From the operating system, and so are the samples that ε rests on: no run is made again
    /// to the bit, and a round that is repeated after a resume counts again.
    System,
}

impl NoiseSeed {
    const WORDS: [(&'static str, Self); 2] = [("seed", Self::Seed), ("system", Self::System)];

    /// As a spec has it.
    pub fn word(self) -> &'static str {
        match self {
            NoiseSeed::Seed => "seed",
            NoiseSeed::System => "system",
        }
    }

    /// The stream of that name, or one that nobody can make again.
    pub(crate) fn stream(self, seed: u64, purpose: Purpose, round: u64, client: u64) -> Stream {
        match self {
            NoiseSeed::Seed => stream(seed, purpose, round, client),
            NoiseSeed::System => system_stream(),
        }
    }
}

/// `federation.privacy`
///
/// | key | default | allowed |
/// |---|---|---|
/// | `level` | must be given | `"client"` · `"example"` |
/// | `epsilon` | – | above 0: the noise follows from it |
/// | `noise` | – | σ = 0, or from 0.01 on; beside `epsilon`: the run ends before ε is exceeded |
/// | `delta` | 1e-5 | above 0, below 1 |
/// | `clip` | 1 | above 0 |
/// | `noise_seed` | `"seed"` | `"seed"`: a simulation · `"system"`: from the operating system |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrivacySettings {
    /// What is protected.
    pub level: Level,
    /// ε that must not be exceeded.
    pub epsilon: Option<f64>,
    /// σ, in units of the clip; without it, it follows from ε.
    pub noise: Option<f64>,
    /// δ
    pub delta: f64,
    /// C: the largest norm.
    pub clip: f64,
    /// Where the noise comes from.
    pub noise_seed: NoiseSeed,
}

impl PrivacySettings {
    /// Reads `privacy = { … }` within `[federation]`; `None` where there is none. `noise_seed` is
    /// where the noise comes from if nothing is said.
    pub fn read(s: &mut Section<'_>, noise_seed: NoiseSeed) -> Option<Self> {
        if !s.has("privacy") {
            let _ = s.take("privacy"); // a key that is known
            return None;
        }
        Some(s.section("privacy", |s| {
            if !s.has("level") {
                s.problem("level", "nothing is said; allowed is client · example");
            }
            let levels = [("client", Level::Client), ("example", Level::Example)];
            let level = s.choice("level", "client", &levels);
            let positive = f64::MIN_POSITIVE..;
            let epsilon = s.optional_float("epsilon", 1e-6..=1e6, "1e-6 to 1e6");
            let noise = s.optional_float("noise", 0.0..=1e6, NOISE);
            if noise.is_some_and(|noise| noise > 0.0 && noise < LEAST_NOISE) {
                s.problem(
                    "noise",
                    format!("found {}, allowed is {NOISE}", noise.unwrap_or(0.0)),
                );
            }
            if epsilon.is_none() && noise.is_none() {
                let missing = "neither is said: epsilon = ε, or noise = σ, or both";
                s.problem("epsilon", missing);
            }
            Self {
                level,
                epsilon,
                noise,
                delta: s.float("delta", 1e-5, 1e-15..=0.5, "1e-15 to 0.5"),
                clip: s.float("clip", 1.0, positive, "above 0"),
                noise_seed: s.choice("noise_seed", noise_seed.word(), &NoiseSeed::WORDS),
            }
        }))
    }
}
