//! Privacy loss distributions: of one step on a grid, of many steps by convolution.
//!
//! The computed ε is never below the true one: the grid moves mass upwards only, and the rounding
//! errors of `f64` are bounded and added, in [`rounding`] and at the constants of
//! [`Grid::epsilon`].

use super::normal::density;
use super::rounding::{UNIT, convolved};

/// The range of a step's density, in deviations; the mass beyond, 1e-23, counts as an infinite
/// loss.
const REACH: f64 = 10.0;
/// An upper bound of Φ(−10).
const BEYOND: f64 = 7.62e-24;
/// The largest interval of the grid, if the number of cells allows it.
const FINEST: f64 = 1e-4;
/// The largest number of cells for the sum; a wider distribution has a coarser grid.
const CELLS: f64 = (1u32 << 17) as f64;
/// The largest number of cells for one step, whose rare losses may be far above the window.
const STEP_CELLS: f64 = (1u32 << 20) as f64;
/// The share of δ that may lie above the window of the sum; it is added to δ.
const ABOVE: f64 = 1e-6;
/// The share of the tilted sum that may lie below the window. It wraps around to higher losses,
/// so that it can only raise ε.
const BELOW: f64 = 1e-9;

/// How much wider than the narrowest a window may be: a larger tilt keeps more digits of small
/// tails.
const WIDER: f64 = 1.5;

/// The relative error by which a step's masses may be below the true ones. Every term of their sums
/// is positive, so that shares add up to a share. (The rule of eight points on a panel of
/// half-width a ≤ min(σ/48, σ²/8): on the ellipse around it with ρ = 12 the integrand is analytic,
/// for |Im y| < 0.76, and at most 3e5 times its mean on the panel, so that the rule is off by at
/// most 64/15 · ½ · 3e5 · 12⁻¹⁶ < 4e-12. Rounding: at most 7e4 terms in a cell, 8e-12, and a
/// density's exponent, (|z|/σ)² < 1.3e4 units of rounding, 6e-12.)
const MASSES: f64 = 2e-11;

/// The two directions between neighbouring data sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// The loss ln(P/Q), z ∼ P, where P = (1−q)N(0, σ²) + qN(1, σ²) and Q = N(0, σ²).
    Remove,
    /// The loss ln(Q/P), z ∼ Q.
    Add,
}

/// The loss distributions of both directions.
#[derive(Clone, Debug)]
pub(super) struct Losses {
    both: [Grid; 2],
}

impl Losses {
    /// Creates the distributions for noise σ > 0 and sampling rate 0 < q < 1. The grid is as fine
    /// as `steps` steps at δ allow.
    pub fn new(noise: f64, sampling: f64, steps: u64, delta: f64) -> Self {
        let both = [Direction::Remove, Direction::Add].map(|direction| {
            let step = OneStep {
                noise,
                sampling,
                direction,
            };
            // A coarse grid gives the width of the sum.
            let coarse = step.on_grid(step.widest() / 2000.0);
            let (from, to) = coarse.window(steps, delta).range;
            let width = to - from;
            // A small part of a step's own deviation, about q/σ, if the number of cells allows it.
            let fine = FINEST.min(sampling / (16.0 * noise));
            step.on_grid(fine.max(width / CELLS).max(step.widest() / STEP_CELLS))
        });
        Self { both }
    }

    /// Returns ε of `steps` steps at δ: the larger of both directions.
    pub fn epsilon(&self, steps: u64, delta: f64) -> f64 {
        let each = self.both.iter().map(|grid| grid.epsilon(steps, delta));
        each.fold(0.0, f64::max)
    }

    /// Returns the interval of the coarser grid.
    pub fn interval(&self) -> f64 {
        self.both
            .iter()
            .map(|grid| grid.interval)
            .fold(0.0, f64::max)
    }
}

/// One step of the mechanism.
#[derive(Clone, Copy, Debug)]
struct OneStep {
    noise: f64,
    sampling: f64,
    direction: Direction,
}

impl OneStep {
    /// Returns the loss at u, which rises with u: u = z for `Remove`, u = −z for `Add`.
    fn loss(&self, u: f64) -> f64 {
        let Self {
            noise, sampling: q, ..
        } = *self;
        // ln(1 − q + q·e^y)
        let of = |z: f64| {
            let y = (2.0 * z - 1.0) / (2.0 * noise * noise);
            if y > 1.0 {
                y + (q + (1.0 - q) * (-y).exp()).ln()
            } else {
                (q * y.exp_m1()).ln_1p()
            }
        };
        match self.direction {
            Direction::Remove => of(u),
            Direction::Add => -of(-u),
        }
    }

