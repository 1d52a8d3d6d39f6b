//! The paper's round with `training.momentum`, which the paper does not have: FedRep's
//! comparison (Collins et al., 2021) trains APFL so.

use super::{Apfl, Memory};
use crate::params::{dot_difference, mix};
use crate::site::{Sgd, Site};

/// With every right-hand side at the values before the step, and m_w⁰ = m_v⁰ = 0:
///
/// ```text
/// wᵢ ← w;   τ times, v̄ᵢ = αᵢvᵢ + (1−αᵢ)wᵢ:
///   m_w ← βm_w + ∇fᵢ(wᵢ; ξ)          wᵢ ← wᵢ − ηm_w
///   m_v ← βm_v + αᵢ∇fᵢ(v̄ᵢ; ξ)        vᵢ ← vᵢ − ηm_v
///   αᵢ ← clip₀₁(αᵢ − η ⟨vᵢ − wᵢ, ∇fᵢ(v̄ᵢ; ξ)⟩)   adaptive: at a round's first step
/// ```
pub(super) fn round(apfl: &Apfl, w: &mut [f32], local: &mut Memory, site: &mut Site<'_>) {
    let Memory { v, alpha } = local;
    let (mut of_w, mut of_v) = (Sgd::new(site), Sgd::new(site));
    let (mut v_bar, mut g) = (site.borrow(), site.borrow());
    for s in 0..site.steps() {
        let eta = site.rate(s);
        site.next_batch();
        mix(&mut v_bar, *alpha, v, w);
        site.gradient(&v_bar, &mut g);
        let slope = dot_difference(v, w, &g);
        of_v.step_with(v, eta, *alpha, &g);
        of_w.step(w, eta, site);
        if apfl.learns() && s == 0 {
            *alpha = (f64::from(*alpha) - f64::from(eta) * slope).clamp(0.0, 1.0) as f32;
        }
    }
    site.give_back(v_bar);
    site.give_back(g);
    of_w.end(site);
    of_v.end(site);
}
