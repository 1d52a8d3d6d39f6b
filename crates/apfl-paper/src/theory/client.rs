//! Measures one client: its optimum, targets and line search.

use apfl::clients::Finalized;
use apfl::data::Examples;
use apfl::error::Result;
use serde::Serialize;

use super::bound::{Bound, Corollary};
use super::federation::Federation;
use super::minimize::{Accuracy, minimize_convex_on_unit, minimize_on_unit};
use super::objective::{Objective, distance_squared, dot, norm_squared, rows, to_f64};

/// Represents what the theory says about one client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientTheory {
    /// The client's name.
    pub client: String,
    /// mᵢ, the client's training examples.
    pub examples: usize,
    /// αᵢ at the end of training.
    pub mixing: Option<f64>,
    /// αᵢ as the paper's rule learns it, also if the run's αᵢ was chosen.
    pub learned: Option<f64>,
    /// αᵢ chosen on held-out rows; absent if the shared model was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<f64>,
    /// `argmin_{α∈[0,1]} fᵢ(αvᵢ + (1−α)w)` with the final vᵢ and w; with a chosen αᵢ, vᵢ is the
    /// model that the client trained alone, if it did.
    pub line_search: Option<f64>,
    /// Lᵢ; absent if not estimated.
    pub l: Option<f64>,
    /// ζᵢ over visited points.
    pub zeta: f64,
    /// σᵢ² over visited points.
    pub sigma2: f64,
    /// The distance of the label distributions, a lower bound of ‖D̄ − Dᵢ‖₁.
    pub label_distance: f64,
    /// Whether αᵢ meets Theorem 3's condition.
    pub meets_theorem3: Option<bool>,
    /// Whether αᵢ meets the corollary's condition, with Theorem 1's factor.
    pub below_corollary: Option<bool>,
    /// Whether αᵢ meets the corollary's condition as printed.
    pub below_printed_corollary: Option<bool>,
    /// vᵢ* and derived quantities; absent if not defined.
    pub optimum: Option<LocalOptimum>,
    /// The bound's terms and αᵢ*.
    pub bound: Option<Bound>,
    /// Both sides of the corollary against the local minimizer; absent without αᵢ or optimum.
    pub corollary: Option<Corollary>,
}

/// Represents vᵢ* = argmin fᵢ and the distance of the trained models from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LocalOptimum {
    /// Δᵢ = ‖vᵢ* − w*‖²
    pub delta: f64,
    /// ‖vᵢ*‖
    pub norm: f64,
    /// fᵢ(vᵢ*)
    pub value: f64,
    /// The training loss of vᵢ*, without the ℓ2 term.
    pub loss: f64,
    /// ‖∇fᵢ‖/μ at the result: a bound on its distance from vᵢ*.
    pub certified_within: f64,
    /// Whether the search reached the requested accuracy.
    pub converged: bool,
    /// fᵢ(v̄ᵢ) − fᵢ(vᵢ*) of the trained personal model.
    pub personal_gap: f64,
    /// ‖v̄ᵢ − vᵢ*‖² of the trained personal model.
    pub personal_distance: f64,
    /// ‖vᵢ − h‖² to the two-phase target h = argmin_h fᵢ(αᵢh + (1−αᵢ)w*); absent at αᵢ = 0,
    /// where every h is a minimizer.
    pub target_distance: Option<f64>,
    /// L(v̄ᵢ) − L(vᵢ*) on the client's validation examples, which the corollary bounds.
    pub validation_gap: f64,
}

/// Represents what is measured at one client before the bound's R is known.
pub(super) struct ClientMeasurements {
    pub examples: usize,
    pub mixing: Option<f64>,
    pub line_search: Option<f64>,
    pub mean_norm: f64,
    pub optimum: Option<LocalOptimum>,
}

pub(super) fn measure_client(
    federation: &Federation<'_>,
    client: usize,
    finalized: &Finalized,
    w: &[f64],
    w_star: Option<&[f64]>,
    accuracy: Accuracy,
) -> Result<ClientMeasurements> {
    let train = &federation.shard(client).train;
    let models = finalized.models.as_ref();
    let models = models.expect("finalization keeps the models");
    let v = to_f64(&models.local);
    let v_bar = personal(&models.personal, v.len());
    let mixing = finalized.mixing.map(f64::from);
    let optimum = match w_star {
        None => None,
        Some(w_star) => {
            let found = federation.local_optimum(client, w_star.to_vec(), accuracy)?;
            let mut g = vec![0.0; w.len()];
            let mut pass = |f: Objective<'_>, x: &[f64]| f.evaluate(x, &mut g);
            let (local, held_out) = (federation.local(client), federation.held_out(client));
            Some(LocalOptimum {
                delta: distance_squared(&found.at, w_star),
                norm: norm_squared(&found.at).sqrt(),
                value: found.value,
                loss: pass(local, &found.at).loss,
                certified_within: found.gradient / accuracy.mu,
                converged: found.converged,
                personal_gap: pass(local, &v_bar).value - found.value,
                personal_distance: distance_squared(&v_bar, &found.at),
                target_distance: mixing.filter(|alpha| *alpha > 0.0).map(|alpha| {
                    let h = two_phase_target(alpha, &found.at, w_star);
                    distance_squared(&v, &h)
                }),
                validation_gap: pass(held_out, &v_bar).loss - pass(held_out, &found.at).loss,
            })
        }
    };
    Ok(ClientMeasurements {
        examples: train.len(),
        mixing,
        line_search: match &models.alone {
            Some(alone) => Some(line_search(federation, client, &to_f64(alone), w)),
            None => mixing.map(|_| line_search(federation, client, &v, w)),
        },
        mean_norm: mean_norm(train),
        optimum,
    })
}

