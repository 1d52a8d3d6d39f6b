//! Schedules of the learning rate η_t.

/// Represents the position of a local step in a run, from the client's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The round, from 1.
    pub round: u64,
    /// The number of local steps before this one if the client took part in every round.
    pub step: u64,
    /// The number of local steps in one pass over the client's examples.
    pub steps_per_epoch: u64,
}

impl Clock {
    /// The first step of a run.
    pub const FIRST: Self = Self {
        round: 1,
        step: 0,
        steps_per_epoch: 1,
    };
}

/// Says what a geometric schedule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Communication rounds (the paper's).
    Round,
    /// Passes over the client's own examples.
    Epoch,
    /// Local steps.
    Step,
}

/// Represents a schedule of the learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Schedule {
    /// η_t = η
    Constant,
    /// η_t = η·factor^k, with k the rounds, epochs or steps before this step.
    Geometric {
        /// The ratio of consecutive rates.
        factor: f64,
        /// What is counted.
        per: Per,
    },
    /// η_t = η/(1 + factor·t), with t the local steps before this step: the linear decay that
    /// Bottou (2012) suggests.
    Inverse {
        /// c, what every step adds to the divisor.
        factor: f64,
    },
    /// η_t = numerator / (μ·(t + a)), t = 1, 2, … local steps: Theorems 2 to 4.
    Theorem {
        /// 16 in Theorems 2 and 3, 8 in Theorem 4.
        numerator: f64,
        /// μ, the strong convexity.
        mu: f64,
        /// a, the shift.
        a: f64,
    },
    /// η_t = rate, whatever `training.learning_rate` is: Theorems 5 and 6.
    Flat {
        /// η
        rate: f64,
    },
}

impl Schedule {
    /// Returns η_t, where `initial` is `training.learning_rate`.
    pub fn rate(&self, initial: f64, at: Clock) -> f64 {
        match *self {
            Schedule::Constant => initial,
            Schedule::Geometric { factor, per } => {
                let count = match per {
                    Per::Round => at.round - 1,
                    Per::Epoch => at.step / at.steps_per_epoch.max(1),
                    Per::Step => at.step,
                };
                initial * factor.powf(count as f64)
            }
            Schedule::Inverse { factor } => initial / (1.0 + factor * at.step as f64),
            Schedule::Theorem { numerator, mu, a } => numerator / (mu * ((at.step + 1) as f64 + a)),
            Schedule::Flat { rate } => rate,
        }
    }

    /// Returns whether η_t depends on t.
    pub fn varies(&self) -> bool {
        match *self {
            Schedule::Constant | Schedule::Flat { .. } => false,
            Schedule::Geometric { factor, .. } => factor != 1.0,
            Schedule::Inverse { factor } => factor != 0.0,
            Schedule::Theorem { .. } => true,
        }
    }

    /// Returns a, if the schedule has it.
    pub fn shift(&self) -> Option<f64> {
        match *self {
            Schedule::Theorem { a, .. } => Some(a),
            _ => None,
        }
    }
}

/// Represents a theorem's schedule before its constants are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theory {
    /// 2 to 6.
    pub theorem: u8,
    /// μ, if it is given.
    pub mu: Option<f64>,
    /// L, if it is given.
    pub smoothness: Option<f64>,
    /// a, if it is given.
    pub a: Option<f64>,
}

/// Represents the constants of a theorem's step sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// μ, the strong convexity.
    pub mu: f64,
    /// L, the smoothness.
    pub smoothness: f64,
    /// τ, the local steps of a round.
    pub tau: u64,
    /// T, the local steps of the whole run.
    pub steps: u64,
    /// n
    pub clients: u64,
}

impl Theory {
    /// Returns whether the theorem is for strongly convex objectives: 2, 3 and 4.
    pub fn convex(&self) -> bool {
        self.theorem <= 4
    }

