//! L-BFGS for smooth convex functions, in f64.
//!
//! Value and gradient come from one pass over the data; general optimization crates evaluate them
//! separately, at twice the cost. The line search uses convexity (a step that still descends has
//! lowered the value). The search ends by a certificate: for a μ-strongly convex f,
//! ‖x − x*‖ ≤ ‖∇f(x)‖/μ.

use std::collections::VecDeque;

use apfl::error::Result;

use super::objective::{axpy, dot, norm_squared};

/// The number of stored pairs (step, change of gradient).
const MEMORY: usize = 20;

/// Represents the result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Minimum {
    /// The point.
    pub at: Vec<f64>,
    /// The value there.
    pub value: f64,
    /// ‖∇f‖ there.
    pub gradient: f64,
    /// Steps taken.
    pub steps: u64,
    /// Whether the gradient became as small as requested.
    pub converged: bool,
}

/// Represents the required accuracy of a minimum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// μ, the strong convexity.
    pub mu: f64,
    /// The certified distance from the minimum, ‖∇f(x)‖/μ, relative to max(1, ‖x‖).
    pub relative: f64,
    /// The most steps to take.
    pub steps: u64,
}

impl Accuracy {
    fn reached(&self, x: &[f64], gradient: f64) -> bool {
        gradient <= self.mu * self.relative * norm_squared(x).sqrt().max(1.0)
    }
}

/// Finds argmin f from `start`, for a convex f that returns its value and writes its gradient.
pub fn minimize(
    mut f: impl FnMut(&[f64], &mut [f64]) -> Result<f64>,
    start: Vec<f64>,
    accuracy: Accuracy,
) -> Result<Minimum> {
    let mut x = start;
    let mut g = vec![0.0; x.len()];
    let mut value = f(&x, &mut g)?;
    let mut pairs: VecDeque<(Vec<f64>, Vec<f64>, f64)> = VecDeque::new();
    let mut steps = 0;
    let (mut next, mut next_g) = (x.clone(), g.clone());
    let converged = loop {
        let norm = norm_squared(&g).sqrt();
        if accuracy.reached(&x, norm) {
            break true;
        }
        if steps == accuracy.steps || !norm.is_finite() {
            break false;
        }
        let direction = descent(&g, &pairs);
        let slope = dot(&direction, &g);
        // The first step is as long as a gradient step that moves by one at most.
        let first = if pairs.is_empty() {
            1.0 / norm.max(1.0)
        } else {
            1.0
        };
        let Some(reached) = search(
            &mut f,
            &x,
            &direction,
            value,
            slope,
            first,
            &mut next,
            &mut next_g,
        )?
        else {
            break false; // no further progress in f64
        };
        steps += 1;
        let step: Vec<f64> = next.iter().zip(&x).map(|(a, b)| a - b).collect();
        let change: Vec<f64> = next_g.iter().zip(&g).map(|(a, b)| a - b).collect();
        let curvature = dot(&step, &change);
        if curvature > 1e-300 {
            if pairs.len() == MEMORY {
                pairs.pop_front();
            }
            pairs.push_back((step, change, curvature));
        }
        value = reached;
        std::mem::swap(&mut x, &mut next);
        std::mem::swap(&mut g, &mut next_g);
    };
    Ok(Minimum {
        gradient: norm_squared(&g).sqrt(),
        at: x,
        value,
        steps,
        converged,
    })
}

