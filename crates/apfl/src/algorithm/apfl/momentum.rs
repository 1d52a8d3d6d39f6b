//! The paper's round with `training.momentum`, as in FedRep's comparison (Collins et al., 2021).
//! The paper itself has no momentum.

use crate::local_client::{LocalClient, Sgd};
use crate::params::{Params, dot_difference, mix};

/// Trains one or more models, each with its α. With every right-hand side at the values before
/// the step, and all m⁰ = 0:
///
/// ```text
/// wᵢ ← w;   τ times, v̄ᵢ = αᵢvᵢ + (1−αᵢ)wᵢ:
///   m_w ← βm_w + ∇fᵢ(wᵢ; ξ)          wᵢ ← wᵢ − ηm_w
///   m_v ← βm_v + αᵢ∇fᵢ(v̄ᵢ; ξ)        vᵢ ← vᵢ − ηm_v
///   αᵢ ← clip₀₁(αᵢ − η ⟨vᵢ − wᵢ, ∇fᵢ(v̄ᵢ; ξ)⟩)   if learned: at a round's first step
/// ```
pub(super) fn rounds(
    learns: bool,
    w: &mut [f32],
    models: &mut [(f32, &mut Params)],
    client: &mut LocalClient<'_>,
) {
    let mut sgd_w = Sgd::new(client);
    let mut sgd_v: Vec<_> = models.iter().map(|_| Sgd::new(client)).collect();
    let (mut v_bar, mut g) = (client.borrow(), client.borrow());
    for s in 0..client.steps() {
        let eta = client.rate(s);
        client.next_batch();
        for ((alpha, v), sgd_v) in models.iter_mut().zip(&mut sgd_v) {
            mix(&mut v_bar, *alpha, v, w);
            client.gradient(&v_bar, &mut g);
            let slope = dot_difference(v, w, &g);
            sgd_v.step_with(v, eta, *alpha, &g);
            if learns && s == 0 {
                *alpha = (f64::from(*alpha) - f64::from(eta) * slope).clamp(0.0, 1.0) as f32;
            }
        }
        sgd_w.step(w, eta, client);
    }
    client.give_back(v_bar);
    client.give_back(g);
    sgd_w.end(client);
    sgd_v.into_iter().for_each(|sgd| sgd.end(client));
}
