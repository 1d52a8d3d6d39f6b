//! Classification with a ridge by its evidence: Newton steps and Laplace's approximation.
//!
//! Weights ~ N(0, 1/λ), intercepts ~ N(0, 1/0.04), which keeps a class that is absent or alone
//! finite. Two classes have one logit. More have one each, whose Newton steps take turns with the
//! others fixed; a class by itself is a logistic regression of z_c − ln Σ_{k≠c} exp(z_k).
//!
//! ```text
//! ln evidence = ln p(y|θ) − ½·Σ precision·θ² + (logits·r/2)·ln λ − ½·Σ_c ln|H_c|
//! ```
//!
//! H_c is the Hessian of class c: for two classes this is Laplace's approximation, for more its
//! part within classes.
//!
//! Of few rows that a plane separates, Laplace's approximation prefers no ridge at all. So the
//! standard deviation of a logit by the prior has a half-Cauchy prior of its own, of scale 2.5. In
//! a simulation with 12 features it lowers the loss on new rows from 0.84 to 0.63 with 20 training
//! rows and from 0.72 to 0.53 with 30, and changes nothing from 60 on.

use super::best;
use super::span::Span;
use super::symmetric::{Factor, dot};

/// The prior precision of an intercept: a standard deviation of 5.
const INTERCEPT: f64 = 0.04;
/// The scale of the half-Cauchy prior on a logit's standard deviation.
const SCALE: f64 = 2.5;
/// A turn of all classes that gains less than this per row is the last one.
const TOLERANCE: f64 = 1e-6;
const MAX_TURNS: usize = 100;

/// Returns intercept and weights of every logit: of class 1 for two classes, else one per class.
pub(super) fn fit(span: &Span, y: &[u32], classes: usize) -> Option<Vec<(f64, Vec<f64>)>> {
    let r = span.rank;
    let logits = if classes == 2 { 1 } else { classes };
    let mut fit = Fit::new(span, y, logits);
    let fits = (-3..=5).map(|k| {
        let deviation = 2f64.powi(k); // of a logit, by the prior
        fit.lambda = span.mean_square() / (deviation * deviation);
        let determinants = fit.maximize()?;
        let free = (logits * r) as f64;
        let evidence = -fit.objective() + 0.5 * free * fit.lambda.ln() - 0.5 * determinants;
        let prior = -(deviation / SCALE).powi(2).ln_1p();
        Some((evidence + prior, fit.theta.clone()))
    });
    let theta = best(fits)?;
    let column = |theta: &Vec<f64>| (theta[0], span.weights(&theta[1..]));
    Some(theta.iter().map(column).collect())
}

/// A fit in progress.
struct Fit<'a> {
    span: &'a Span,
    y: &'a [u32],
    lambda: f64,
    /// Intercept and β of every logit.
    theta: Vec<Vec<f64>>,
    /// The logits, by logit and row.
    z: Vec<Vec<f64>>,
}

impl<'a> Fit<'a> {
    fn new(span: &'a Span, y: &'a [u32], logits: usize) -> Self {
        Self {
            span,
            y,
            lambda: 1.0,
            theta: vec![vec![0.0; span.rank + 1]; logits],
            z: vec![vec![0.0; span.rows]; logits],
        }
    }

    /// Returns whether a row belongs to the class of a logit.
    fn is(&self, i: usize, c: usize) -> bool {
        let class = if self.theta.len() == 1 { 1 } else { c };
        self.y[i] as usize == class
    }

    fn penalty(&self, theta: &[f64]) -> f64 {
        0.5 * (INTERCEPT * theta[0] * theta[0] + self.lambda * dot(&theta[1..], &theta[1..]))
    }

