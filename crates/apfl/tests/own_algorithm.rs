//! The example `own_algorithm` computes what its comments claim.

use apfl::algorithm::{Algorithm, FedAvg, Sender};
use apfl::pack::{ModelOnly, Pack};

use crate::small::{Hand, full, quadratics};

#[path = "../examples/own_algorithm.rs"]
mod example;

use example::{Momentum, MovingMean, Server};

#[test]
fn it_runs() {
    example::main().unwrap();
}

#[test]
fn without_momentum_it_is_fedavg() {
    let shared = |run: apfl::Finished| run.shared().unwrap().params().to_vec();
    let trained = |beta| shared(example::train(Momentum { beta }).unwrap());
    let fedavg = shared(example::train(FedAvg).unwrap());
    assert_eq!(trained(0.0), fedavg);
    assert_ne!(trained(0.5), fedavg);
}

/// β = ½. Round 1: w = 0, mean wᵢ = ½(1 + 3) = 2, so w = 2 and d = 2.
/// Round 2: mean wᵢ = ½(4 + 2) = 3, so w = 3 + ½·2 = 4 and d = 4 − 2 = 2.
#[test]
fn two_rounds_by_hand() {
    let momentum = Momentum { beta: 0.5 };
    let mut server = momentum.start(&[0.0], 2);
    for (sent, expected) in [([1.0, 3.0], (2.0, 2.0)), ([4.0, 2.0], (4.0, 2.0))] {
        let mut fold = Default::default();
        for (client, w) in sent.into_iter().enumerate() {
            let from = Sender {
                client,
                weight: 1.0,
            };
            momentum.fold(&server, &mut fold, from, ModelOnly { model: vec![w] });
        }
        momentum.finish(&mut server, fold);
        assert_eq!((server.w[0], server.d[0]), expected);
    }
    assert_eq!(momentum.broadcast(&server).model, [4.0]);
    let again = Server::unpack(&mut server.pack()).unwrap();
    assert_eq!((again.w, again.d), (vec![4.0], vec![2.0]));
}

/// β = ½ on one client with target 4 (∇ = b − 4), η = ½, τ = 1: w = 2, 3 and v = 1, 2. With
/// β = 1 the client serves its localized model.
#[test]
fn a_moving_mean_by_hand() {
    let small = quadratics(&[&[4.0]], 0.0);
    let served = |share| {
        let setup = small.setup(full(1, 0.5), 2, 1.0, false);
        let mut hand = Hand::new(MovingMean { share }, setup);
        let seen = [hand.step(), hand.step()];
        seen.map(|mut seen| {
            let seen = seen.remove(0);
            (seen.localized[1], seen.personal.unwrap()[1])
        })
    };
    assert_eq!(served(0.5), [(2.0, 1.0), (3.0, 2.0)]);
    assert_eq!(served(1.0), [(2.0, 2.0), (3.0, 3.0)]);
}

#[test]
fn it_has_a_fingerprint_like_any_other() {
    let run = |beta| {
        let finished = example::train(Momentum { beta }).unwrap();
        finished.summary.fingerprint
    };
    let (first, second) = (run(0.5), run(0.5));
    assert_eq!(first, second);
    assert_ne!(first, run(0.4));
}
