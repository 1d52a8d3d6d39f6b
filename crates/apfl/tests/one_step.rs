//! One round of each algorithm, derived by hand.
//!
//! Squared error on one feature: z = a·x + b, ℓ = ½(z − y)², so that with e = z − y the
//! gradient over (a, b) is (e·x, e). Client A has the example (x, y) = (2, 2), client B
//! has (1, −1). All numbers are binary fractions, so f32 computes them exactly and the
//! tests ask for equality.

use apfl::algorithm::apfl::{ClientState, Mixing};
use apfl::algorithm::{AfterRound, Algorithm, AlgorithmSpec, Apfl, FedAvg, LocalOnly, Sender};
use apfl::data::{Examples, Features, Targets};
use apfl::local_client::{LocalClient, LocalTraining, LocalWork, Predictor, Scratch};
use apfl::model::Loss;
use apfl::model::mlp::Mlp;
use apfl::pack::ModelOnly;
use apfl::rng::{Purpose, stream};
use apfl::schedule::Schedule;
use apfl::spec::Spec;
use apfl::training::Training;

const A: (f32, f32) = (2.0, 2.0);
const B: (f32, f32) = (1.0, -1.0);

/// Does `work` at the client with that one example, in round `round`.
fn at_client<T>(
    (x, y): (f32, f32),
    round: u64,
    steps: u64,
    rate: f64,
    work: impl FnOnce(&mut LocalClient<'_>) -> T,
) -> T {
    let model = Mlp::new(1, &[], 1, Loss::SquaredError, 0.0);
    let examples = Examples::new(1, Features::Floats(vec![x]), Targets::Values(vec![y]));
    let local_training = LocalTraining {
        work: LocalWork::Steps(steps),
        batch: None,
        learning_rate: rate,
        schedule: Schedule::Constant,
        momentum: 0.0,
    };
    let rng = stream(1, Purpose::Batches, round, 0);
    let mut scratch = Scratch::default();
    work(&mut LocalClient::new(
        &model,
        &examples,
        local_training,
        round,
        rng,
        &mut scratch,
    ))
}

fn model(a: f32, b: f32) -> ModelOnly {
    ModelOnly { model: vec![a, b] }
}

/// f' = y − 4, η = ½, c = 1, τ = 2: the rates of the run's steps are ½, ¼ | ⅙, ⅛, as t counts
/// steps over rounds. The distance to 4 is 4·(½·¾) = 1.5 after round 1 and 1.5·(⅚·⅞) = 1.09375
/// after round 2.
#[test]
fn the_inverse_schedule_counts_local_steps_over_rounds() {
    let small = crate::small::quadratics(&[&[4.0]], 0.0);
    let mut local_training = crate::small::full(2, 0.5);
    local_training.schedule = Schedule::Inverse { factor: 1.0 };
    for algorithm in every_rate_of_the_training() {
        let setup = small.setup(local_training, 2, 1.0, false);
        let mut training = Training::new(setup, &algorithm).unwrap();
        for distance in [1.5, 1.09375] {
            training.next_round().unwrap().unwrap();
            let b = training.shared()[1];
            assert!((4.0 - b - distance).abs() < 1e-6, "{algorithm:?}: {b}");
        }
    }
}

/// Algorithms whose shared model, with one client, is that of plain steps at the training's rate.
fn every_rate_of_the_training() -> Vec<AlgorithmSpec> {
    let of = |table: &str| {
        let spec = Spec::parse(&format!("algorithm = {table}")).unwrap();
        spec.plan().unwrap().algorithm
    };
    [
        "{ kind = 'apfl' }",
        "{ kind = 'apfl', mixing = { chosen = [0, 0.5] } }",
        "{ kind = 'fedavg' }",
        "{ kind = 'scaffold' }",
        "{ kind = 'fedprox', proximal = 0 }",
        "{ kind = 'ditto' }",
    ]
    .map(of)
    .into()
}

#[test]
fn the_factor_of_an_inverse_schedule_is_above_zero() {
    let plan = |text: &str| Spec::parse(text).unwrap().plan();
    let default = plan("training.schedule = 'inverse'").unwrap();
    let expected = "{ kind = \"inverse\", factor = 0.01 }"
        .parse::<toml::Value>()
        .unwrap();
    assert_eq!(default.resolved["training"]["schedule"], expected);
    let refused = plan("training.schedule = { kind = 'inverse', factor = 0, per = 'step' }");
    let message = refused.unwrap_err().to_string();
    for part in [
        "training.schedule.factor: found 0, allowed is above 0",
        "training.schedule.per",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // A kind given by an override drops what the new kind does not have.
    let mut spec = Spec::parse("training.schedule = { factor = 0.9, per = 'step' }").unwrap();
    spec.set("training.schedule={ kind = 'inverse', factor = 0.5 }")
        .unwrap();
    let schedule = spec.plan().unwrap().local_training.schedule;
    assert_eq!(schedule, Schedule::Inverse { factor: 0.5 }.into());
}

/// η = ¼, τ = 2, w = (0, 0).
///
/// ```text
/// A  e = −2     w = ¼·2·(2, 1)                  = (1, ½)
///    e = ½      w = (1, ½) − ¼·½·(2, 1)         = (¾, ⅜)
/// B  e = 1      w = −¼·(1, 1)                   = (−¼, −¼)
///    e = ½      w = (−¼, −¼) − ¼·½·(1, 1)       = (−⅜, −⅜)
/// w ← ½((¾, ⅜) + (−⅜, −⅜)) = (3/16, 0)
/// ```
#[test]
fn fedavg() {
    let round = |client| {
        at_client(client, 1, 2, 0.25, |local_client| {
            FedAvg.local_round(&model(0.0, 0.0), &mut (), local_client)
        })
    };
    let (a, b) = (round(A), round(B));
    assert_eq!(a, model(0.75, 0.375));
    assert_eq!(b, model(-0.375, -0.375));

    let mut server = FedAvg.start(&[0.0, 0.0], 2);
    let mut fold = Default::default();
    for (client, update) in [a, b].into_iter().enumerate() {
        let from = Sender {
            client,
            weight: 1.0,
        };
        FedAvg.fold(&server, &mut fold, from, update);
    }
    FedAvg.finish(&mut server, fold);
    assert_eq!(server, model(0.1875, 0.0));
}

/// Client A of the test above, twice: η = ¼, τ = 1, v = (0, 0) → (1, ½) → (¾, ⅜). What
/// the server has plays no part.
#[test]
fn local() {
    let mut v = LocalOnly.join(&[0.0, 0.0]);
    at_client(A, 1, 1, 0.25, |local_client| {
        LocalOnly.local_round(&(), &mut v, local_client)
    });
    assert_eq!(v, model(1.0, 0.5));
    at_client(A, 2, 1, 0.25, |local_client| {
        LocalOnly.local_round(&(), &mut v, local_client)
    });
    assert_eq!(v, model(0.75, 0.375));
}

/// α = ½, η = ¼, τ = 2, client A, w = v = (0, 0).
///
/// ```text
/// step 1  at w: e = −2                 w = (1, ½)
///         at v̄: e = −2, g = (−4, −2)   v = −¼·½·g = (½, ¼)           v̄ = (¾, ⅜)
/// step 2  at w: e = ½                  w = (¾, ⅜)
///         at v̄: e = −⅛, g = (−¼, −⅛)   v = (½, ¼) + ⅛·(¼, ⅛) = (17/32, 17/64)
///                                      v̄ = ½(v + w) = (41/64, 41/128)
/// ```
#[test]
fn apfl_with_fixed_mixing() {
    let apfl = Apfl::paper(Mixing::Fixed(0.5));
    let mut state = apfl.join(&[0.0, 0.0]);
    let (update, personal) = at_client(A, 1, 2, 0.25, |local_client| {
        let sent = model(0.0, 0.0);
        let update = apfl.local_round(&sent, &mut state, local_client);
        let after = AfterRound {
            local: &state,
            sent: &sent,
            update: &update,
        };
        let personal = match apfl.models(after, local_client).personal {
            Predictor::Own(params) => params,
            other => panic!("v̄ is made for the occasion, found {other:?}"),
        };
        (update, personal)
    });
    assert_eq!(update, model(0.75, 0.375));
    assert_eq!(
        state,
        ClientState {
            v: vec![17.0 / 32.0, 17.0 / 64.0],
            alpha: 0.5
        }
    );
    assert_eq!(personal, [41.0 / 64.0, 41.0 / 128.0]);
}

/// α = ½ learned, η = ⅛, τ = 2, client A, in a later round: v = (1, 0), w = (0, 0).
///
/// ```text
/// step 1  v̄ = (½, 0): e = −1, g = (−2, −1);  ⟨v − w, g⟩ = −2
///         w = ⅛·2·(2, 1) = (½, ¼)            v = (1, 0) + ⅛·½·(2, 1) = (9/8, 1/16)
///         α = ½ + ⅛·2 = ¾                    v̄ = ¾v + ¼w = (31/32, 7/64)
/// step 2  at w: e = −¾                       w = (½, ¼) + ⅛·¾·(2, 1) = (11/16, 11/32)
///         at v̄: e = 3/64, g = (3/32, 3/64)   v = v − ⅛·¾·g = (1143/1024, 119/2048)
///         α stays: it moves at a round's first step alone
/// ```
#[test]
fn apfl_with_learned_mixing_at_a_client() {
    let apfl = Apfl::paper(Mixing::Adaptive(0.5));
    let mut state = ClientState {
        v: vec![1.0, 0.0],
        alpha: 0.5,
    };
    let update = at_client(A, 2, 2, 0.125, |local_client| {
        apfl.local_round(&model(0.0, 0.0), &mut state, local_client)
    });
    assert_eq!(update, model(11.0 / 16.0, 11.0 / 32.0));
    assert_eq!(
        state,
        ClientState {
            v: vec![1143.0 / 1024.0, 119.0 / 2048.0],
            alpha: 0.75
        }
    );
}

/// α⁰ = ½ learned, η = ⅛, τ = 1, both clients, two rounds of a whole run.
///
/// ```text
/// round 1, from w = v = 0, where v − w = 0 leaves α alone:
///   A  e = −2    w_A = (½, ¼)          v_A = ½·w_A = (¼, ⅛)
///   B  e = 1     w_B = (−⅛, −⅛)        v_B = (−1/16, −1/16)
///   w = (3/16, 1/16)
/// round 2
///   A  at w: e = −25/16                w_A = w + 25/128·(2, 1) = (37/64, 33/128)
///      v̄ = (7/32, 3/32): e = −47/32, g = (−47/16, −47/32), v − w = (1/16, 1/16)
///      α_A = ½ + ⅛·(1/16)·(141/32) = ½ + 141/4096
///   B  at w: e = 5/4                   w_B = w − 5/32·(1, 1) = (1/32, −3/32)
///      v̄ = (1/16, 0): e = 17/16, g = (17/16, 17/16), v − w = (−¼, −⅛)
///      α_B = ½ + ⅛·⅜·17/16 = ½ + 51/1024
///   w = ½(w_A + w_B) = (39/128, 21/256)
/// ```
///
/// After round 2 the localized errors are e_A = 37/32 + 33/128 − 2 = −75/128 and
/// e_B = 1/32 − 3/32 + 1 = 15/16, so the pooled training loss is ¼(e_A² + e_B²).
#[test]
fn apfl_with_learned_mixing_as_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("two.csv");
    let rows = "client,x,label,split\nA,2,2,train\nA,1,1,valid\nB,1,-1,train\nB,3,0,valid\n";
    std::fs::write(&table, rows).unwrap();
    let spec = format!(
        "data = {{ kind = 'table', task = 'regression', path = '{}' }}
         model = {{ kind = 'logistic', l2 = 0 }}
         algorithm = {{ kind = 'apfl', mixing = {{ adaptive = 0.5 }} }}
         [training]
         rounds = 2
         local_steps = 1
         batch = 'full'
         learning_rate = 0.125
         schedule = 'constant'",
        table.display()
    );
    let plan = Spec::parse(&spec).unwrap().plan().unwrap();
    let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();

    let first = training.next_round().unwrap().expect("round 1");
    assert_eq!(training.shared(), [3.0 / 16.0, 1.0 / 16.0]);
    let alpha = first.mixing.expect("APFL has an α");
    assert_eq!((alpha.min, alpha.max), (0.5, 0.5));

    let second = training.next_round().unwrap().expect("round 2");
    assert_eq!(training.shared(), [39.0 / 128.0, 21.0 / 256.0]);
    let alpha = second.mixing.expect("APFL has an α");
    assert_eq!(alpha.min, 0.5 + 141.0 / 4096.0);
    assert_eq!(alpha.max, 0.5 + 51.0 / 1024.0);

    let scores = second.scores.expect("evaluated").localized.train;
    let squares = (75.0f64 / 128.0).powi(2) + (15.0f64 / 16.0).powi(2);
    assert_eq!(scores.loss, squares / 4.0);
    assert_eq!(scores.rmse, Some((squares / 2.0).sqrt()));
    assert_eq!(scores.accuracy, None);
}
