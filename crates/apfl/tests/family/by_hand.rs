//! A round of each, derived by hand. All numbers are binary fractions: f32 has them exactly.

use std::sync::Arc;

use crate::small::{Hand, Small, full, quadratics, schema, shard};
use apfl::algorithm::{Ditto, FedPer, FedProx, FedRep, HypCluster, L2gd, LgFedAvg, Mapper};
use apfl::data::{Targets, Task};
use apfl::model::{Loss, mlp::Mlp};
use apfl::training::Setup;

/// The bias, which is all that moves in [`quadratics`].
fn b(params: &[f32]) -> f32 {
    assert_eq!((params.len(), params[0]), (2, 0.0));
    params[1]
}

#[test]
fn two_rounds_of_fedprox() {
    // Targets 4 and 0, η = μ = ½, τ = 2, so f' = y − t. Round 1, from w = 0:
    //   A: 0 + ½·4 = 2 → 2 − ½(−2 + ½·2) = 2.5     B: 0     w = 1.25
    // Round 2:
    //   A: 1.25 + ½·2.75 = 2.625 → 2.625 − ½(−1.375 + ½·1.375) = 2.96875
    //   B: 1.25 − ½·1.25 = 0.625 → 0.625 − ½(0.625 − ½·0.625) = 0.46875
    let small = quadratics(&[&[4.0], &[0.0]], 0.0);
    let fedprox = FedProx { proximal: 0.5 };
    let mut hand = Hand::new(fedprox, small.setup(full(2, 0.5), 2, 1.0, false));
    let seen = hand.step();
    assert_eq!(b(&seen[0].localized), 2.5);
    assert_eq!(b(&hand.shared()), 1.25);
    let seen = hand.step();
    assert_eq!(b(&seen[0].localized), 2.96875);
    assert_eq!(b(&seen[1].localized), 0.46875);
    assert_eq!(b(&hand.shared()), 1.71875);
}

#[test]
fn two_rounds_of_ditto() {
    // Targets 4 and 0, η = ½, λ = 1, τ = 2. Round 1, wᵗ = 0:
    //   A: w 0 → 2 → 3;  v 0 + ½·4 = 2 → 2 − ½(−2 + 2) = 2     B: 0     w = 1.5
    // Round 2, wᵗ = 1.5, to which v is pulled whatever becomes of wᵢ:
    //   A: v 2 − ½(−2 + ½) = 2.75 → 2.75 − ½(−1.25 + 1.25) = 2.75
    //   B: v 0 − ½(0 − 1.5) = 0.75 → 0.75 − ½(0.75 − 0.75) = 0.75
    let small = quadratics(&[&[4.0], &[0.0]], 0.0);
    let mut hand = Hand::new(
        Ditto { proximal: 1.0 },
        small.setup(full(2, 0.5), 3, 1.0, false),
    );
    let seen = hand.step();
    assert_eq!(b(&seen[0].localized), 3.0);
    assert_eq!(b(&hand.locals[0].v), 2.0);
    assert_eq!(b(&hand.shared()), 1.5);
    let seen = hand.step();
    assert_eq!(b(seen[0].personal.as_ref().unwrap()), 2.75);
    assert_eq!(b(seen[1].personal.as_ref().unwrap()), 0.75);
    // At ηλ = 1 a step is v ← wᵗ − η∇f(v): wᵗ = ½(3.375 + 0.375) = 1.875, and A's v becomes
    // 1.875 + ½·1.25 = 2.5.
    assert_eq!(b(&hand.shared()), 1.875);
    hand.algorithm.proximal = 2.0;
    hand.setup.context.local_training = full(1, 0.5);
    hand.step();
    assert_eq!(b(&hand.locals[0].v), 2.5);
}

/// z = a₂·relu(a₁x + b₁) + b₂ from (a₁, b₁, a₂, b₂) = (1, 0, 1, 0), at x = 1: client A has the
/// target 3 and client B the target 1, at which it starts.
fn two_layers(tau: u64) -> Setup {
    let one = |(k, y)| shard(k, 1, vec![1.0], Targets::Values(vec![y]));
    let small = Small {
        model: Arc::new(Mlp::new(1, &[1], 1, Loss::SquaredError, 0.0)),
        shards: [3.0, 1.0].into_iter().enumerate().map(one).collect(),
        schema: schema(Task::Regression, 1),
    };
    let mut setup = small.setup(full(tau, 0.25), 2, 1.0, false);
    setup.context.w0 = Arc::new(vec![1.0, 0.0, 1.0, 0.0]);
    setup
}

