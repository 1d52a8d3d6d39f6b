//! The learning rate η_t.

/// Where in a run a local step stands, from the client's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The round, from 1.
    pub round: u64,
    /// Local steps before this one if the client took part in every round, from 0.
    pub step: u64,
    /// Local steps that make one pass over the client's examples.
    pub steps_per_epoch: u64,
}

impl Clock {
    /// A run's first step.
    pub const FIRST: Self = Self {
        round: 1,
        step: 0,
        steps_per_epoch: 1,
    };
}

/// What the count of a geometric schedule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Communication rounds (the paper's).
    Round,
    /// Passes over the client's own examples.
    Epoch,
    /// Local steps.
    Step,
}

/// How the learning rate changes over a run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Schedule {
    /// η_t = η
    Constant,
    /// η_t = η·factor^k, with k the rounds, epochs or steps before this step.
    Geometric {
        /// The ratio of one rate to the one before.
        factor: f64,
        /// What is counted.
        per: Per,
    },
    /// η_t = numerator / (μ·(t + a)), t = 1, 2, … local steps: Theorems 2 to 4.
    Inverse {
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
    /// η_t, where `initial` is `training.learning_rate`.
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
            Schedule::Inverse { numerator, mu, a } => numerator / (mu * ((at.step + 1) as f64 + a)),
            Schedule::Flat { rate } => rate,
        }
    }

    /// Whether η_t depends on t.
    pub fn falls(&self) -> bool {
        match *self {
            Schedule::Constant | Schedule::Flat { .. } => false,
            Schedule::Geometric { factor, .. } => factor != 1.0,
            Schedule::Inverse { .. } => true,
        }
    }

    /// a, where the schedule has one.
    pub fn shift(&self) -> Option<f64> {
        match *self {
            Schedule::Inverse { a, .. } => Some(a),
            _ => None,
        }
    }
}

/// A theorem's schedule before its constants are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theory {
    /// 2 to 6.
    pub theorem: u8,
    /// μ, where it was given.
    pub mu: Option<f64>,
    /// L, where it was given.
    pub smoothness: Option<f64>,
    /// a, where it was given.
    pub a: Option<f64>,
}

/// What a theorem's step sizes are made of.
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
    /// Whether the theorem is one of those for strongly convex objectives: 2, 3 and 4.
    pub fn convex(&self) -> bool {
        self.theorem <= 4
    }

    /// The step sizes, with κ = L/μ:
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
        Schedule::Inverse {
            numerator,
            mu: c.mu,
            a: self
                .a
                .unwrap_or_else(|| (8.0 * numerator * kappa).max(c.tau as f64)),
        }
    }

    /// One sentence with the numbers; `whence` says where L comes from.
    pub fn say(&self, c: &Constants, schedule: &Schedule, whence: &str) -> String {
        let Constants { mu, smoothness, .. } = c;
        let theorem = self.theorem;
        match schedule {
            Schedule::Inverse { a, .. } => format!(
                "Theorem {theorem}'s step sizes: mu = {mu:?}, smoothness = {smoothness:?} \
                 ({whence}), a = {a:?}"
            ),
            _ => {
                let rate = schedule.rate(0.0, Clock::FIRST);
                // The corollary's choice of τ: n^(−1/4)·T^(1/4).
                let tau = (c.steps as f64 / c.clients as f64).powf(0.25);
                format!(
                    "Theorem {theorem}'s step size: {rate:?} with smoothness = {smoothness:?} \
                     ({whence}) and T = {}; its corollary takes {tau:.1} local steps a round, \
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
        let inverse = Schedule::Inverse {
            numerator: 16.0,
            mu: 2.0,
            a: 6.0,
        };
        assert_eq!(inverse.rate(f64::NAN, at), 0.25); // 16 / (2·(26 + 6))
        assert_eq!(inverse.shift(), Some(6.0));
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
        let said = theory(5, None).say(&c, &theory(5, None).schedule(&c), "given");
        assert!(said.contains("takes 2.0 local steps"), "{said}"); // (400/25)^¼
    }
}
