//! Local steps under differential privacy: w's gradient is clipped example by example and gets
//! noise; everything that stays at the client is as it was.

use rand::RngExt;
use rand_distr::StandardNormal;

use super::LocalClient;
use crate::privacy::NoiseSeed;
use crate::rng::Stream;

/// How a client's steps are made private.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrivateSteps {
    /// C: the largest norm of an example's gradient.
    pub clip: f64,
    /// σ: the noise's deviation in units of C.
    pub noise: f64,
    /// Where the noise and the samples come from.
    pub noise_seed: NoiseSeed,
}

/// The same in a round: with its noise, and room for the examples' norms.
pub(super) struct PrivateState {
    how: PrivateSteps,
    rng: Stream,
    squares: Vec<f64>,
}

impl<'a> LocalClient<'a> {
    /// The same, with private steps where they are to be: batches are Poisson samples then.
    pub fn privately(mut self, how: Option<PrivateSteps>, rng: Stream) -> Self {
        self.private = how.map(|how| PrivateState {
            how,
            rng,
            squares: Vec::new(),
        });
        self
    }

    /// Whether the sample has nobody in it, as happens to Poisson samples alone.
    pub(super) fn batch_is_empty(&self) -> bool {
        self.private.is_some() && !self.whole && self.scratch.batch.is_empty()
    }

    /// With B the expected size of the sample ξ and gᵢ the gradient of the loss of example i:
    ///
    /// ```text
    /// x ← x − η [ (Σ_{i∈ξ} gᵢ·min(1, C/‖gᵢ‖) + N(0, σ²C²I)) / B + λx ]
    /// ```
    ///
    /// Returns the sample's mean loss; 0 where it is empty.
    pub(super) fn descend_privately(&mut self, x: &mut [f32], rate: f32) -> f64 {
        let m = self.train.len();
        let expected = self.local_training.batch.map_or(m, |batch| batch.min(m)) as f64;
        let empty = self.batch_is_empty();
        let mut state = self.private.take().expect("a private site");
        let PrivateSteps { clip, noise, .. } = state.how;
        let mut loss = 0.0;
        if empty {
            let decay = rate * self.model.l2();
            x.iter_mut().for_each(|x| *x -= decay * *x);
        } else {
            loss = self.on_batch(|model, batch, ws| {
                model.forward(x, batch, ws);
                let loss = model.differentiate(batch, ws);
                let norms = model.example_norms();
                let norms = norms.expect("a private run requires them");
                norms.squared_norms(x, batch, ws, &mut state.squares);
                // δ is that of the mean over the batch: n times it is the example's own.
                let n = batch.len() as f64;
                let rows = ws.delta.chunks_exact_mut(model.outputs());
                for (row, square) in rows.zip(&state.squares) {
                    let norm = n * square.sqrt();
                    let shrink = if norm > clip { clip / norm } else { 1.0 };
                    let factor = (shrink * n / expected) as f32;
                    row.iter_mut().for_each(|delta| *delta *= factor);
                }
                model.backward(None, x, model.step(rate), batch, ws);
                loss
            });
        }
        let deviation = f64::from(rate) * noise * clip / expected;
        if deviation > 0.0 {
            for x in x.iter_mut() {
                let noise: f64 = state.rng.sample(StandardNormal);
                *x = (f64::from(*x) - deviation * noise) as f32;
            }
        }
        self.private = Some(state);
        self.watch(loss)
    }

    /// v's step is the plain one, w's the private one; both at the values before.
    pub(super) fn descend_both_privately(
        &mut self,
        alpha: f32,
        v: &mut [f32],
        w: &mut [f32],
        (of_v, of_w): (f32, f32),
    ) {
        if self.batch_is_empty() {
            let decay = of_v * self.model.l2();
            let rest = 1.0 - alpha;
            for (v, w) in v.iter_mut().zip(&*w) {
                *v -= decay * (alpha * *v + rest * w);
            }
        } else {
            let mixed =
                self.on_batch(|model, batch, ws| model.descend_mixed(alpha, v, w, of_v, batch, ws));
            self.watch(mixed);
        }
        self.descend_privately(w, of_w);
    }
}
