//! `alpha_on = "aside"`: α learns on rows that neither w nor v is trained on.

use apfl::algorithm::apfl::options::{AlphaOn, Mix, Order, Rate};
use apfl::algorithm::apfl::{Apfl, Mixing, Options};
use apfl::local_client::{Predictor, Scratch};
use apfl::params::mix;

use crate::small::{Hand, classes, full, quadratics};

const ASIDE: Options = Options {
    alpha_on: AlphaOn::HeldOut,
    alpha_rate: Rate::Number(1.0 / 64.0),
    ..Options::PAPER
};

/// (w, v, α) after a step from w = 0, v = 4, α = ½ with η = ½ on five rows ½(b − t)²: t = 8, but
/// 0 in the middle one, which is ⌈5/5⌉ = 1 row held out, ⌊5/2⌋ = the third.
fn after(mixing: Mixing, options: Options) -> (f32, f32, f32) {
    let small = quadratics(&[&[8.0, 8.0, 0.0, 8.0, 8.0]], 0.0);
    let apfl = Apfl { mixing, options };
    let mut hand = Hand::new(apfl, small.setup(full(1, 0.5), 1, 1.0, false));
    hand.locals[0].v = vec![0.0, 4.0];
    hand.step();
    let state = &hand.locals[0];
    (hand.shared()[1], state.v[1], state.alpha)
}

#[test]
fn a_step_by_hand() {
    for mix in [Mix::Parameters, Mix::Logits] {
        // v̄ = 2: g = −6 on the other rows, w = ½·8 = 4, v = 4 + ½·½·6; f' = 2 on the held-out row, so that
        // α = ½ − (4 − 0)·2/64. With α on the batch it would be above ½.
        let options = Options { mix, ..ASIDE };
        let adaptive = Mixing::Adaptive(0.5);
        assert_eq!(after(adaptive, options), (4.0, 5.5, 0.5 - 8.0 / 64.0));
        // sequential: w = 4, v̄ = 4, g = −4, v = 5; then v̄ = 4.5 and f' = 4.5 on the held-out row.
        let sequential = Options {
            order: Order::Sequential,
            ..options
        };
        assert_eq!(after(adaptive, sequential), (4.0, 5.0, 0.5 - 4.5 / 64.0));
        // A fixed α holds out nothing: the mean of all rows' t is 6.4.
        let (w, _, alpha) = after(Mixing::Fixed(0.5), options);
        assert!((w - 3.2).abs() < 1e-6 && alpha == 0.5, "{w} {alpha}");
    }
}

/// α's step is the central difference of the mixed loss on the held-out rows, ⌊(2j+1)m/2k⌋ for
/// j < k = ⌈m/5⌉, and not of that on the others.
#[test]
fn alphas_slope_is_the_central_difference_on_held_out_rows() {
    let small = classes(1, 4, 3, &[6], 0.0);
    let train = &small.shards[0].train;
    let m = train.len();
    let k = m.div_ceil(5);
    let held_out: Vec<u32> = (0..k).map(|j| ((2 * j + 1) * m / (2 * k)) as u32).collect();
    for mix_of in [Mix::Parameters, Mix::Logits] {
        let apfl = Apfl {
            mixing: Mixing::Adaptive(0.4),
            options: Options {
                mix: mix_of,
                alpha_rate: Rate::Number(0.125),
                ..ASIDE
            },
        };
        let mut hand = Hand::new(apfl, small.setup(full(1, 1e-3), 1, 1.0, true));
        let w = hand.shared();
        let from = w.iter().enumerate();
        let v: Vec<f32> = from.map(|(j, w)| 0.4 * (j % 4) as f32 - 2.0 * w).collect();
        hand.locals[0].v = v.clone();
        hand.step();
        let slope = f64::from((0.4 - hand.locals[0].alpha) / 0.125);
        let loss = |alpha: f32, rows: &[u32]| {
            let mut v_bar = vec![0.0; w.len()];
            mix(&mut v_bar, alpha, &v, &w);
            let predictor = match mix_of {
                Mix::Parameters => Predictor::Own(v_bar),
                Mix::Logits => Predictor::MixedOutputs {
                    alpha,
                    v: &v,
                    w: &w,
                },
            };
            let tally = Scratch::default().tally(&*small.model, &predictor, &train.gathered(rows));
            tally.loss / tally.examples as f64
        };
        let difference = |rows: &[u32]| (loss(0.401, rows) - loss(0.399, rows)) / 0.002;
        let expected = difference(&held_out);
        let near = |other: f64| (slope - other).abs() < 2e-3 * other.abs().max(1.0);
        assert!(near(expected), "{slope} {expected}");
        let all: Vec<u32> = (0..m as u32).collect();
        assert!(!near(difference(&all)), "{slope}");
    }
}
