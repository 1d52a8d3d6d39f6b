//! A chosen α.

mod grid;
mod passes;
mod rule;
mod slowly;
mod specs;

use apfl::choice::{Choosing, Pass};
use apfl::run::run_dir::Alpha;
use apfl::run::{Finished, Run};
use apfl::training::Setup;

use crate::small::synthetic;

const GRID: [f32; 4] = [0.0, 0.25, 0.5, 1.0];

/// A run without a directory of an algorithm as a spec writes it.
fn finished(algorithm: &str, more: &str) -> Finished {
    let plan = synthetic(algorithm, more);
    Run::new(&plan, plan.setup().unwrap()).train().unwrap()
}

/// The setup of a pass by hand.
fn in_pass(mut setup: Setup, choosing: &Choosing, pass: Pass) -> Setup {
    if let Pass::HeldOut(part) = pass {
        setup.context = setup.context.holding_out(choosing, part);
    }
    setup
}

/// What each client chose.
fn alphas(run: &Finished) -> Vec<String> {
    let clients = run.clients().unwrap();
    let of = |alpha: Alpha| alpha.name();
    clients
        .into_iter()
        .map(|client| of(client.chosen.unwrap().alpha))
        .collect()
}
