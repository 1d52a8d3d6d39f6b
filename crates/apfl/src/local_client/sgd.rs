//! Local steps of SGD with the run's momentum.

use std::ops::Range;

use super::LocalClient;
use crate::params::Params;

/// Runs SGD on one vector x for one round, with β = `training.momentum` and m⁰ = 0:
///
/// ```text
/// m ← βm + ∇f(x; ξ)      x ← x − ηm
/// ```
///
/// Without momentum it is [`LocalClient::descend`], to the bit.
#[derive(Debug)]
pub struct Sgd {
    beta: f32,
    /// m; empty without momentum.
    m: Params,
    /// ∇f with momentum; else x before the step, where a method needs it.
    spare: Params,
}

impl Sgd {
    /// Starts a round.
    pub fn new(client: &mut LocalClient<'_>) -> Self {
        let beta = client.momentum();
        let m = if beta > 0.0 {
            let mut m = client.borrow();
            m.fill(0.0);
            m
        } else {
            Params::new()
        };
        Self {
            beta,
            m,
            spare: client.borrow(),
        }
    }

    /// Takes all local steps of a round on x, each on the next batch:
    ///
    /// ```text
    /// x ← x − η∇f(x; ξ)   τ times
    /// ```
    pub fn round(x: &mut [f32], client: &mut LocalClient<'_>) {
        let mut sgd = Self::new(client);
        for s in 0..client.steps() {
            client.next_batch();
            sgd.step(x, client.rate(s), client);
        }
        sgd.end(client);
    }

    /// Takes a step of x at rate η on the batch ξ.
    pub fn step(&mut self, x: &mut [f32], eta: f32, client: &mut LocalClient<'_>) {
        if self.m.is_empty() {
            client.descend(x, eta);
            return;
        }
        client.gradient(x, &mut self.spare);
        self.push(eta, 1.0, x, 0..x.len());
    }

    /// Takes a step with a pull to a centre c: ∇f(x; ξ) + λ(x − c) replaces ∇f(x; ξ). With λ = 0
    /// the bits are those of [`Sgd::step`].
    pub(crate) fn step_near(
        &mut self,
        x: &mut [f32],
        eta: f32,
        (lambda, centre): (f32, &[f32]),
        client: &mut LocalClient<'_>,
    ) {
        if self.m.is_empty() {
            self.spare.copy_from_slice(x);
            client.descend(x, eta);
            let share = eta * lambda;
            for ((x, before), c) in x.iter_mut().zip(&self.spare).zip(centre) {
                *x -= share * (before - c);
            }
            return;
        }
        client.gradient(x, &mut self.spare);
        for ((g, x), c) in self.spare.iter_mut().zip(&*x).zip(centre) {
            *g += lambda * (x - c);
        }
        self.push(eta, 1.0, x, 0..x.len());
    }

    /// Takes a step of the range `part` of x; the rest of x does not change.
    pub(crate) fn step_part(
        &mut self,
        x: &mut [f32],
        part: Range<usize>,
        eta: f32,
        client: &mut LocalClient<'_>,
    ) {
        if self.m.is_empty() {
            self.spare.copy_from_slice(x);
            client.descend(x, eta);
            let frozen = [0..part.start, part.end..x.len()];
            for range in frozen {
                x[range.clone()].copy_from_slice(&self.spare[range]);
            }
            return;
        }
        client.gradient(x, &mut self.spare);
        self.push(eta, 1.0, x, part);
    }

    /// Takes a step with momentum through a mixture: α·g replaces ∇f(x; ξ), where g = ∇f(v̄; ξ)
    /// is given.
    pub fn step_with(&mut self, x: &mut [f32], eta: f32, alpha: f32, g: &[f32]) {
        self.spare.copy_from_slice(g);
        self.push(eta, alpha, x, 0..x.len());
    }

    /// Computes m ← βm + scale·g and x ← x − ηm, in a range.
    fn push(&mut self, eta: f32, scale: f32, x: &mut [f32], range: Range<usize>) {
        let (m, g) = (&mut self.m[range.clone()], &self.spare[range.clone()]);
        for ((x, m), g) in x[range].iter_mut().zip(m).zip(g) {
            *m = self.beta * *m + scale * g;
            *x -= eta * *m;
        }
    }

    /// Returns the borrowed vectors.
    pub fn end(self, client: &mut LocalClient<'_>) {
        client.give_back(self.spare);
        if !self.m.is_empty() {
            client.give_back(self.m);
        }
    }
}
