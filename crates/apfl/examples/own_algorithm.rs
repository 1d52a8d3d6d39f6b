//! An algorithm of your own, in one file: federated averaging whose server keeps
//! momentum (FedAvgM: Hsu, Qi and Brown 2019, arXiv:1909.06335), compared with FedAvg.
//!
//! ```text
//! cargo run --release -p apfl --example own_algorithm
//! ```
//!
//! This file is the whole recipe: say what the server and a client remember and what
//! travels between them, then what happens in a round. The library does the rest:
//! threads, random numbers, scores, fingerprints. To make it a `kind` of the spec, move
//! the file to `src/algorithm/`, give it a `KIND` such as those there have (name, help,
//! settings, examples, reader) and the list in `src/algorithm/mod.rs` a line: it is then in
//! `apfl init`, in the help, in `apfl bench`, and in every test over `every_algorithm()`.

use apfl::algorithm::{Algorithm, FedAvg, Sender};
use apfl::error::Result;
use apfl::pack::{Arrays, ModelOnly, Pack, PackError, View};
use apfl::params::{Mean, Params, axpy};
use apfl::site::{Predictor, Site};
use apfl::spec::Spec;
use apfl::training::{Setup, Training};

/// The settings: β, how much of the last move is repeated. With β = 0 this is FedAvg.
#[derive(Clone, Copy, Debug)]
pub struct Momentum {
    /// β
    pub beta: f32,
}

/// What the server remembers: w, and its last move d.
#[derive(Debug)]
pub struct Memory {
    /// The shared model.
    pub w: Params,
    /// How it moved in the last round.
    pub d: Params,
}

/// `Pack` names the arrays of a value, so that it can be hashed, stored and sent.
impl Pack for Memory {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        see("w", View::F32(&self.w));
        see("d", View::F32(&self.d));
    }
    fn unpack(arrays: &mut Arrays) -> std::result::Result<Self, PackError> {
        let w = arrays.f32("w")?;
        let d = arrays.f32_of("d", w.len())?;
        Ok(Self { w, d })
    }
}

impl Algorithm for Momentum {
    type Server = Memory; // remembered by the server
    type Broadcast = ModelOnly; // travels down: w alone, d is the server's business
    type Memory = (); // remembered by a client: nothing
    type Update = ModelOnly; // travels back: wᵢ
    type Fold = Mean; // the sum of the updates so far, in f64

    fn start(&self, w0: &[f32], _clients: usize) -> Memory {
        Memory {
            w: w0.to_vec(),
            d: vec![0.0; w0.len()],
        }
    }

    fn broadcast(&self, server: &Memory) -> ModelOnly {
        ModelOnly {
            model: server.w.clone(),
        }
    }

    fn join(&self, _w0: &[f32]) {}

    /// wᵢ ← w;   wᵢ ← wᵢ − η∇fᵢ(wᵢ; ξ)   τ times
    ///
    /// The site has the client's batches and rates, and nothing about who it is.
    fn local_round(&self, sent: &ModelOnly, _: &mut (), site: &mut Site<'_>) -> ModelOnly {
        let mut w = sent.model.clone();
        for s in 0..site.steps() {
            site.next_batch();
            site.descend(&mut w, site.rate(s));
        }
        ModelOnly { model: w }
    }

    /// Updates arrive one by one, always in the order of the clients.
    fn fold(&self, _: &Memory, fold: &mut Mean, from: Sender, update: ModelOnly) {
        fold.add(from.weight, &update.model);
    }

    /// w⁺ ← mean wᵢ + β·d;   d ← w⁺ − w
    fn finish(&self, server: &mut Memory, fold: Mean) {
        let Some(mut next) = fold.value() else {
            return;
        };
        axpy(&mut next, self.beta, &server.d);
        let pairs = next.iter().zip(&server.w);
        server.d = pairs.map(|(next, w)| next - w).collect();
        server.w = next;
    }

    // The three models of the paper, of which every algorithm has all.

    fn shared<'a>(&self, server: &'a Memory) -> &'a [f32] {
        &server.w
    }

    fn localized<'a>(&self, _: &'a (), update: &'a ModelOnly) -> &'a [f32] {
        &update.model
    }

    fn personal<'a>(&self, _: &'a (), update: &'a ModelOnly, _: &mut Site<'_>) -> Predictor<'a> {
        Predictor::At(&update.model)
    }
}

/// Data, model and pace, from a spec; its algorithm plays no part here.
pub fn setup() -> Result<Setup> {
    let spec = Spec::parse(
        "data = { kind = 'synthetic', iid = true, clients = 30, examples = 60 }
         training = { rounds = 20, local_steps = 10, batch = 20 }
         evaluation = { every = 20 }",
    )?;
    spec.plan()?.setup()
}

/// Trains to the end: validation accuracy of (shared, personal), and the fingerprint.
pub fn finish(mut training: Training) -> Result<(f64, f64, String)> {
    let mut last = (f64::NAN, f64::NAN);
    while let Some(round) = training.next_round()? {
        if let Some(scores) = round.scores {
            let accuracy = |score: apfl::metrics::Scores| score.valid.accuracy.unwrap_or(f64::NAN);
            last = (accuracy(scores.shared), accuracy(scores.personal));
        }
    }
    Ok((last.0, last.1, training.fingerprint()?))
}

/// On identically distributed clients and few rounds, momentum gets further.
pub fn main() -> Result<()> {
    let runs = [
        ("FedAvg", Training::with_algorithm(setup()?, FedAvg)?),
        (
            "momentum 0.5",
            Training::with_algorithm(setup()?, Momentum { beta: 0.5 })?,
        ),
        (
            "momentum 0.9",
            Training::with_algorithm(setup()?, Momentum { beta: 0.9 })?,
        ),
    ];
    println!("validation accuracy    shared  personal");
    for (name, training) in runs {
        let (shared, personal, _) = finish(training)?;
        println!(
            "{name:<21} {:>6.1} %  {:>6.1} %",
            100.0 * shared,
            100.0 * personal
        );
    }
    Ok(())
}
