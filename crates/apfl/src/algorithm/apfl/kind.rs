//! `kind = "apfl"` and its settings, as a spec writes them.

use super::{AgnosticApfl, Apfl, Averaged};
use crate::algorithm::{AlgorithmKind, AlgorithmSpec, agnostic};
use crate::settings::{Kind, Section};

pub(in crate::algorithm) const KIND: AlgorithmKind = Kind {
    name: "apfl",
    about: "a shared model w, each client's own v, and their mixture αv + (1−α)w",
    keys: &[
        (
            "mixing = { adaptive = 0.01 }",
            "α: learned from this start; or { fixed = 0.5 }",
        ),
        (
            "# preset = \"none\"",
            "or \"fedtorch\": all of the next nine as in the authors' released code",
        ),
        (
            "# mix = \"parameters\"",
            "what α mixes; or \"logits\" (authors' code)",
        ),
        (
            "# order = \"simultaneous\"",
            "or \"sequential\": w, then v, then α (authors' code)",
        ),
        (
            "# alpha_every = \"round\"",
            "α moves at a round's first step; or at every \"step\"",
        ),
        (
            "# alpha_gradient = \"slope\"",
            "⟨v−w, ∇f(v̄)⟩; or \"blended\" (authors' code)",
        ),
        (
            "# alpha_l2 = 0.0",
            "a pull of α to 0 (authors' code: 0.02): 0 to 1e6",
        ),
        (
            "# alpha_rate = \"schedule\"",
            "α's rate: η; or \"constant\", or a number above 0",
        ),
        ("# v_rate = \"schedule\"", "v's rate, likewise"),
        (
            "# l2_on_v = false",
            "true: the ℓ2 term on v itself instead of through v̄",
        ),
        (
            "# projection = \"none\"",
            "or a number: keep w and v within this norm (Theorem 4)",
        ),
        (
            "# output = \"last\"",
            "or \"averaged\": Algorithm 1's averages, with a fixed α",
        ),
        (
            "# averaging_shift = 100",
            "averaged: a in the weights (t+a)², where no theory schedule gives it",
        ),
        agnostic::KEY,
    ],
    examples: &[
        "{ kind = 'apfl', mixing = { fixed = 0.25 } }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 } }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, preset = 'fedtorch' }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, mix = 'logits', alpha_every = 'step' }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, order = 'sequential', alpha_rate = 0.05, \
         alpha_l2 = 0.02, alpha_gradient = 'blended' }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, projection = 0.1, v_rate = 0.2, l2_on_v = true }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, output = 'averaged', averaging_shift = 20 }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, output = 'averaged', averaging_shift = 0, \
         projection = 0.1 }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, agnostic = 0.05 }",
    ],
    read,
};

/// APFL with `output = "last"` (the experiments') or `"averaged"` (Algorithm 1's own). The
/// latter's weights are (t+a)²; a is `averaging_shift` (0 to 1e15), or the schedule's.
fn read(s: &mut Section<'_>) -> AlgorithmSpec {
    let apfl = Apfl::read(s);
    let averaged = s.choice("output", "last", &[("last", false), ("averaged", true)]);
    let shift = s.optional_float("averaging_shift", 0.0..=1e15, "0 to 1e15");
    let agnostic = agnostic::read(s);
    if !averaged && shift.is_some() {
        s.problem(
            "averaging_shift",
            "is for output = \"averaged\" only; leave it out, or ask for that output",
        );
    }
    if averaged && agnostic.is_some() {
        s.problem(
            "agnostic",
            "does not go with output = \"averaged\", whose theory weighs all clients alike",
        );
    }
    match (averaged, agnostic) {
        (true, _) => AlgorithmSpec::Averaged(Averaged { apfl, shift }),
        (false, Some(step)) => AlgorithmSpec::AgnosticApfl(AgnosticApfl { inner: apfl, step }),
        (false, None) => AlgorithmSpec::Apfl(apfl),
    }
}