    /// Returns −ln p(y|θ) + ½·Σ precision·θ².
    fn objective(&self) -> f64 {
        let rows = 0..self.span.rows;
        let loss = |i: usize| {
            if let [z] = &self.z[..] {
                return softplus(if self.is(i, 0) { -z[i] } else { z[i] });
            }
            let all = self.z.iter().map(|z| z[i]);
            log_sum_exp(all) - self.z[self.y[i] as usize][i]
        };
        let penalties = self.theta.iter().map(|theta| self.penalty(theta));
        rows.map(loss).sum::<f64>() + penalties.sum::<f64>()
    }

    /// Takes turns until they gain little. Returns Σ ln|H_c|; `None` if a Hessian is singular.
    fn maximize(&mut self) -> Option<f64> {
        let mut determinants = 0.0;
        for _ in 0..MAX_TURNS {
            let mut gained = 0.0;
            determinants = 0.0;
            for c in 0..self.theta.len() {
                let (gain, determinant) = self.newton(c)?;
                gained += gain;
                determinants += determinant;
            }
            if gained <= TOLERANCE * self.span.rows as f64 {
                break;
            }
        }
        Some(determinants)
    }

    /// Takes a Newton step of one class, shortened until it descends. Returns what it gains and
    /// ln|H| before it.
    fn newton(&mut self, c: usize) -> Option<(f64, f64)> {
        let (n, size) = (self.span.rows, self.span.rank + 1);
        let others: Vec<f64> = (0..n).map(|i| self.offset(i, c)).collect();
        let mut gradient: Vec<f64> = self.theta[c].iter().map(|t| self.lambda * t).collect();
        gradient[0] = INTERCEPT * self.theta[c][0];
        let mut hessian = vec![0.0; size * size];
        (1..size).for_each(|j| hessian[j * size + j] = self.lambda);
        hessian[0] = INTERCEPT;
        for (i, other) in others.iter().enumerate() {
            let p = 1.0 / (1.0 + (other - self.z[c][i]).exp());
            let (miss, weight) = (p - f64::from(u8::from(self.is(i, c))), p * (1.0 - p));
            let row = self.span.row(i);
            gradient[0] += miss;
            hessian[0] += weight;
            for (j, x) in row.iter().enumerate() {
                gradient[j + 1] += miss * x;
                let line = &mut hessian[(j + 1) * size..][..j + 2];
                let scaled = weight * x;
                line[0] += scaled;
                line[1..]
                    .iter_mut()
                    .zip(row)
                    .for_each(|(h, x)| *h += scaled * x);
            }
        }
        let factor = Factor::of(hessian, size)?;
        let step = factor.solve(&gradient);
        let slope = dot(&gradient, &step);
        let along: Vec<f64> = (0..n)
            .map(|i| step[0] + dot(self.span.row(i), &step[1..]))
            .collect();
        let loss = |z: &dyn Fn(usize) -> f64| -> f64 {
            let each = (0..n).map(|i| {
                let u = z(i) - others[i];
                softplus(if self.is(i, c) { -u } else { u })
            });
            each.sum()
        };
        let before = loss(&|i| self.z[c][i]) + self.penalty(&self.theta[c]);
        let mut length = 1.0;
        for _ in 0..30 {
            let moved = self.theta[c].iter().zip(&step);
            let theta: Vec<f64> = moved.map(|(t, d)| t - length * d).collect();
            let after = loss(&|i| self.z[c][i] - length * along[i]) + self.penalty(&theta);
            if after <= before - 1e-4 * length * slope {
                self.theta[c] = theta;
                let z = self.z[c].iter_mut().zip(&along);
                z.for_each(|(z, d)| *z -= length * d);
                return Some((before - after, factor.ln_determinant()));
            }
            length *= 0.5;
        }
        Some((0.0, factor.ln_determinant()))
    }

    /// Returns ln Σ exp(z_k) over the other classes; 0 for a single logit.
    fn offset(&self, i: usize, c: usize) -> f64 {
        if self.z.len() == 1 {
            return 0.0;
        }
        let others = self.z.iter().enumerate().filter(|(k, _)| *k != c);
        log_sum_exp(others.map(|(_, z)| z[i]))
    }
}

