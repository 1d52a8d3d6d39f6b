//! `kind = "apfl"` and its settings, as a spec writes them.

use toml::{Table, Value};

use super::{AgnosticApfl, AgnosticChosen, Apfl, Averaged, Chosen, Mixing, Options};
use crate::algorithm::{AlgorithmKind, AlgorithmSpec, agnostic};
use crate::choice::Choosing;
use crate::settings::{Kind, Section, shown};

pub(in crate::algorithm) const KIND: AlgorithmKind = Kind {
    name: "apfl",
    about: "a shared model w, each client's own v, and their mixture αv + (1−α)w",
    keys: &[
        (
            "mixing = { adaptive = 0.01 }",
            "α: learned from this start; or { fixed = 0.5 }; or { chosen = [0, 0.1, 0.25, 0.5, \
             0.75, 1], folds = 5, prior = 50 }: the one that is best on rows held out (with folds = 1 \
             also aside = 0.2, the share of rows, and refit = true, train on all rows afterwards)",
        ),
        (
            "# preset = \"none\"",
            "or \"fedtorch\": all of the next eleven as in the authors' released code",
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
        (
            "# alpha_on = \"batch\"",
            "or \"aside\": α learns on a fifth of the rows, w and v on the others (ours)",
        ),
        ("# v_rate = \"schedule\"", "v's rate, likewise"),
        (
            "# l2_on_v = false",
            "true: the ℓ2 term on v itself instead of through v̄",
        ),
        (
            "# v_dropout = \"always\"",
            "or \"first-round\": model.dropout not at v from round 2 on (authors' code)",
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
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, alpha_on = 'aside' }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, projection = 0.1, v_rate = 0.2, l2_on_v = true }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, output = 'averaged', averaging_shift = 20 }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, output = 'averaged', averaging_shift = 0, \
         projection = 0.1 }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, agnostic = 0.05 }",
        "{ kind = 'apfl', mixing = { chosen = [0, 0.5, 1], folds = 2, prior = 5 } }",
        "{ kind = 'apfl', mixing = { chosen = [0.25, 1], folds = 1, refit = false }, \
         mix = 'logits', order = 'sequential', l2_on_v = true }",
        "{ kind = 'apfl', mixing = { chosen = [0, 1], folds = 2 }, agnostic = 0.05 }",
    ],
    read,
};

/// APFL with `output = "last"` (the experiments') or `"averaged"` (Algorithm 1's own). The
/// latter's weights are (t+a)²; a is `averaging_shift` (0 to 1e15), or the schedule's.
fn read(s: &mut Section<'_>) -> AlgorithmSpec {
    let mixing = read_mixing(s);
    let options = Options::read(s);
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
    let mixing = match mixing {
        Written::Plain(mixing) => mixing,
        Written::Chosen(choosing) => {
            refuse_with_chosen(s, &options, averaged);
            let chosen = Chosen::new(choosing, options);
            return match agnostic {
                None => AlgorithmSpec::Chosen(chosen),
                Some(step) => AlgorithmSpec::AgnosticChosen(AgnosticChosen {
                    inner: chosen,
                    step,
                }),
            };
        }
    };
    let apfl = Apfl { mixing, options };
    match (averaged, agnostic) {
        (true, _) => AlgorithmSpec::Averaged(Averaged { apfl, shift }),
        (false, Some(step)) => AlgorithmSpec::AgnosticApfl(AgnosticApfl { inner: apfl, step }),
        (false, None) => AlgorithmSpec::Apfl(apfl),
    }
}

/// What a chosen α does not go with.
fn refuse_with_chosen(s: &mut Section<'_>, options: &Options, averaged: bool) {
    let paper = Options::PAPER;
    let learning = [
        ("alpha_every", options.alpha_every != paper.alpha_every),
        ("alpha_l2", options.alpha_l2 != paper.alpha_l2),
        (
            "alpha_gradient",
            options.alpha_gradient != paper.alpha_gradient,
        ),
        ("alpha_rate", options.alpha_rate != paper.alpha_rate),
        ("alpha_on", options.alpha_on != paper.alpha_on),
    ];
    if options.preset != paper.preset {
        s.problem(
            "preset",
            "does not go with mixing = { chosen = … }: it is about how α is learned; leave it \
             out and write its other options one by one",
        );
    } else {
        for (key, differs) in learning {
            if differs {
                let problem = "is about a learned α, and mixing = { chosen = … } learns none; \
                               leave it out";
                s.problem(key, problem);
            }
        }
    }
    if averaged {
        s.problem(
            "output",
            "found \"averaged\", which needs one α for all: use mixing = { fixed = … }, or \
             output = \"last\"",
        );
    }
}

