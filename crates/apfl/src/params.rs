//! Flat parameter vectors and their operations.
//!
//! w, v, v̄, SCAFFOLD's c and every gradient are [`Params`], so an algorithm is a few lines of
//! vector arithmetic. Long sums are taken in `f64` in a fixed order, so that the same numbers give
//! the same bits. The loops are compiled for the vectors of several CPU families and selected at
//! run time.

use pulp::{Arch, Simd, WithSimd};

/// A model's parameters, or anything of their shape, as one flat vector.
pub type Params = Vec<f32>;

/// Computes y ← y + a·x.
pub fn axpy(y: &mut [f32], a: f32, x: &[f32]) {
    assert_eq!(y.len(), x.len());
    Arch::new().dispatch(|| {
        for (y, x) in y.iter_mut().zip(x) {
            *y += a * x;
        }
    });
}

/// Computes out ← α·v + (1 − α)·w.
pub fn mix(out: &mut [f32], alpha: f32, v: &[f32], w: &[f32]) {
    assert!(out.len() == v.len() && v.len() == w.len());
    let rest = 1.0 - alpha;
    Arch::new().dispatch(|| {
        for ((out, v), w) in out.iter_mut().zip(v).zip(w) {
            *out = alpha * v + rest * w;
        }
    });
}

const LANES: usize = 16;

/// Sums a term over the elements of N vectors in f64: sixteen interleaved partial sums, then these
/// in order. The order depends only on the length.
struct SumInLanes<'a, F, const N: usize> {
    of: [&'a [f32]; N],
    term: F,
}

impl<F: Fn([f64; N]) -> f64, const N: usize> WithSimd for SumInLanes<'_, F, N> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let mut lanes = [0.0f64; LANES];
        let parts = self.of.map(|x| x.as_chunks::<LANES>());
        for c in 0..parts[0].0.len() {
            let chunks = parts.map(|(whole, _)| &whole[c]);
            for (k, lane) in lanes.iter_mut().enumerate() {
                *lane += (self.term)(chunks.map(|chunk| f64::from(chunk[k])));
            }
        }
        let rest = 0..parts[0].1.len();
        let tail: f64 = rest
            .map(|k| (self.term)(parts.map(|(_, tail)| f64::from(tail[k]))))
            .sum();
        lanes.iter().sum::<f64>() + tail
    }
}

fn sum_in_lanes<const N: usize>(of: [&[f32]; N], term: impl Fn([f64; N]) -> f64) -> f64 {
    assert!(of.iter().all(|x| x.len() == of[0].len()));
    Arch::new().dispatch(SumInLanes { of, term })
}

/// Returns ⟨a, b⟩.
pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    sum_in_lanes([a, b], |[a, b]| a * b)
}

/// Returns ⟨v − w, g⟩, the slope of f(αv + (1−α)w) along α, where g = ∇f there.
pub fn dot_difference(v: &[f32], w: &[f32], g: &[f32]) -> f64 {
    sum_in_lanes([v, w, g], |[v, w, g]| (v - w) * g)
}

/// Returns ‖a‖².
pub fn norm_squared(a: &[f32]) -> f64 {
    dot(a, a)
}

/// Returns ‖a − b‖².
pub fn distance_squared(a: &[f32], b: &[f32]) -> f64 {
    sum_in_lanes([a, b], |[a, b]| (a - b) * (a - b))
}

/// Projects x onto the ball ‖x‖ ≤ radius.
pub fn project(x: &mut [f32], radius: f64) {
    let norm = norm_squared(x).sqrt();
    if norm > radius {
        let shrink = (radius / norm) as f32;
        x.iter_mut().for_each(|x| *x *= shrink);
    }
}

/// Projects q onto the simplex qᵢ ≥ 0, Σqᵢ = 1: max(qᵢ − θ, 0), where the entries above θ exceed it
/// by 1 in total.
pub(crate) fn project_onto_simplex(q: &mut [f64]) {
    let mut sorted = q.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut theta) = (0.0, 0.0);
    for (k, x) in sorted.iter().enumerate() {
        sum += x;
        let next = (sum - 1.0) / (k + 1) as f64;
        if *x <= next {
            break;
        }
        theta = next;
    }
    q.iter_mut().for_each(|x| *x = (*x - theta).max(0.0));
}