    /// Returns the u of a loss; infinite if no loss is so high.
    fn point(&self, loss: f64) -> f64 {
        let Self {
            noise, sampling: q, ..
        } = *self;
        // z with ln(1 − q + q·e^y) = l
        let of = |l: f64| {
            let y = if l > 1.0 {
                l - q.ln() + (-(1.0 - q) * (-l).exp()).ln_1p()
            } else {
                (l.exp_m1() / q).ln_1p()
            };
            noise * noise * y + 0.5
        };
        match self.direction {
            Direction::Remove => of(loss),
            Direction::Add if -loss <= (-q).ln_1p() => f64::INFINITY,
            Direction::Add => -of(-loss),
        }
    }

    fn density(&self, u: f64) -> f64 {
        let Self {
            noise, sampling: q, ..
        } = *self;
        let at = |u: f64| density(u / noise) / noise;
        match self.direction {
            Direction::Remove => (1.0 - q) * at(u) + q * at(u - 1.0),
            Direction::Add => at(u),
        }
    }

    /// Bounds how far a computed loss is below the true one. y = (2z − 1)/(2σ²) is off by three
    /// roundings of its terms, the loss moves no faster than y, and its own terms are at most
    /// |y| and |ln q|; as much again for where a cell ends.
    fn blur(&self) -> f64 {
        let (from, to) = self.reach();
        let farthest = from.abs().max(to);
        let y = (2.0 * farthest + 1.0) / (2.0 * self.noise * self.noise);
        32.0 * UNIT * (y - self.sampling.ln() + 1.0)
    }

    /// Returns the range of the density.
    fn reach(&self) -> (f64, f64) {
        let far = REACH * self.noise;
        match self.direction {
            Direction::Remove => (-far, 1.0 + far),
            Direction::Add => (-far, far),
        }
    }

    /// Returns the width of the range of losses, at least 1e-6 (they may all be equal).
    fn widest(&self) -> f64 {
        let (from, to) = self.reach();
        (self.loss(to) - self.loss(from)).max(1e-6)
    }

    /// Moves every loss l between two points of a grid to these two, so that mass and
    /// E[e^−l] stay: δ(ε) as a function of e^ε becomes its chords, and it is convex, so that they
    /// lie above it (Doroshenko et al., 2022). With t = l − kh, the shares are
    ///
    /// ```text
    /// upper: (1 − e^−t)/(1 − e^−h)        lower: (e^(h−t) − 1)/(e^h − 1)
    /// ```
    ///
    /// and their integrals have no differences that lose digits. The tail above the range counts
    /// as an infinite loss, the one below as the least loss.
    fn on_grid(&self, interval: f64) -> Grid {
        self.on_panels(interval, 1.0)
    }

    /// As `on_grid`, with panels narrower by a factor.
    fn on_panels(&self, interval: f64, narrower: f64) -> Grid {
        let (from, to) = self.reach();
        // Narrow enough for a quadrature error within [`MASSES`].
        let widest = narrower * (self.noise / 24.0).min(self.noise * self.noise / 4.0);
        let first = (self.loss(from) / interval).floor();
        let cells = (self.loss(to) / interval).floor() - first;
        let mut masses = vec![0.0; cells as usize + 3];
        let (of_upper, of_lower) = (-(-interval).exp_m1(), interval.exp_m1());
        let mut u = from;
        let mut cell = 0;
        while u < to {
            let low = (first + cell as f64) * interval;
            let end = if cell + 2 < masses.len() {
                self.point(low + interval).clamp(u, to)
            } else {
                to
            };
            while u < end {
                let width = (end - u).min(widest);
                let next = if width < widest { end } else { u + width };
                for (place, weight) in GAUSS {
                    let at = u + width * place;
                    let t = (self.loss(at) - low).clamp(0.0, interval);
                    let mass = width * weight * self.density(at);
                    masses[cell + 1] += mass * (-(-t).exp_m1() / of_upper);
                    masses[cell] += mass * ((interval - t).exp_m1() / of_lower);
                }
                u = next;
            }
            cell += 1;
        }
        masses[1] += BEYOND;
        Grid {
            blur: self.blur(),
            ..Grid::new(interval, first as i64, masses)
        }
    }
}

