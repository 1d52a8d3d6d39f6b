//! A client's round under options that are not all the paper's.

use super::options::{AlphaGradient, AlphaOn, Every, Mix, Options, Order, Rate, VDropout};
use super::{Apfl, ClientState};
use crate::local_client::{LocalClient, Part};
use crate::model::Step;
use crate::params::{Params, axpy, dot_difference, mix, project};

impl Rate {
    fn at(self, eta: f32, client: &LocalClient<'_>) -> f32 {
        match self {
            Rate::Schedule => eta,
            Rate::Constant => client.learning_rate(),
            Rate::Number(rate) => rate as f32,
        }
    }
}

impl Options {
    /// Whether dropout acts on v's passes.
    fn drops_v(&self, round: u64) -> bool {
        self.v_dropout != VDropout::FirstRound || round == 1
    }

    /// w ← w − η∇f(w; ξ), within the ball: the same step as FedAvg's.
    fn move_w(&self, w: &mut [f32], eta: f32, client: &mut LocalClient<'_>) {
        client.descend(w, eta);
        if let Some(radius) = self.projection {
            project(w, radius);
        }
    }

    /// v ← Π(v − η_v ∂ᵥf), with ∂ᵥf = αg, and + λv where the ℓ2 term acts on v itself.
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

    /// g ← ∂ᵥ of the mixed loss, but for its factor α, and δ ← ∂(mean loss)/∂outputs:
    ///
    /// ```text
    /// parameters:  δ at z(v̄)               g = J(v̄)ᵀδ
    /// logits:      δ at αz(v) + (1−α)z(w)   g = J(v)ᵀδ
    /// ```
    ///
    /// with J = ∂z/∂parameters, and + λv̄ where the ℓ2 term goes through v̄.
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
            let of_v = &batch.with_dropout_if(self.drops_v(round));
            let at = match self.mix {
                Mix::Parameters => {
                    model.forward(v_bar, of_v, ws);
                    v_bar
                }
                Mix::Logits => {
                    model.forward(w, batch, ws);
                    let z_w = ws.outputs.clone();
                    model.forward(v, of_v, ws);
                    let z_v = ws.outputs.clone();
                    mix(&mut ws.outputs, alpha, &z_v, &z_w);
                    v
                }
            };
            let loss = model.differentiate(batch, ws);
            delta.clone_from(&ws.delta);
            model.backward(Some(at), g, plain, of_v, ws);
            loss
        });
        client.watch(loss);
        if !self.l2_on_v {
            axpy(g, client.model().l2(), v_bar);
        }
    }

    /// h ← α∂ᵥ + (1−α)∂_w of the mixed loss, where ∂ᵥ is what moves v:
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

    /// What α descends along, at v and w as they are now, with the gradients given.
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
            // Σ (z(v) − z(w))·δ, and the ℓ2 term's part.
            (AlphaGradient::Slope, Mix::Logits) => {
                let round = client.round();
                let along_outputs = client.on_batch(|model, batch, ws| {
                    let batch = &batch.with_next_mask();
                    model.forward(w, batch, ws);
                    let of_w = ws.outputs.clone();
                    model.forward(v, &batch.with_dropout_if(self.drops_v(round)), ws);
                    dot_difference(&ws.outputs, &of_w, delta)
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

/// The gradients of a step, and what they are taken with.
struct Gradients<'a> {
    options: &'a Options,
    v_bar: Params,
    g: Params,
    h: Params,
    delta: Vec<f32>,
}

impl Gradients<'_> {
    /// Takes them at v̄ on the batch ξ; `alphas`: α's too.
    fn take(&mut self, local: &ClientState, w: &[f32], alphas: bool, client: &mut LocalClient<'_>) {
        let (options, own) = (self.options, (local.alpha, &local.v[..]));
        mix(&mut self.v_bar, local.alpha, &local.v, w);
        let (v_bar, g, delta) = (&self.v_bar, &mut self.g, &mut self.delta);
        options.mixed_gradient(own, w, v_bar, g, delta, client);
        if alphas && options.alpha_gradient == AlphaGradient::Blended {
            options.blend(local, w, v_bar, g, delta, &mut self.h, client);
        }
    }

    /// What α descends along, at v and w as they are now.
    fn slope(&self, v: &[f32], w: &[f32], client: &mut LocalClient<'_>) -> f64 {
        let Self { v_bar, g, h, .. } = self;
        self.options.slope(v, w, v_bar, g, &self.delta, h, client)
    }
}

/// With f the mixed loss, η, η_v, η_α the step sizes, Π the projection:
///
/// ```text
/// wᵢ ← w;   τ times:
///   w ← Π(w − η∇f(w; ξ))                  sequential: now, else after v
///   v ← Π(v − η_v ∂ᵥf)                    ∂ᵥf = α(…) of the mixture, see above
///   α ← clip₀₁(α − η_α (slope + alpha_l2·α))   adaptive, at a round's first step or at
///                                         every one; the slope at the old v and w, or
///                                         at the new ones where sequential; on ξ, or on rows
///                                         aside, of which ξ has none
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
    let aside = apfl.learns() && options.alpha_on == AlphaOn::HeldOut;
    let part = if aside { Part::Rest } else { Part::Whole };
    if aside {
        client.hold_out(client.examples().div_ceil(5));
    }
    let lambda = client.model().l2();
    let mut taken = Gradients {
        options,
        v_bar: client.borrow(),
        g: client.borrow(),
        h: client.borrow(),
        delta: Vec::new(),
    };
    for s in 0..client.steps() {
        let eta = client.rate(s);
        let eta_v = options.v_rate.at(eta, client);
        let eta_alpha = options.alpha_rate.at(eta, client);
        let learns = apfl.learns() && (s == 0 || options.alpha_every == Every::Step);
        let mut slope = 0.0;
        if learns && aside && !sequential {
            client.next_batch_of(Part::HeldOut);
            taken.take(local, w, true, client);
            slope = taken.slope(&local.v, w, client);
        }

        client.next_batch_of(part);
        if sequential {
            options.move_w(w, eta, client);
        }
        taken.take(local, w, learns && !aside, client);
        if learns && !aside && !sequential {
            slope = taken.slope(&local.v, w, client);
        }

        options.move_v((local.alpha, &mut local.v), &taken.g, eta_v, lambda);
        if !sequential {
            options.move_w(w, eta, client);
        }

        if learns {
            if aside && sequential {
                client.next_batch_of(Part::HeldOut);
                taken.take(local, w, true, client);
            }
            if sequential {
                slope = taken.slope(&local.v, w, client);
            }
            let alpha = f64::from(local.alpha);
            let step = f64::from(eta_alpha) * (slope + options.alpha_l2 * alpha);
            local.alpha = (alpha - step).clamp(0.0, 1.0) as f32;
        }
        after(w, &local.v);
    }
    client.give_back(taken.v_bar);
    client.give_back(taken.g);
    client.give_back(taken.h);
}

/// The same for several fixed α with a v each, on the same batches: w and every v move as with
/// that α alone.
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
        let eta_v = options.v_rate.at(eta, client);
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