#[test]
fn a_round_of_fedper() {
    // A: z = 1, e = −2, and every derivative is −2: all parameters gain ¼·2 = ½.
    // B: e = 0. The base is averaged, the heads stay.
    let mut hand = Hand::new(FedPer::last_layers_private(1), two_layers(1));
    let seen = hand.step();
    assert_eq!(seen[0].localized, [1.5, 0.5, 1.5, 0.5]);
    assert_eq!(hand.shared(), [1.25, 0.25, 1.0, 0.0]);
    assert_eq!(hand.locals[0].layers, [1.5, 0.5]);
    assert_eq!(hand.locals[1].layers, [1.0, 0.0]);
    // Next A has z = 1.5·1.5 + ½ = 2.75, e = −¼: ∂a₂ = −¼·1.5, ∂b₂ = −¼, ∂a₁ = ∂b₁ = −¼·1.5;
    // B has z = 1.5, e = ½ and derivatives ½·1.5, ½, ½, ½.
    let seen = hand.step();
    assert_eq!(seen[0].localized, [1.34375, 0.34375, 1.59375, 0.5625]);
    assert_eq!(seen[1].localized, [1.125, 0.125, 0.8125, -0.125]);
    assert_eq!(hand.shared(), [1.234375, 0.234375, 1.0, 0.0]);
}

#[test]
fn a_round_of_fedrep() {
    // τ = 2, one step of each. A's head first: e = −2, a₂ = 1.5, b₂ = ½. Then its base:
    // z = 2, e = −1, ∂a₁ = ∂b₁ = −1.5: 1.375 and 0.375. B stays.
    let fedrep = FedRep::last_layers_first(1, 0.5);
    let mut hand = Hand::new(fedrep, two_layers(2));
    let seen = hand.step();
    assert_eq!(seen[0].localized, [1.375, 0.375, 1.5, 0.5]);
    assert_eq!(seen[1].localized, [1.0, 0.0, 1.0, 0.0]);
    assert_eq!(hand.shared(), [1.1875, 0.1875, 1.0, 0.0]);
    assert_eq!(hand.locals[0].layers, [1.5, 0.5]);
    // ⌊0.9τ + ½⌋ for the head, at least one for each.
    let usual = FedRep::last_layers_first(1, 0.9).sharing;
    assert_eq!(usual.steps(10), (9, 1));
    assert_eq!(usual.steps(20), (18, 2));
    assert_eq!(usual.steps(2), (1, 1));
    assert_eq!(usual.steps(1), (1, 1));
    assert_eq!(FedRep::last_layers_first(1, 0.0).sharing.steps(5), (1, 4));
    assert_eq!(FedRep::last_layers_first(1, 1.0).sharing.steps(5), (4, 1));
}

#[test]
fn two_rounds_of_lgfedavg() {
    // As FedPer's first round, but A's base (1.5, ½) stays and the heads are averaged.
    let lg = LgFedAvg::last_layers_shared(1, 0);
    let mut hand = Hand::new(lg, two_layers(1));
    hand.step();
    assert_eq!(hand.shared(), [1.0, 0.0, 1.25, 0.25]);
    assert_eq!(hand.locals[0].layers, [1.5, 0.5]);
    assert_eq!(hand.locals[1].layers, [1.0, 0.0]);

    // With a warm-up of one round all are averaged, and both start from (1.25, ¼) after it:
    // A: z = 1.25·1.5 + ¼ = 2.125, e = −⅞;  B: e = 1.125.
    let mut hand = Hand::new(LgFedAvg::last_layers_shared(1, 1), two_layers(1));
    hand.step();
    assert_eq!(hand.shared(), [1.25, 0.25, 1.25, 0.25]);
    assert_eq!(hand.locals[0].own, 0);
    // Only B is drawn: ∂a₁ = ∂b₁ = 1.125·1.25, and A has no layers of its own yet.
    hand.step_with(&[1]);
    let moved = 0.25 * 1.125 * 1.25;
    assert_eq!(hand.locals[1].layers, [1.25 - moved, 0.25 - moved]);
    assert_eq!((hand.locals[0].own, hand.locals[1].own), (0, 1));
    assert_eq!(hand.shared()[..2], [1.25, 0.25], "the end of the warm-up");
}