/// Points and weights of Gauss–Legendre on 0 … 1.
const GAUSS: [(f64, f64); 8] = [
    (0.019_855_071_751_231_884, 0.050_614_268_145_188_13),
    (0.101_666_761_293_186_64, 0.111_190_517_226_687_24),
    (0.237_233_795_041_835_5, 0.156_853_322_938_943_64),
    (0.408_282_678_752_175_1, 0.181_341_891_689_181),
    (0.591_717_321_247_825, 0.181_341_891_689_181),
    (0.762_766_204_958_164_5, 0.156_853_322_938_943_64),
    (0.898_333_238_706_813_4, 0.111_190_517_226_687_24),
    (0.980_144_928_248_768_1, 0.050_614_268_145_188_13),
];

/// A loss distribution on the points (first + k)·interval, and [`BEYOND`] at infinity.
#[derive(Clone, Debug)]
struct Grid {
    interval: f64,
    first: i64,
    masses: Vec<f64>,
    /// How far a point may be below the losses it represents.
    blur: f64,
    /// (λ, ln E[e^(λ·loss)]), λ rising.
    cumulants: Vec<(f64, f64)>,
}

/// The window in which the distribution of a sum is computed.
struct Window {
    /// λ of the tilt e^(λ·loss), which moves the tail that determines δ to the middle.
    tilt: f64,
    /// ln E[e^(λ·loss)]
    cumulant: f64,
    /// The range of losses.
    range: (f64, f64),
}

impl Grid {
    fn new(interval: f64, first: i64, masses: Vec<f64>) -> Self {
        let mut grid = Self {
            interval,
            first,
            masses,
            blur: 0.0,
            cumulants: Vec::new(),
        };
        let below = (0..8).map(|k| -0.25 * f64::from(1 << k)).rev();
        let above = (0..60).map(|k| 0.02 * 1.2f64.powi(k));
        let tilts = below.chain([0.0]).chain(above);
        grid.cumulants = tilts.map(|tilt| (tilt, grid.cumulant(tilt))).collect();
        grid
    }

    fn loss(&self, k: usize) -> f64 {
        (self.first + k as i64) as f64 * self.interval
    }

    /// ln Σ p·e^(λ·loss)
    fn cumulant(&self, tilt: f64) -> f64 {
        let exponent = |k: usize| self.masses[k].ln() + tilt * self.loss(k);
        let most = (0..self.masses.len())
            .map(exponent)
            .fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = (0..self.masses.len())
            .map(|k| (exponent(k) - most).exp())
            .sum();
        most + sum.ln()
    }

    /// Returns the window of the largest tilt, up to the best one for Chernoff's bound on δ, that
    /// is not much wider than the narrowest. Tails heavier than a Gaussian's need a smaller tilt.
    fn window(&self, steps: u64, delta: f64) -> Window {
        let rising = self.cumulants.iter().filter(|(tilt, _)| *tilt > 0.0);
        let bound = |(tilt, of): &(f64, f64)| (steps as f64 * of - delta.ln()) / tilt;
        let best = rising.clone().min_by(|a, b| bound(a).total_cmp(&bound(b)));
        let best = best.expect("there are tilts above 0").0;
        let upto = rising.filter(|(tilt, _)| *tilt <= best);
        let windows: Vec<Window> = upto.map(|of| self.tilted(*of, steps, delta)).collect();
        let width = |w: &Window| w.range.1 - w.range.0;
        let narrowest = windows.iter().map(width).fold(f64::INFINITY, f64::min);
        let fits = |w: &Window| width(w) <= WIDER * narrowest;
        let largest = windows.into_iter().rev().find(fits);
        largest.expect("the narrowest is not wider than itself")
    }