/// `mixing` as it was written.
enum Written {
    Plain(Mixing),
    Chosen(Choosing),
}

/// `mixing = { fixed = 0.5 }`, `{ adaptive = 0.01 }` or `{ chosen = [0, 0.5, 1], … }`
fn read_mixing(s: &mut Section<'_>) -> Written {
    const ALLOWED: &str = "{ fixed = α }, { adaptive = α⁰ } or { chosen = [α, …] } with 0 ≤ α ≤ 1";
    if s.holds("mixing", "chosen") {
        return Written::Chosen(s.section("mixing", read_choosing));
    }
    let table = match s.take("mixing") {
        None => Table::from_iter([("adaptive".to_string(), Value::from(0.01))]),
        Some(Value::Table(table)) if one_alpha(&table).is_some() => table,
        Some(found) => {
            let problem = format!("found {}, allowed is {ALLOWED}", shown(&found));
            s.problem("mixing", problem);
            return Written::Plain(Mixing::Adaptive(0.01));
        }
    };
    let mixing = one_alpha(&table).expect("looked at above");
    let (key, alpha) = match mixing {
        Mixing::Fixed(alpha) => ("fixed", alpha),
        Mixing::Adaptive(alpha) => ("adaptive", alpha),
    };
    s.resolve(
        "mixing",
        Table::from_iter([(key.to_string(), Value::from(shortest(alpha)))]),
    );
    Written::Plain(mixing)
}

/// The one entry of a table, where it is a fixed or a learned α.
fn one_alpha(table: &Table) -> Option<Mixing> {
    let (key, value) = table.iter().next().filter(|_| table.len() == 1)?;
    let alpha = share(value)?;
    match key.as_str() {
        "fixed" => Some(Mixing::Fixed(alpha)),
        "adaptive" => Some(Mixing::Adaptive(alpha)),
        _ => None,
    }
}

/// A number from 0 to 1.
fn share(value: &Value) -> Option<f32> {
    let number = value.as_float().or(value.as_integer().map(|x| x as f64))?;
    // −0 + 0 is 0.
    (0.0..=1.0).contains(&number).then_some(number as f32 + 0.0)
}

/// The shortest decimal of the f32, so that 0.1 is written as 0.1.
fn shortest(alpha: f32) -> f64 {
    alpha.to_string().parse().expect("a number's own digits")
}

/// `chosen` and the keys beside it.
fn read_choosing(s: &mut Section<'_>) -> Choosing {
    let list = s.take("chosen").unwrap_or(Value::Boolean(false));
    let alphas = list.as_array().map(|list| list.iter().map(share).collect());
    let alphas: Option<Vec<f32>> = alphas.flatten();
    let mut choosing = Choosing::from(alphas.unwrap_or_default());
    if choosing.problem().is_some() {
        let allowed = "a list of 1 to 32 different α from 0 to 1, such as [0, 0.25, 0.5, 1]";
        let found = shown(&list);
        s.problem("chosen", format!("found {found}, allowed is {allowed}"));
        choosing.candidates = vec![0.0, 1.0];
    }
    let alphas = choosing.candidates.iter();
    let alphas: Vec<Value> = alphas.map(|alpha| shortest(*alpha).into()).collect();
    s.resolve("chosen", alphas);
    choosing.folds = s.integer("folds", 5, 1..=100, "1 to 100");
    choosing.prior = s.float("prior", 50.0, 0.0..=1e15, "0 to 1e15");
    if choosing.folds == 1 {
        let share = f64::MIN_POSITIVE..=0.9;
        choosing.aside = s.float("aside", 0.2, share, "above 0, at most 0.9");
        choosing.refit = s.boolean("refit", true);
    } else {
        for key in ["aside", "refit"] {
            // A resolved spec says refit = true.
            let found = s.take(key);
            if found.is_some_and(|found| key == "aside" || found.as_bool() != Some(true)) {
                let problem = "is for folds = 1; with more of them every row is held out once";
                s.problem(key, problem);
            }
        }
    }
    let folds = choosing.folds;
    choosing.pass = s.optional_integer("pass", 1..=folds, "1 to folds");
    choosing
}