#[test]
fn two_rounds_of_l2gd() {
    // p = λ = ½, η = ¼: local steps of rate ½, averagings of share ¼. Targets 8 and 0.
    // Round 1, one local step from 0: A 4, B 0, x̄ = 2.
    // Round 2: A 4 − ¼·2 = 3.5 → 3.5 + ½·4.5 = 5.75;  B 0 + ¼·2 = ½ → ¼;  x̄ = 3.
    let small = quadratics(&[&[8.0], &[0.0]], 0.0);
    let setup = small.setup(full(7, 0.25), 2, 1.0, false);
    let mut hand = Hand::new(L2gd::new(0.5, 0.5), setup);
    hand.server.steps = 1;
    hand.step();
    assert_eq!(b(&hand.locals[0].model), 4.0);
    assert_eq!(b(&hand.shared()), 2.0);
    assert_eq!((hand.server.before, hand.server.round), (1, 1));
    hand.server.steps = 1;
    let seen = hand.step();
    assert_eq!(b(&seen[0].localized), 5.75);
    assert_eq!(b(&seen[1].localized), 0.25);
    assert_eq!(b(&hand.shared()), 3.0);
}

#[test]
fn rounds_of_mapper() {
    // Two examples: the first to train on, t = 8, the second aside. η = ½, τ = 1, v = w = 0:
    //   λ = ½: v = ½·½·8 = 2, mixture 1     λ = 1: v = ½·8 = 4, mixture 4
    // Aside t = 4: losses ½·9 and 0, so λ = 1, and w stays. Aside t = 1: 0 and ½·9, so λ = ½,
    // v = 2, w = −½·½(1 − 8) = 1.75 and the mixture 1.875.
    let mapper = Mapper {
        grid: vec![0.5, 1.0],
        held_out: 0.2,
    };
    let small = quadratics(&[&[8.0, 4.0], &[8.0, 1.0]], 0.0);
    let mut hand = Hand::new(mapper, small.setup(full(1, 0.5), 2, 1.0, false));
    let seen = hand.step();
    assert_eq!((hand.locals[0].lambda, b(&hand.locals[0].v)), (1.0, 4.0));
    assert_eq!((hand.locals[1].lambda, b(&hand.locals[1].v)), (0.5, 2.0));
    assert_eq!(b(&seen[0].localized), 0.0);
    assert_eq!(b(&seen[1].localized), 1.75);
    assert_eq!(b(seen[0].personal.as_ref().unwrap()), 4.0);
    assert_eq!(b(seen[1].personal.as_ref().unwrap()), 1.875);
    assert_eq!(b(&hand.shared()), 0.875);
}

#[test]
fn a_round_of_hypcluster() {
    // Models at 0 and 10, targets 1, 9 and 2, η = ½, τ = 1: the first and the third client
    // take 0 (½·1 against ½·81), the second takes 10. 0 → ½ and 1: ¾; 10 → 9.5.
    let small = quadratics(&[&[1.0], &[9.0], &[2.0]], 0.0);
    let setup = small.setup(full(1, 0.5), 2, 1.0, false);
    let mut hand = Hand::new(HypCluster::new(2), setup);
    hand.server.models = vec![0.0, 0.0, 0.0, 10.0];
    hand.step();
    assert_eq!(hand.server.models, [0.0, 0.75, 0.0, 9.5]);
    assert_eq!(hand.server.updates, [2, 1]);
    assert_eq!(b(&hand.shared()), 0.75, "the largest cluster's");
    let clusters: Vec<u64> = hand.locals.iter().map(|m| m.cluster).collect();
    assert_eq!(clusters, [0, 1, 0]);
    // A cluster that nobody is in stays.
    hand.step_with(&[1]);
    assert_eq!(hand.server.models, [0.0, 0.75, 0.0, 9.25]);
}
