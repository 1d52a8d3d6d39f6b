//! A client's round with options that depart from the paper.

use super::options::{AlphaGradient, AlphaOn, Every, Mix, Options, Order, Rate, VDropout};
use super::{Apfl, ClientState};
use crate::local_client::{BatchSource, LocalClient};
use crate::model::Step;
use crate::params::{Params, axpy, dot_difference, mix, project};

impl Rate {
    fn value(self, eta: f32, client: &LocalClient<'_>) -> f32 {
        match self {
            Rate::Schedule => eta,
            Rate::Constant => client.learning_rate(),
            Rate::Number(rate) => rate as f32,
        }
    }
}

impl Options {
    /// Returns whether dropout acts on v's passes.
    fn drops_v(&self, round: u64) -> bool {
        self.v_dropout != VDropout::FirstRound || round == 1
    }

    /// Takes FedAvg's step w ← w − η∇f(w; ξ), projected to the ball.
    fn move_w(&self, w: &mut [f32], eta: f32, client: &mut LocalClient<'_>) {
        client.descend(w, eta);
        if let Some(radius) = self.projection {
            project(w, radius);
        }
    }

    /// Takes the step v ← v − η_v ∂ᵥf, projected, with ∂ᵥf = αg, plus λv if the ℓ2 term acts on v.
    fn move_v(&self, (alpha, v): (f32, &mut [f32]), g: &[f32], eta_v: f32, lambda: f32) {
        if self.l2_on_v {
            let decay = eta_v * lambda;
            v.iter_mut().for_each(|v| *v -= decay * *v);
        }
        axpy(v, -eta_v * alpha, g);
        if let Some(radius) = self.projection {
            project(v, radius);
        }
    }

    /// Computes g ← ∂ᵥ of the mixed loss, without its factor α, and δ ← ∂(mean loss)/∂outputs:
    ///
    /// ```text
    /// parameters:  δ at z(v̄)               g = J(v̄)ᵀδ
    /// logits:      δ at αz(v) + (1−α)z(w)   g = J(v)ᵀδ
    /// ```
    ///
    /// with J = ∂z/∂parameters, plus λv̄ if the ℓ2 term goes through v̄.
    fn mixed_gradient(
        &self,
        (alpha, v): (f32, &[f32]),
        w: &[f32],
        v_bar: &[f32],
        g: &mut [f32],
        delta: &mut Vec<f32>,
        client: &mut LocalClient<'_>,
    ) {
        g.fill(0.0);
        let plain = Step {
            scale: 1.0,
            decay: 0.0,
        };
        let round = client.round();
        let loss = client.on_batch(|model, batch, ws| {
            let batch = &batch.with_next_mask();
            let batch_v = &batch.with_dropout_if(self.drops_v(round));
            let at = match self.mix {
                Mix::Parameters => {
                    model.forward(v_bar, batch_v, ws);
                    v_bar
                }
                Mix::Logits => {
                    model.forward(w, batch, ws);
                    let z_w = ws.outputs.clone();
                    model.forward(v, batch_v, ws);
                    let z_v = ws.outputs.clone();
                    mix(&mut ws.outputs, alpha, &z_v, &z_w);
                    v
                }
            };
            let loss = model.differentiate(batch, ws);
            delta.clone_from(&ws.delta);
            model.backward(Some(at), g, plain, batch_v, ws);
            loss
        });
        client.watch(loss);
        if !self.l2_on_v {
            axpy(g, client.model().l2(), v_bar);
        }
    }