/// Returns v̄ᵢ as parameters. For a linear model, a mixture of outputs, stored as (v, w, α), equals
/// that of parameters; it is not needed for other models.
fn personal(kept: &[f32], size: usize) -> Vec<f64> {
    if kept.len() == size {
        return to_f64(kept);
    }
    assert_eq!(kept.len(), 2 * size + 1, "v, w and α");
    let alpha = f64::from(kept[2 * size]);
    let pairs = kept[..size].iter().zip(&kept[size..2 * size]);
    pairs
        .map(|(v, w)| alpha * f64::from(*v) + (1.0 - alpha) * f64::from(*w))
        .collect()
}

/// Returns h = argmin_h fᵢ(αh + (1−α)w*). As αh + (1−α)w* runs through all of ℝᵈ, it must be vᵢ*:
/// h = (vᵢ* − (1−α)w*)/α.
pub fn two_phase_target(alpha: f64, v_star: &[f64], w_star: &[f64]) -> Vec<f64> {
    let pairs = v_star.iter().zip(w_star);
    pairs
        .map(|(v, w)| (v - (1.0 - alpha) * w) / alpha)
        .collect()
}

/// Returns argmin_{α∈[0,1]} fᵢ(αv + (1−α)w): by bisection on ⟨v−w, ∇fᵢ⟩ where fᵢ is convex, else
/// by golden section.
fn line_search(federation: &Federation<'_>, client: usize, v: &[f64], w: &[f64]) -> f64 {
    let f = federation.local(client);
    let along: Vec<f64> = v.iter().zip(w).map(|(v, w)| v - w).collect();
    let mut g = vec![0.0; w.len()];
    let mut mixed = vec![0.0; w.len()];
    let mut at = |alpha: f64, g: &mut [f64]| {
        for ((x, w), along) in mixed.iter_mut().zip(w).zip(&along) {
            *x = w + alpha * along;
        }
        f.evaluate(&mixed, g).value
    };
    if federation.linear() {
        minimize_convex_on_unit(|alpha| {
            at(alpha, &mut g);
            dot(&along, &g)
        })
    } else {
        minimize_on_unit(|alpha| at(alpha, &mut g))
    }
}

/// Returns mean ‖x̃‖ with x̃ = (x, 1).
fn mean_norm(examples: &Examples) -> f64 {
    const ROWS: usize = 256;
    let m = examples.len();
    let mut x = Vec::new();
    let mut sum = 0.0;
    for start in (0..m).step_by(ROWS) {
        rows(examples, start, ROWS.min(m - start), &mut x);
        let norms = x.chunks_exact(examples.width());
        sum += norms.map(|x| (norm_squared(x) + 1.0).sqrt()).sum::<f64>();
    }
    sum / m as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::minimize::minimize;
    use apfl::data::{Features, Targets};
    use apfl::model::Loss;
    use apfl::model::mlp::Mlp;

    /// Searching h directly in fᵢ(αh + (1−α)w*), whose gradient is α∇fᵢ, finds the closed
    /// form. (fᵢ is λ-strongly convex, so the function of h is α²λ-strongly convex.)
    #[test]
    fn a_search_finds_the_two_phase_target() {
        let examples = Examples::new(
            2,
            Features::Floats(vec![0.5, 1.0, -1.0, 0.3, 0.2, -0.8, 1.1, 0.4]),
            Targets::Classes(vec![0, 1, 2, 1]),
        );
        let model = Mlp::new(2, &[], 3, Loss::Softmax, 0.1);
        let f = Objective::new(&model, true, &examples);
        let accuracy = |mu| Accuracy {
            mu,
            relative: 1e-9,
            steps: 1000,
        };
        let zero = vec![0.0; f.len()];
        let v_star = minimize(
            |x, g| Ok(f.evaluate(x, g).value),
            zero.clone(),
            accuracy(0.1),
        );
        let w_star: Vec<f64> = (0..f.len()).map(|j| 0.2 * j as f64 - 0.7).collect();
        let alpha = 0.3;
        let found = minimize(
            |h, g| {
                let pairs = h.iter().zip(&w_star);
                let x: Vec<f64> = pairs.map(|(h, w)| alpha * h + (1.0 - alpha) * w).collect();
                let value = f.evaluate(&x, g).value;
                g.iter_mut().for_each(|g| *g *= alpha);
                Ok(value)
            },
            zero,
            accuracy(0.009),
        )
        .unwrap();
        let closed = two_phase_target(alpha, &v_star.unwrap().at, &w_star);
        assert!(found.converged);
        assert!(distance_squared(&found.at, &closed) < 1e-12);
    }

    #[test]
    fn the_mean_norm_counts_the_bias() {
        let x = Features::Floats(vec![2.0, 2.0, 0.0, 0.0]);
        let examples = Examples::new(2, x, Targets::Values(vec![0.0, 0.0]));
        assert_eq!(mean_norm(&examples), 2.0); // (√(4+4+1) + √1)/2
    }
}
