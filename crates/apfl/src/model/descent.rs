//! What follows from a network and its loss: gradients and steps of descent.

use super::{Layout, Model, Step, Workspace};
use crate::data::Batch;
use crate::metrics::Tally;
use crate::params::{Params, norm_squared};

/// With f(x; ξ) the mean training loss over a batch ξ, ℓ2 term included. No model has a way of
/// its own to do any of this, so that all of them agree on what f is.
impl dyn Model + '_ {
    /// Returns the names and shapes of the network's parameters.
    pub fn layout(&self) -> &Layout {
        self.network().layout()
    }

    /// Returns how many numbers the network puts out per example.
    pub fn outputs(&self) -> usize {
        self.network().outputs()
    }

    /// Passes forward through the network: see [`Network::forward`](super::Network::forward).
    pub fn forward(&self, at: &[f32], batch: &Batch<'_>, ws: &mut Workspace) {
        self.network().forward(at, batch, ws);
    }

    /// Passes backward through it: see [`Network::backward`](super::Network::backward).
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

    /// (λ/2)‖at‖²
    pub fn penalty(&self, at: &[f32]) -> f64 {
        match self.l2() {
            0.0 => 0.0,
            l2 => 0.5 * f64::from(l2) * norm_squared(at),
        }
    }

    /// Returns what a backward pass does in a step of gradient descent.
    pub fn step(&self, rate: f32) -> Step {
        Step {
            scale: -rate,
            decay: rate * self.l2(),
        }
    }

    /// Returns loss and hits of a forward pass's outputs.
    pub fn tally(&self, batch: &Batch<'_>, outputs: &[f32]) -> Tally {
        self.loss().tally(outputs, self.outputs(), &batch.targets)
    }

    /// grad ← ∇f(at; batch), ℓ2 term included. Returns the mean loss without that term.
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

    /// into ← into − rate·∇f(at; batch), done inside the backward pass: no gradient is
    /// stored. `at: None` is plain SGD, into ← into − rate·∇f(into). Returns the mean loss
    /// at that point, without the ℓ2 term.
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

    /// v ← v − rate·∇f(αv + (1−α)w; batch), to the bits of `descend` at that mixture, which
    /// need not be written down for it.
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

    /// A step of APFL, both gradients at the values before it:
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

    /// `ws.mixed_delta` ← ∂(mean loss)/∂outputs at `ws.mixed_outputs`. Returns the mean loss.
    fn differentiate_mixed(&self, batch: &Batch<'_>, ws: &mut Workspace) -> f64 {
        let exchange = |ws: &mut Workspace| {
            std::mem::swap(&mut ws.outputs, &mut ws.mixed_outputs);
            std::mem::swap(&mut ws.delta, &mut ws.mixed_delta);
        };
        exchange(ws);
        let loss = self.differentiate(batch, ws);
        exchange(ws);
        loss
    }

    /// A step of APFL for several fixed α with a v each, every gradient at the values before
    /// it: v ← v − ηα·∇f(αv + (1−α)w; batch), and w ← w − η·∇f(w; batch). Returns the sum of
    /// all losses. Each v and w have the bits of `descend_both` with that α alone.
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