    /// Computes h ← α∂ᵥ + (1−α)∂_w of the mixed loss, where ∂ᵥ moves v:
    ///
    /// ```text
    /// ℓ2 through v̄:  ∂ᵥ = αg            ∂_w = (1−α)(J(w)ᵀδ + λv̄)
    /// ℓ2 on v:       ∂ᵥ = αg + λv       ∂_w = (1−α)J(w)ᵀδ
    /// ```
    #[allow(clippy::too_many_arguments)]
    fn blend(
        &self,
        ClientState { v, alpha }: &ClientState,
        w: &[f32],
        v_bar: &[f32],
        g: &[f32],
        delta: &[f32],
        h: &mut [f32],
        client: &mut LocalClient<'_>,
    ) {
        let lambda = client.model().l2();
        match self.mix {
            Mix::Parameters => h.copy_from_slice(g),
            Mix::Logits => {
                h.fill(0.0);
                let plain = Step {
                    scale: 1.0,
                    decay: 0.0,
                };
                client.on_batch(|model, batch, ws| {
                    let batch = &batch.with_next_mask();
                    model.forward(w, batch, ws);
                    ws.delta.clear();
                    ws.delta.extend_from_slice(delta);
                    model.backward(Some(w), h, plain, batch, ws);
                });
                if !self.l2_on_v {
                    axpy(h, lambda, v_bar);
                }
            }
        }
        let rest = 1.0 - alpha;
        let on_v = if self.l2_on_v { lambda } else { 0.0 };
        for ((h, g), v) in h.iter_mut().zip(g).zip(v) {
            *h = alpha * (alpha * g + on_v * v) + rest * rest * *h;
        }
    }

    /// Returns the direction in which α descends, at the current v and w, with the given gradients.
    #[allow(clippy::too_many_arguments)]
    fn slope(
        &self,
        v: &[f32],
        w: &[f32],
        v_bar: &[f32],
        g: &[f32],
        delta: &[f32],
        h: &[f32],
        client: &mut LocalClient<'_>,
    ) -> f64 {
        match (self.alpha_gradient, self.mix) {
            (AlphaGradient::Blended, _) => dot_difference(v, w, h),
            (AlphaGradient::Slope, Mix::Parameters) => dot_difference(v, w, g),
            // Σ (z(v) − z(w))·δ, plus the ℓ2 term's part.
            (AlphaGradient::Slope, Mix::Logits) => {
                let round = client.round();
                let along_outputs = client.on_batch(|model, batch, ws| {
                    let batch = &batch.with_next_mask();
                    model.forward(w, batch, ws);
                    let z_w = ws.outputs.clone();
                    model.forward(v, &batch.with_dropout_if(self.drops_v(round)), ws);
                    dot_difference(&ws.outputs, &z_w, delta)
                });
                if self.l2_on_v {
                    along_outputs
                } else {
                    let lambda = f64::from(client.model().l2());
                    along_outputs + lambda * dot_difference(v, w, v_bar)
                }
            }
        }
    }
}

/// The gradients of a step and the buffers to compute them.
struct Gradients<'a> {
    options: &'a Options,
    v_bar: Params,
    g: Params,
    h: Params,
    delta: Vec<f32>,
}

impl Gradients<'_> {
    /// Computes the gradients at v̄ on the batch ξ, and α's if `with_alpha`.
    fn compute(
        &mut self,
        local: &ClientState,
        w: &[f32],
        with_alpha: bool,
        client: &mut LocalClient<'_>,
    ) {
        let (options, own) = (self.options, (local.alpha, &local.v[..]));
        mix(&mut self.v_bar, local.alpha, &local.v, w);
        let (v_bar, g, delta) = (&self.v_bar, &mut self.g, &mut self.delta);
        options.mixed_gradient(own, w, v_bar, g, delta, client);
        if with_alpha && options.alpha_gradient == AlphaGradient::Blended {
            options.blend(local, w, v_bar, g, delta, &mut self.h, client);
        }
    }

    /// Returns the direction in which α descends, at the current v and w.
    fn slope(&self, v: &[f32], w: &[f32], client: &mut LocalClient<'_>) -> f64 {
        let Self { v_bar, g, h, .. } = self;
        self.options.slope(v, w, v_bar, g, &self.delta, h, client)
    }
}