/// Returns −H∇f, where H approximates the inverse Hessian by the stored pairs (two loops).
fn descent(g: &[f64], pairs: &VecDeque<(Vec<f64>, Vec<f64>, f64)>) -> Vec<f64> {
    let mut q: Vec<f64> = g.iter().map(|g| -g).collect();
    let mut shares = Vec::with_capacity(pairs.len());
    for (step, change, curvature) in pairs.iter().rev() {
        let share = dot(step, &q) / curvature;
        axpy(&mut q, -share, change);
        shares.push(share);
    }
    if let Some((_, change, curvature)) = pairs.back() {
        let scale = curvature / norm_squared(change);
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((step, change, curvature), share) in pairs.iter().zip(shares.iter().rev()) {
        let back = dot(change, &q) / curvature;
        axpy(&mut q, share - back, step);
    }
    q
}

/// Finds a step t along `direction` with |φ'(t)| ≤ 0.3·|φ'(0)| and φ(t) ≤ φ(0) up to rounding, that
/// is near the minimum of the line, as ill-conditioned problems need. φ is convex, so φ' only
/// grows, and a secant kept inside its bracket finds it. Returns `None` if there is no such step
/// in f64.
#[allow(clippy::too_many_arguments)]
fn search(
    f: &mut impl FnMut(&[f64], &mut [f64]) -> Result<f64>,
    x: &[f64],
    direction: &[f64],
    value: f64,
    slope: f64,
    first: f64,
    next: &mut [f64],
    next_g: &mut [f64],
) -> Result<Option<f64>> {
    if slope >= 0.0 {
        return Ok(None);
    }
    // (t, φ'(t)/φ'(0)): 1 at t = 0, falls, 0 at the bottom.
    let (mut low, mut high) = ((0.0, 1.0), (f64::INFINITY, f64::NEG_INFINITY));
    let mut t = first;
    for _ in 0..60 {
        for ((next, x), d) in next.iter_mut().zip(x).zip(direction) {
            *next = x + t * d;
        }
        let reached = f(next, next_g)?;
        let ratio = dot(next_g, direction) / slope;
        let lower = reached <= value + 1e-12 * value.abs();
        if ratio.abs() <= 0.3 && lower {
            return Ok(Some(reached));
        }
        if ratio > 0.0 && lower {
            low = (t, ratio)
        } else {
            high = (t, ratio)
        }
        // The zero of the secant through both ends (or through the start).
        t = match high.0.is_finite() {
            false if low.1 < 1.0 => (low.0 / (1.0 - low.1)).clamp(1.5 * low.0, 10.0 * low.0),
            false => 4.0 * t,
            true => {
                let width = high.0 - low.0;
                let share = low.1 / (low.1 - high.1);
                let share = if share.is_finite() { share } else { 0.5 };
                low.0 + width * share.clamp(0.1, 0.9)
            }
        };
    }
    Ok(None)
}

/// Finds argmin_{t∈[0,1]} of a convex function from its derivative, by bisection.
pub fn minimize_convex_on_unit(mut slope: impl FnMut(f64) -> f64) -> f64 {
    if slope(0.0) >= 0.0 {
        return 0.0;
    }
    if slope(1.0) <= 0.0 {
        return 1.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if slope(middle) < 0.0 {
            low = middle
        } else {
            high = middle
        }
    }
    0.5 * (low + high)
}

/// Finds argmin_{t∈[0,1]} of any function: the best of 21 even points, then golden section between
/// its neighbours.
pub fn minimize_on_unit(mut f: impl FnMut(f64) -> f64) -> f64 {
    const GRID: usize = 20;
    let point = |k: usize| k as f64 / GRID as f64;
    let mut best = (0, f64::INFINITY);
    for k in 0..=GRID {
        let value = f(point(k));
        if value < best.1 {
            best = (k, value);
        }
    }
    let golden = 0.5 * (5f64.sqrt() - 1.0);
    let mut low = point(best.0.saturating_sub(1));
    let mut high = point((best.0 + 1).min(GRID));
    let mut at = (point(best.0), best.1);
    for _ in 0..16 {
        let (a, b) = (high - golden * (high - low), low + golden * (high - low));
        let (fa, fb) = (f(a), f(b));
        for tried in [(a, fa), (b, fb)] {
            if tried.1 < at.1 {
                at = tried;
            }
        }
        if fa <= fb { high = b } else { low = a }
    }
    at.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Accuracy = Accuracy {
        mu: 1.0,
        relative: 1e-9,
        steps: 1000,
    };

    #[test]
    fn a_quadratic_of_condition_1e4() {
        // f(x) = ½ Σ hⱼ(xⱼ − j)², h from 1 to 1e4.
        let h: Vec<f64> = (0..50).map(|j| 10f64.powf(4.0 * j as f64 / 49.0)).collect();
        let f = |x: &[f64], g: &mut [f64]| {
            let mut value = 0.0;
            for (j, (x, g)) in x.iter().zip(g).enumerate() {
                let e = x - j as f64;
                *g = h[j] * e;
                value += 0.5 * h[j] * e * e;
            }
            Ok(value)
        };
        let found = minimize(f, vec![0.0; 50], EXACT).unwrap();
        assert!(found.converged, "{found:?}");
        for (j, x) in found.at.iter().enumerate() {
            assert!((x - j as f64).abs() < 1e-6, "{j}: {x}");
        }
    }

    #[test]
    fn a_function_far_from_quadratic() {
        // f(x) = Σ (cosh(xⱼ − cⱼ) + ½(xⱼ − cⱼ)²): minimum at c with value d.
        let c = [3.0, -7.0, 0.5];
        let f = |x: &[f64], g: &mut [f64]| {
            let mut value = 0.0;
            for ((x, g), c) in x.iter().zip(g).zip(c) {
                let e: f64 = x - c;
                *g = e.sinh() + e;
                value += e.cosh() + 0.5 * e * e;
            }
            Ok(value)
        };
        let found = minimize(f, vec![20.0, 20.0, 20.0], EXACT).unwrap();
        assert!(found.converged && (found.value - 3.0).abs() < 1e-12);
        for (x, c) in found.at.iter().zip(c) {
            assert!((x - c).abs() < 1e-6);
        }
    }

    #[test]
    fn minima_on_the_unit_interval() {
        let bottom = |c: f64| move |t: f64| t - c;
        assert!((minimize_convex_on_unit(bottom(0.3)) - 0.3).abs() < 1e-9);
        assert_eq!(minimize_convex_on_unit(bottom(-1.0)), 0.0);
        assert_eq!(minimize_convex_on_unit(bottom(2.0)), 1.0);
        let bowl = |c: f64| move |t: f64| (t - c) * (t - c);
        for c in [0.0, 0.137, 0.5, 0.962, 1.0] {
            assert!((minimize_on_unit(bowl(c)) - c).abs() < 1e-3, "{c}");
        }
        assert_eq!(minimize_on_unit(bowl(7.0)), 1.0);
        // Two valleys, the deeper at 0.8.
        let valleys = |t: f64| ((t - 0.2) * (t - 0.8)).powi(2) - 0.01 * t;
        let deeper = minimize_on_unit(valleys);
        assert!((deeper - 0.8).abs() < 0.02, "{deeper}");
    }
}