    /// Returns the window of a tilt by Chernoff's bound P[S > s] ≤ e^(T·K(μ) − μs). At most
    /// [`ABOVE`] of δ lies above it, and at most as much wraps around, which the tilt scales by
    /// e^(λ·width). At most [`BELOW`] of the tilted sum lies below it.
    fn tilted(&self, (tilt, cumulant): (f64, f64), steps: u64, delta: f64) -> Window {
        let t = steps as f64;
        let allowed = (ABOVE * delta).ln();
        let others = self.cumulants.iter().filter(|(other, _)| *other > 0.0);
        let top = others
            .clone()
            .map(|(other, of)| (t * of - allowed) / other)
            .fold(f64::INFINITY, f64::min);
        let lower = self.cumulants.iter().filter(|(other, _)| *other < tilt);
        let start = lower
            .map(|(other, of)| (BELOW.ln() - t * (of - cumulant)) / (tilt - other))
            .fold(f64::NEG_INFINITY, f64::max);
        let start = start.max(t * self.loss(0)).min(top - self.interval);
        // Only losses above 0 count.
        let landing = start.max(0.0);
        let width = others
            .filter(|(other, _)| *other > tilt)
            .map(|(other, of)| (t * of - other * landing - allowed) / (other - tilt))
            .fold(f64::INFINITY, f64::min);
        let end = if width.is_finite() {
            top.max(start + width)
        } else {
            top
        };
        Window {
            tilt,
            cumulant,
            range: (start, end),
        }
    }

    /// Returns ε of `steps` steps at δ, never below the true one. With p the computed masses:
    ///
    /// ```text
    /// δ(ε + T·blur) ≤ F·[Σ_{s>ε} (1 − e^(ε−s)) p(s) + E·Σ_{s>ε} e^(TK−λs)] + beyond
    /// ```
    ///
    /// because δ is a sum of non-negative products of the steps' masses: a relative error of the
    /// masses in each of T steps is at most (1 + error)^T in δ, and losses that are too low by
    /// some amount in each step are too low by T times that in the sum. E bounds the error of each
    /// cell of the tilted sum.
    fn epsilon(&self, steps: u64, delta: f64) -> f64 {
        let Window {
            tilt,
            cumulant,
            range: (from, to),
        } = self.window(steps, delta);
        let h = self.interval;
        let from = (from / h).floor() as i64 - 1;
        let cells = ((to / h).ceil() as i64 + 1 - from).max(2) as usize;
        let n = cells.next_power_of_two();
        let t = steps as f64;

        // The tilted step, wrapped around, and the tilted sum.
        let mut step = vec![0.0; n];
        for (k, mass) in self.masses.iter().enumerate() {
            let place = (self.first + k as i64).rem_euclid(n as i64) as usize;
            step[place] += mass * (tilt * self.loss(k) - cumulant).exp();
        }
        let (sum, off) = convolved(&step, steps);
        let tilted = |s: i64| sum[s.rem_euclid(n as i64) as usize];

        // E times the number of cells that the untilting e^(−λs) keeps: a geometric series.
        let effective = (1.0 / (tilt * h) + 1.0).min(n as f64);
        let rounding = off * effective;
        // F: the errors of the masses, of their sums into wrapped cells and of the exponents of
        // tilting in each step, and once the error of untilting.
        let farthest = tilt
            * self
                .loss(0)
                .abs()
                .max(self.loss(self.masses.len() - 1).abs());
        let wrapped = (self.masses.len() / n + 4) as f64;
        let each = MASSES + UNIT * (wrapped + 4.0 * (farthest + cumulant.abs()));
        let once = 4.0 * UNIT * (t * cumulant.abs() + tilt * (from.abs() + n as i64) as f64 * h);
        let inflation = (t * each + once).exp();
        let untilted = |s: f64| (t * cumulant - tilt * s).exp();
        let certain = ABOVE * delta + t * BEYOND;

        // δ(ε) = Σ_{s>ε} p(s) − Σ_{s>ε} p(s)e^(ε−s), from the highest loss down.
        let (mut mass, mut shrunk) = (0.0, 0.0);
        let shrink = (-h).exp();
        let last = from + n as i64 - 1;
        for s in (from.max(0)..=last).rev() {
            let epsilon = s as f64 * h;
            // The rounding of the sums, which have as many terms as there are cells.
            let summed = 4.0 * n as f64 * UNIT * mass;
            let slack = rounding * untilted(epsilon) + summed;
            let allowed = (delta - certain) / inflation - slack;
            if mass - shrunk > allowed {
                // From this point to the one above, δ(ε + x) = mass − e^x·shrunk.
                let further = ((mass - allowed) / shrunk).ln();
                let further = if further.is_nan() {
                    h
                } else {
                    further.clamp(0.0, h)
                };
                return epsilon + further + t * self.blur;
            }
            let p = tilted(s) * untilted(epsilon);
            mass += p;
            shrunk = (shrunk + p) * shrink;
        }
        from.max(0) as f64 * h + t * self.blur
    }
}

#[cfg(test)]
mod tests {
    use super::super::normal::{gaussian_delta, gaussian_epsilon};
    use super::*;