/// Trains one round, with f the mixed loss, η, η_v, η_α the step sizes, Π the projection:
///
/// ```text
/// wᵢ ← w;   τ times:
///   w ← Π(w − η∇f(w; ξ))                  sequential: here, else after v
///   v ← Π(v − η_v ∂ᵥf)                    ∂ᵥf = α(…) of the mixture, see above
///   α ← clip₀₁(α − η_α (slope + alpha_l2·α))   adaptive, at a round's first step or at
///                                         every step; the slope at the old v and w, or
///                                         at the new ones if sequential; on ξ, or on held-out
///                                         rows, of which ξ has none
/// ```
pub(super) fn round(
    apfl: &Apfl,
    w: &mut [f32],
    local: &mut ClientState,
    client: &mut LocalClient<'_>,
    mut after: impl FnMut(&[f32], &[f32]),
) {
    let options = &apfl.options;
    let sequential = options.order == Order::Sequential;
    let held_out = apfl.learns() && options.alpha_on == AlphaOn::HeldOut;
    let source = if held_out {
        BatchSource::Rest
    } else {
        BatchSource::Whole
    };
    if held_out {
        client.hold_out(client.examples().div_ceil(5));
    }
    let lambda = client.model().l2();
    let mut gradients = Gradients {
        options,
        v_bar: client.borrow(),
        g: client.borrow(),
        h: client.borrow(),
        delta: Vec::new(),
    };
    for s in 0..client.steps() {
        let eta = client.rate(s);
        let eta_v = options.v_rate.value(eta, client);
        let eta_alpha = options.alpha_rate.value(eta, client);
        let learns = apfl.learns() && (s == 0 || options.alpha_every == Every::Step);
        let mut slope = 0.0;
        if learns && held_out && !sequential {
            client.next_batch_of(BatchSource::HeldOut);
            gradients.compute(local, w, true, client);
            slope = gradients.slope(&local.v, w, client);
        }

        client.next_batch_of(source);
        if sequential {
            options.move_w(w, eta, client);
        }
        gradients.compute(local, w, learns && !held_out, client);
        if learns && !held_out && !sequential {
            slope = gradients.slope(&local.v, w, client);
        }

        options.move_v((local.alpha, &mut local.v), &gradients.g, eta_v, lambda);
        if !sequential {
            options.move_w(w, eta, client);
        }

        if learns {
            if held_out && sequential {
                client.next_batch_of(BatchSource::HeldOut);
                gradients.compute(local, w, true, client);
            }
            if sequential {
                slope = gradients.slope(&local.v, w, client);
            }
            let alpha = f64::from(local.alpha);
            let step = f64::from(eta_alpha) * (slope + options.alpha_l2 * alpha);
            local.alpha = (alpha - step).clamp(0.0, 1.0) as f32;
        }
        after(w, &local.v);
    }
    client.give_back(gradients.v_bar);
    client.give_back(gradients.g);
    client.give_back(gradients.h);
}

/// Trains one round for several fixed α with one v each, on the same batches. w and every v move
/// as with that α alone.
pub(super) fn rounds(
    options: &Options,
    w: &mut [f32],
    models: &mut [(f32, &mut Params)],
    client: &mut LocalClient<'_>,
) {
    let sequential = options.order == Order::Sequential;
    let lambda = client.model().l2();
    let (mut v_bar, mut g) = (client.borrow(), client.borrow());
    let mut delta = Vec::new();
    for s in 0..client.steps() {
        let eta = client.rate(s);
        let eta_v = options.v_rate.value(eta, client);
        client.next_batch();
        if sequential {
            options.move_w(w, eta, client);
        }
        for (alpha, v) in models.iter_mut() {
            mix(&mut v_bar, *alpha, v, w);
            options.mixed_gradient((*alpha, v), w, &v_bar, &mut g, &mut delta, client);
            options.move_v((*alpha, v), &g, eta_v, lambda);
        }
        if !sequential {
            options.move_w(w, eta, client);
        }
    }
    client.give_back(v_bar);
    client.give_back(g);
}