/// Returns ln(1 + exp(u)).
fn softplus(u: f64) -> f64 {
    u.max(0.0) + (-u.abs()).exp().ln_1p()
}

/// Returns ln Σ exp(z).
fn log_sum_exp(z: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = z.clone().fold(f64::NEG_INFINITY, f64::max);
    top + z.map(|z| (z - top).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, stream};
    use rand::RngExt;
    use rand_distr::StandardNormal;

    fn rows(n: usize, features: usize) -> Vec<f32> {
        let mut rng = stream(1, Purpose::Synthesis, 0, n as u64);
        (0..n * features)
            .map(|_| rng.sample(StandardNormal))
            .collect()
    }

    /// At the fit of a λ every derivative of the objective is zero, by central differences.
    #[test]
    fn the_fit_is_stationary() {
        let x = rows(60, 3);
        let span = Span::of(&x, 3);
        let y: Vec<u32> = x
            .chunks(3)
            .map(|x| if x[0] > 0.3 { 2 } else { u32::from(x[1] > 0.0) })
            .collect();
        for classes in [1usize, 3] {
            let y: Vec<u32> = y
                .iter()
                .map(|y| if classes == 1 { (*y).min(1) } else { *y })
                .collect();
            let mut fit = Fit::new(&span, &y, classes);
            fit.lambda = 0.7;
            while fit.maximize().is_some() {
                let before = fit.objective();
                fit.maximize().unwrap();
                if before - fit.objective() < 1e-12 {
                    break;
                }
            }
            let theta = fit.theta.clone();
            let mut at = |theta: &[Vec<f64>]| {
                fit.theta = theta.to_vec();
                for (z, theta) in fit.z.iter_mut().zip(theta) {
                    for (i, z) in z.iter_mut().enumerate() {
                        *z = theta[0] + dot(span.row(i), &theta[1..]);
                    }
                }
                fit.objective()
            };
            for c in 0..classes {
                for j in 0..4 {
                    let mut moved = |by: f64| {
                        let mut theta = theta.clone();
                        theta[c][j] += by;
                        at(&theta)
                    };
                    let slope = (moved(1e-4) - moved(-1e-4)) / 2e-4;
                    assert!(slope.abs() < 1e-3, "{classes} {c} {j}: {slope}");
                }
            }
        }
    }

    /// Twelve rows of eight features are separated by a plane whatever their classes are; the fit
    /// keeps a ridge all the same.
    #[test]
    fn few_separable_rows_keep_a_ridge() {
        let x = rows(12, 8);
        let y: Vec<u32> = (0..12).map(|k| k % 2).collect();
        let span = Span::of(&x, 8);
        let (bias, weights) = &fit(&span, &y, 2).unwrap()[0];
        let logit = |x: &[f32]| -> f64 {
            let products = x.iter().zip(weights).map(|(x, w)| f64::from(*x) * w);
            bias + products.sum::<f64>()
        };
        let largest = x.chunks(8).map(|x| logit(x).abs()).fold(0.0, f64::max);
        assert!(largest < 4.0, "{largest}");
    }

    /// One feature that decides, with few and many rows, against pure noise: the evidence takes a
    /// ridge that is stronger the less the rows say.
    #[test]
    fn the_ridge_follows_what_rows_say() {
        let slope = |n: usize, strength: f64| {
            let x = rows(n, 5);
            let mut rng = stream(2, Purpose::Synthesis, 0, n as u64);
            let y: Vec<u32> = x
                .chunks(5)
                .map(|x| {
                    let p = 1.0 / (1.0 + (-strength * f64::from(x[0])).exp());
                    u32::from(rng.random::<f64>() < p)
                })
                .collect();
            fit(&Span::of(&x, 5), &y, 2).unwrap()[0].1[0]
        };
        assert!((slope(4000, 2.0) - 2.0).abs() < 0.2);
        assert!(slope(40, 0.0).abs() < 0.2);
        let few = slope(40, 2.0);
        assert!(few > 0.4 && few < 4.0, "{few}");
    }
}
