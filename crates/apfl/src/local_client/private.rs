//! Local steps under differential privacy: w's gradient is clipped per example and noise is
//! added. What stays at the client is unchanged.

use rand::RngExt;
use rand_distr::StandardNormal;

use super::LocalClient;
use crate::privacy::NoiseSeed;
use crate::rng::Stream;

/// Settings of private local steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrivateSteps {
    /// C: the largest norm of an example's gradient.
    pub clip: f64,
    /// σ: the standard deviation of the noise in units of C.
    pub noise: f64,
    /// The source of the noise and the samples.
    pub noise_seed: NoiseSeed,
}

/// State of private steps during a round.
pub(super) struct PrivateState {
    settings: PrivateSteps,
    rng: Stream,
    squares: Vec<f64>,
}

impl<'a> LocalClient<'a> {
    /// Makes the steps private if `settings` are given. Batches are then Poisson samples.
    pub fn with_privacy(mut self, settings: Option<PrivateSteps>, rng: Stream) -> Self {
        self.private = settings.map(|settings| PrivateState {
            settings,
            rng,
            squares: Vec::new(),
        });
        self
    }

    /// Returns whether the batch is empty, which happens only to Poisson samples.
    pub(super) fn batch_is_empty(&self) -> bool {
        self.private.is_some() && !self.whole && self.scratch.batch.is_empty()
    }

    /// Takes a private step, with B the expected size of the sample ξ and gᵢ the gradient of the
    /// loss of example i:
    ///
    /// ```text
    /// x ← x − η [ (Σ_{i∈ξ} gᵢ·min(1, C/‖gᵢ‖) + N(0, σ²C²I)) / B + λx ]
    /// ```
    ///
    /// Returns the sample's mean loss; 0 if it is empty.
    pub(super) fn descend_privately(&mut self, x: &mut [f32], rate: f32) -> f64 {
        let m = self.train.len();
        let expected = self.local_training.batch.map_or(m, |batch| batch.min(m)) as f64;
        let empty = self.batch_is_empty();
        let mut state = self.private.take().expect("a private client");
        let PrivateSteps { clip, noise, .. } = state.settings;
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
                // δ belongs to the mean over the batch; n·δ is the example's own.
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

    /// Takes a plain step of v and a private step of w, both gradients at the old values.
    pub(super) fn descend_both_privately(
        &mut self,
        alpha: f32,
        v: &mut [f32],
        w: &mut [f32],
        (rate_v, rate_w): (f32, f32),
    ) {
        if self.batch_is_empty() {
            let decay = rate_v * self.model.l2();
            let rest = 1.0 - alpha;
            for (v, w) in v.iter_mut().zip(&*w) {
                *v -= decay * (alpha * *v + rest * w);
            }
        } else {
            let mixed = self
                .on_batch(|model, batch, ws| model.descend_mixed(alpha, v, w, rate_v, batch, ws));
            self.watch(mixed);
        }
        self.descend_privately(w, rate_w);
    }
}
