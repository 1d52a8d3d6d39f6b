//! Local steps of SGD with the run's momentum.

use std::ops::Range;

use super::LocalClient;
use crate::params::Params;

/// SGD on one vector x for one round, with β = `training.momentum` and m⁰ = 0:
///
/// ```text
/// m ← βm + ∇f(x; ξ)      x ← x − ηm
/// ```
///
/// Without momentum it is [`LocalClient::descend`], to the bit.
#[derive(Debug)]
pub struct Sgd {
    beta: f32,
    /// m, where there is momentum.
    m: Params,
    /// ∇f, where there is momentum; else x before the step, where that is asked for.
    spare: Params,
}

impl Sgd {
    /// Before a round's first step.
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

    /// A step of x at rate η on the batch ξ.
    pub fn step(&mut self, x: &mut [f32], eta: f32, client: &mut LocalClient<'_>) {
        if self.m.is_empty() {
            client.descend(x, eta);
            return;
        }
        client.gradient(x, &mut self.spare);
        self.push(eta, 1.0, x, 0..x.len());
    }

    /// The same with a pull to a centre c: ∇f(x; ξ) + λ(x − c) in the place of ∇f(x; ξ). With
    /// λ = 0 the bits are those of [`Sgd::step`].
    pub fn step_near(
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

    /// A step of a part of x, while the rest of it stays.
    pub fn step_part(
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

    /// With momentum, a step of v through a mixture: α∇f(v̄; ξ) in the place of ∇f(x; ξ), with
    /// g = ∇f(v̄; ξ) given.
    pub fn step_with(&mut self, x: &mut [f32], eta: f32, alpha: f32, g: &[f32]) {
        self.spare.copy_from_slice(g);
        self.push(eta, alpha, x, 0..x.len());
    }

    /// m ← βm + scale·g; x ← x − ηm, in a range.
    fn push(&mut self, eta: f32, scale: f32, x: &mut [f32], range: Range<usize>) {
        let (m, g) = (&mut self.m[range.clone()], &self.spare[range.clone()]);
        for ((x, m), g) in x[range].iter_mut().zip(m).zip(g) {
            *m = self.beta * *m + scale * g;
            *x -= eta * *m;
        }
    }

    /// Gives its vectors back.
    pub fn end(self, client: &mut LocalClient<'_>) {
        client.give_back(self.spare);
        if !self.m.is_empty() {
            client.give_back(self.m);
        }
    }
}