/// Accumulates a weighted mean of vectors in `f64`.
///
/// ```
/// use apfl::params::Mean;
/// let mut mean = Mean::default();
/// mean.add(1.0, &[1.0, 2.0]);
/// mean.add(3.0, &[5.0, 2.0]);
/// assert_eq!(mean.value(), Some(vec![4.0, 2.0]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Mean {
    sum: Vec<f64>,
    weight: f64,
}

impl Mean {
    /// Adds `weight`·`x`.
    pub fn add(&mut self, weight: f64, x: &[f32]) {
        if self.sum.is_empty() {
            self.sum = vec![0.0; x.len()];
        }
        assert_eq!(self.sum.len(), x.len());
        let sum = &mut self.sum;
        Arch::new().dispatch(|| {
            for (sum, x) in sum.iter_mut().zip(x) {
                *sum += weight * f64::from(*x);
            }
        });
        self.weight += weight;
    }

    /// Returns Σ weight·x / Σ weight, or `None` if the weights sum to 0.
    pub fn value(&self) -> Option<Params> {
        (self.weight > 0.0).then(|| self.sum.iter().map(|s| (s / self.weight) as f32).collect())
    }
}

/// Accumulates a sum of vectors in `f64`.
#[derive(Clone, Debug, Default)]
pub struct Sum(Vec<f64>);

impl Sum {
    /// Adds `x`.
    pub fn add(&mut self, x: &[f32]) {
        if self.0.is_empty() {
            self.0 = vec![0.0; x.len()];
        }
        assert_eq!(self.0.len(), x.len());
        for (sum, x) in self.0.iter_mut().zip(x) {
            *sum += f64::from(*x);
        }
    }

    /// Returns the sum, which is empty before the first vector.
    pub fn value(&self) -> &[f64] {
        &self.0
    }
}

/// Returns the little-endian bytes of parameters.
pub(crate) fn bytes_of(x: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; 4 * x.len()];
    for (bytes, x) in bytes.as_chunks_mut().0.iter_mut().zip(x) {
        *bytes = x.to_le_bytes();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_follow_their_equations() {
        let mut y = vec![1.0, 2.0];
        axpy(&mut y, -0.5, &[2.0, 4.0]);
        assert_eq!(y, [0.0, 0.0]);
        let mut out = vec![0.0; 2];
        mix(&mut out, 0.25, &[4.0, 0.0], &[0.0, 4.0]);
        assert_eq!(out, [1.0, 3.0]);
        let a: Vec<f32> = (1..=40).map(|k| k as f32).collect();
        assert_eq!(norm_squared(&a), 22140.0); // 40·41·81/6
        assert_eq!(dot_difference(&a, &[1.0; 40], &[2.0; 40]), 1560.0); // 2·(820 − 40)
        assert_eq!(distance_squared(&a, &[0.0; 40]), 22140.0);
        let mut x = vec![3.0, -4.0];
        project(&mut x, 5.0);
        assert_eq!(x, [3.0, -4.0]);
        project(&mut x, 2.5);
        assert_eq!(x, [1.5, -2.0]);
    }

    #[test]
    fn the_nearest_point_of_the_simplex_by_hand() {
        let projected = |q: &[f64]| {
            let mut q = q.to_vec();
            project_onto_simplex(&mut q);
            q
        };
        // All stay above θ = (1.75 − 1)/3 = ¼.
        assert_eq!(projected(&[0.5, 0.75, 0.5]), [0.25, 0.5, 0.25]);
        // θ = (2 − 1)/2 = ½ for the first two, and the third is below it.
        assert_eq!(projected(&[1.25, 0.75, 0.25]), [0.75, 0.25, 0.0]);
        // One far above the others takes it all: θ = 4.
        assert_eq!(projected(&[5.0, 0.5]), [1.0, 0.0]);
        // Below the simplex: θ = (0.5 − 1)/2 = −¼.
        assert_eq!(projected(&[0.5, 0.0]), [0.75, 0.25]);
        assert_eq!(projected(&[0.25, 0.75]), [0.25, 0.75]);
        assert_eq!(projected(&[-3.0]), [1.0]);
    }

    #[test]
    fn the_mean_of_equal_vectors_is_that_vector_to_the_bit() {
        let x = vec![0.1f32, -3.3e-8, 7.7e9];
        let mut mean = Mean::default();
        (0..97).for_each(|_| mean.add(1.0, &x));
        assert_eq!(mean.value().unwrap(), x);
    }
}
