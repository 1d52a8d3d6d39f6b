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
    }
}