    fn grid(noise: f64, sampling: f64, direction: Direction, interval: f64) -> Grid {
        OneStep {
            noise,
            sampling,
            direction,
        }
        .on_grid(interval)
    }

    /// Without sampling the loss of T steps is that of one with σ/√T, whose δ(ε) is known.
    #[test]
    fn without_sampling_it_is_the_exact_gaussian() {
        for direction in [Direction::Remove, Direction::Add] {
            for (noise, steps, delta) in [
                (1.0, 1, 1e-5),
                (4.0, 1, 1e-6),
                (3.0, 9, 1e-5),
                (20.0, 400, 1e-9),
            ] {
                let exact = gaussian_epsilon(noise / f64::from(steps as u32).sqrt(), delta);
                let found = grid(noise, 1.0, direction, 1e-4).epsilon(steps, delta);
                assert!(found >= exact, "{found} is below {exact}");
                assert!(found < 1.0005 * exact + 1e-4, "{found}, exactly {exact}");
                let delta_there = gaussian_delta(noise / f64::from(steps as u32).sqrt(), found);
                assert!(delta_there <= delta);
            }
        }
    }

    /// A few steps on a coarse grid, convolved term by term: all are positive, so that this is
    /// exact to 1e-13. The ε from the transform is never below, and above by next to nothing.
    #[test]
    fn it_bounds_the_exact_convolution_from_above() {
        for direction in [Direction::Remove, Direction::Add] {
            for (noise, sampling, steps, delta) in [
                (0.8, 0.01, 3, 1e-5),
                (1.0, 0.3, 6, 1e-6),
                (2.0, 0.1, 9, 1e-9),
                (0.5, 0.05, 4, 1e-7),
            ] {
                let grid = grid(noise, sampling, direction, 0.02);
                let mut sum = vec![1.0];
                for _ in 0..steps {
                    let mut next = vec![0.0; sum.len() + grid.masses.len() - 1];
                    for (i, a) in sum.iter().enumerate() {
                        for (j, b) in grid.masses.iter().enumerate() {
                            next[i + j] += a * b;
                        }
                    }
                    sum = next;
                }
                let loss = |k: usize| (grid.first * steps as i64 + k as i64) as f64 * grid.interval;
                let exact = |epsilon: f64| -> f64 {
                    let above = (0..sum.len()).filter(|k| loss(*k) > epsilon);
                    above
                        .map(|k| sum[k] * -(epsilon - loss(k)).exp_m1())
                        .sum::<f64>()
                        + steps as f64 * BEYOND
                };
                let found = grid.epsilon(steps, delta);
                let what = format!("{direction:?} {noise} {sampling} {steps}: ε = {found}");
                if found > 0.0 {
                    assert!(exact(found) <= delta, "{what}, δ = {}", exact(found));
                    let below = exact(found - 1e-4);
                    assert!(below > delta, "{what}, δ = {below} already 1e-4 before");
                } else {
                    assert!(exact(0.0) <= delta, "{what}");
                }
            }
        }
    }

    /// The masses by panels of a quarter of the width, so that the rule's error is 4⁻¹⁶ of it.
    #[test]
    fn the_masses_are_as_near_as_they_are_said_to_be() {
        for (noise, sampling) in [(0.05, 0.3), (0.3, 0.01), (1.0, 0.5), (8.0, 0.001)] {
            for direction in [Direction::Remove, Direction::Add] {
                let step = OneStep {
                    noise,
                    sampling,
                    direction,
                };
                let interval = step.widest() / 3000.0;
                let (once, finer) = (
                    step.on_panels(interval, 1.0),
                    step.on_panels(interval, 0.25),
                );
                for (a, b) in once.masses.iter().zip(&finer.masses) {
                    assert!((a - b).abs() <= MASSES * b, "{noise} {sampling}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn a_step_has_all_its_mass_and_moves_no_expectation() {
        for direction in [Direction::Remove, Direction::Add] {
            let grid = grid(0.8, 0.01, direction, 1e-3);
            let sum: f64 = grid.masses.iter().sum();
            assert!((sum - 1.0).abs() < 1e-12, "{sum}");
            // E[e^−loss] = Σ Q = 1, kept exactly by the two shares.
            let other: f64 = (0..grid.masses.len())
                .map(|k| grid.masses[k] * (-grid.loss(k)).exp())
                .sum();
            assert!((other - 1.0).abs() < 1e-12, "{other}");
        }
    }
}