    /// Returns the step sizes, with κ = L/μ:
    ///
    /// ```text
    /// Theorems 2 and 3:  η_t = 16/(μ(t+a))     a = max(128κ, τ)
    /// Theorem 4:         η_t = 8/(μ(t+a))      a = max(64κ, τ)
    /// Theorems 5 and 6:  η = 1/(2√5·L·√T)
    /// ```
    pub fn schedule(&self, c: &Constants) -> Schedule {
        if !self.convex() {
            let rate = 1.0 / (2.0 * 5f64.sqrt() * c.smoothness * (c.steps as f64).sqrt());
            return Schedule::Flat { rate };
        }
        let numerator = if self.theorem == 4 { 8.0 } else { 16.0 };
        let kappa = c.smoothness / c.mu;
        Schedule::Theorem {
            numerator,
            mu: c.mu,
            a: self
                .a
                .unwrap_or_else(|| (8.0 * numerator * kappa).max(c.tau as f64)),
        }
    }

    /// Describes the schedule and its constants; `source` says where L comes from.
    pub fn describe(&self, c: &Constants, schedule: &Schedule, source: &str) -> String {
        let Constants { mu, smoothness, .. } = c;
        let theorem = self.theorem;
        match schedule {
            Schedule::Theorem { a, .. } => format!(
                "Theorem {theorem}'s step sizes: mu = {mu:?}, smoothness = {smoothness:?} \
                 ({source}), a = {a:?}"
            ),
            _ => {
                let rate = schedule.rate(0.0, Clock::FIRST);
                // The corollary's choice of τ: n^(−1/4)·T^(1/4).
                let tau = (c.steps as f64 / c.clients as f64).powf(0.25);
                format!(
                    "Theorem {theorem}'s step size: {rate:?} with smoothness = {smoothness:?} \
                     ({source}) and T = {}; its corollary takes {tau:.1} local steps per round, \
                     this run {}",
                    c.steps, c.tau
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_fall_as_described() {
        // Round 3, 25 steps done, 10 steps an epoch: 2 rounds, 2 epochs, 25 steps before.
        let at = Clock {
            round: 3,
            step: 25,
            steps_per_epoch: 10,
        };
        let geometric = |per| Schedule::Geometric { factor: 0.5, per }.rate(0.8, at);
        assert_eq!(Schedule::Constant.rate(0.8, at), 0.8);
        assert_eq!(geometric(Per::Round), 0.2);
        assert_eq!(geometric(Per::Epoch), 0.2);
        assert_eq!(geometric(Per::Step), 0.8 * 0.5f64.powi(25));
        let inverse = Schedule::Inverse { factor: 0.04 };
        assert_eq!(inverse.rate(0.8, at), 0.4); // 0.8 / (1 + 0.04·25)
        assert_eq!(inverse.rate(0.8, Clock::FIRST), 0.8);
        assert_eq!((inverse.varies(), inverse.shift()), (true, None));
        let theorem = Schedule::Theorem {
            numerator: 16.0,
            mu: 2.0,
            a: 6.0,
        };
        assert_eq!(theorem.rate(f64::NAN, at), 0.25); // 16 / (2·(26 + 6))
        assert_eq!(theorem.shift(), Some(6.0));
    }

    #[test]
    fn the_theorems_step_sizes() {
        let c = Constants {
            mu: 0.5,
            smoothness: 2.0,
            tau: 10,
            steps: 400,
            clients: 25,
        };
        let theory = |theorem, a| Theory {
            theorem,
            mu: None,
            smoothness: None,
            a,
        };
        let rate = |theory: Theory| theory.schedule(&c).rate(f64::NAN, Clock::FIRST);
        // κ = 4: a = 512, η₁ = 16/(0.5·513); Theorem 4: a = 256, η₁ = 8/(0.5·257).
        assert_eq!(rate(theory(2, None)), 16.0 / 256.5);
        assert_eq!(rate(theory(3, None)), 16.0 / 256.5);
        assert_eq!(rate(theory(4, None)), 8.0 / 128.5);
        assert_eq!(rate(theory(2, Some(7.0))), 16.0 / 4.0);
        // 1/(2√5·2·20) = √5/400
        for theorem in [5, 6] {
            let eta = rate(theory(theorem, None));
            assert!((eta - 5f64.sqrt() / 400.0).abs() < 1e-15);
        }
        // κ so small that τ is the larger: a = 10, η₁ = 16/(100·11).
        let flat = Constants { mu: 100.0, ..c };
        let a = theory(2, None).schedule(&flat).shift();
        assert_eq!(a, Some(10.0));
        let description = theory(5, None).describe(&c, &theory(5, None).schedule(&c), "given");
        assert!(
            description.contains("takes 2.0 local steps"),
            "{description}"
        ); // (400/25)^¼
    }
}
