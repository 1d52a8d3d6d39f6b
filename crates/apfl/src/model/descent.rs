//! Gradients and steps of descent, which follow from a network and its loss.

use super::{Layout, Model, Step, Workspace};
use crate::data::Batch;
use crate::metrics::Tally;
use crate::params::{Params, norm_squared};

/// Here f(x; ξ) is the mean training loss over a batch ξ, with the ℓ2 term. Models cannot override
/// these methods, so all agree on what f is.
impl dyn Model + '_ {
    /// Returns the names and shapes of the network's parameters.
    pub fn layout(&self) -> &Layout {
        self.network().layout()
    }

    /// Returns the number of outputs per example.
    pub fn outputs(&self) -> usize {
        self.network().outputs()
    }

    /// Runs [`Network::forward`](super::Network::forward).
    pub fn forward(&self, at: &[f32], batch: &Batch<'_>, ws: &mut Workspace) {
        self.network().forward(at, batch, ws);
    }

    /// Runs [`Network::backward`](super::Network::backward).
    pub fn backward(
        &self,
        at: Option<&[f32]>,
        into: &mut [f32],
        step: Step,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        self.network().backward(at, into, step, batch, ws);
    }

    /// Returns the ℓ2 term (λ/2)‖at‖².
    pub fn penalty(&self, at: &[f32]) -> f64 {
        match self.l2() {
            0.0 => 0.0,
            l2 => 0.5 * f64::from(l2) * norm_squared(at),
        }
    }

    /// Returns the step of a backward pass that does gradient descent.
    pub fn step(&self, rate: f32) -> Step {
        Step {
            scale: -rate,
            decay: rate * self.l2(),
        }
    }

    /// Returns the sums of loss and hits of a batch's outputs.
    pub fn tally(&self, batch: &Batch<'_>, outputs: &[f32]) -> Tally {
        self.loss().tally(outputs, self.outputs(), &batch.targets)
    }

    /// Computes grad ← ∇f(at; batch), with the ℓ2 term. Returns the mean loss without it.
    pub fn gradient(
        &self,
        at: &[f32],
        batch: &Batch<'_>,
        ws: &mut Workspace,
        grad: &mut [f32],
    ) -> f64 {
        self.forward(at, batch, ws);
        let loss = self.differentiate(batch, ws);
        grad.fill(0.0);
        let step = Step {
            scale: 1.0,
            decay: -self.l2(),
        };
        self.backward(Some(at), grad, step, batch, ws);
        loss
    }

    /// Takes a step into ← into − rate·∇f(at; batch) inside the backward pass, without storing the
    /// gradient. `at: None` is plain SGD, into ← into − rate·∇f(into). Returns the mean loss at
    /// that point, without the ℓ2 term.
    pub fn descend(
        &self,
        at: Option<&[f32]>,
        into: &mut [f32],
        rate: f32,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) -> f64 {
        self.forward(at.unwrap_or(into), batch, ws);
        let loss = self.differentiate(batch, ws);
        self.backward(at, into, self.step(rate), batch, ws);
        loss
    }

    /// Takes a step v ← v − rate·∇f(αv + (1−α)w; batch), with the bits of `descend` at that
    /// mixture, which need not be stored.
    pub fn descend_mixed(
        &self,
        alpha: f32,
        v: &mut [f32],
        w: &[f32],
        rate: f32,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) -> f64 {
        let network = self.network();
        network.forward_mixed(alpha, v, w, batch, ws);
        let loss = self.differentiate(batch, ws);
        network.backward_mixed(alpha, v, w, self.step(rate), batch, ws);
        loss
    }

    /// Takes a step of APFL, both gradients at the old values:
    /// v ← v − rates.0·∇f(αv + (1−α)w; batch) and w ← w − rates.1·∇f(w; batch). Returns both
    /// losses in that order. The bits are those of `descend_mixed` and then `descend`.
    pub fn descend_both(
        &self,
        alpha: f32,
        (v, w): (&mut [f32], &mut [f32]),
        rates: (f32, f32),
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) -> (f64, f64) {
        let Some(passes) = self.network().joint_passes() else {
            let mixed = self.descend_mixed(alpha, v, w, rates.0, batch, ws);
            return (mixed, self.descend(None, w, rates.1, batch, ws));
        };
        passes.forward_both(alpha, v, w, batch, ws);
        let own = self.differentiate(batch, ws);
        let mixed = self.differentiate_mixed(batch, ws);
        let steps = (self.step(rates.0), self.step(rates.1));
        passes.backward_both(alpha, (v, w), steps, batch, ws);
        (mixed, own)
    }

    /// Computes `ws.mixed_delta` ← ∂(mean loss)/∂outputs at `ws.mixed_outputs`. Returns the mean
    /// loss.
    fn differentiate_mixed(&self, batch: &Batch<'_>, ws: &mut Workspace) -> f64 {
        let swap = |ws: &mut Workspace| {
            std::mem::swap(&mut ws.outputs, &mut ws.mixed_outputs);
            std::mem::swap(&mut ws.delta, &mut ws.mixed_delta);
        };
        swap(ws);
        let loss = self.differentiate(batch, ws);
        swap(ws);
        loss
    }

    /// Takes a step of APFL for several fixed α with one v each, every gradient at the old values:
    /// v ← v − ηα·∇f(αv + (1−α)w; batch), and w ← w − η·∇f(w; batch). Returns the sum of all
    /// losses. Each v and w have the bits of `descend_both` with that α alone.
    pub fn descend_all(
        &self,
        models: &mut [(f32, &mut Params)],
        w: &mut [f32],
        eta: f32,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) -> f64 {
        let mut sum = 0.0;
        for (alpha, v) in models {
            sum += self.descend_mixed(*alpha, v, w, eta * *alpha, batch, ws);
        }
        sum + self.descend(None, w, eta, batch, ws)
    }
}
