//! Aggregation of a cohort's updates: attacks forge them, a robust aggregator combines them and
//! the algorithm folds them.

use super::{Setup, Weights};
use crate::aggregation::{Aggregation, SplitUpdate};
use crate::algorithm::extensions::aggregated_part;
use crate::algorithm::{Algorithm, Sender};
use crate::error::{Error, Result};
use crate::params::Params;
use crate::privacy::{Level, PrivateSum};

/// Aggregates the updates of one round, in client order.
///
/// The mean folds updates as they come. A robust aggregator collects the cohort's models, combines
/// them and replaces each client's model by the result before the fold: the mean of equal vectors
/// is that vector to the bit. Other arrays of an update are folded unchanged. Privacy by client
/// folds only one model, made of the clipped differences and noise.
pub(super) struct Aggregator<A: Algorithm> {
    round: u64,
    fold: A::Fold,
    collected: Vec<(Sender, SplitUpdate)>,
    /// The noisy sum that privacy by client uses instead.
    private: Option<PrivateSum>,
    problem: Option<Error>,
}

impl<A: Algorithm> Aggregator<A> {
    /// Creates the aggregator of a round.
    pub(super) fn new(setup: &Setup, algorithm: &A, server: &A::Server, round: u64) -> Self {
        let private = (setup.protects() == Some(Level::Client)).then(|| {
            let clip = setup.privacy.as_ref().expect("it protects").settings.clip;
            PrivateSum::new(clip, aggregated_part(algorithm, server).len())
        });
        Self {
            private,
            round,
            fold: A::Fold::default(),
            collected: Vec::new(),
            problem: None,
        }
    }

    /// Adds a client's update.
    pub(super) fn add(
        &mut self,
        setup: &Setup,
        algorithm: &A,
        server: &A::Server,
        client: usize,
        update: A::Update,
    ) {
        let weight = match setup.weights {
            Weights::Uniform => 1.0,
            Weights::Examples => setup.context.dataset.sizes(client).0 as f64,
        };
        let from = Sender { client, weight };
        let forged = setup.attackers.forges(client);
        let mean = setup.aggregation == Aggregation::Mean;
        if mean && !forged && self.private.is_none() {
            return algorithm.fold(server, &mut self.fold, from, update);
        }
        let mut update = match SplitUpdate::split(&update) {
            Ok(update) => update,
            Err(error) => {
                self.problem.get_or_insert(error);
                return;
            }
        };
        if forged {
            let w = aggregated_part(algorithm, server);
            let attackers = &setup.attackers;
            attackers.forge(client, self.round, w, &mut update.model);
        }
        if let Some(sum) = &mut self.private {
            let w = aggregated_part(algorithm, server);
            if update.model.len() != w.len() || !update.is_model_only() {
                self.problem.get_or_insert(Error::Request(
                    "federation.privacy.level: found \"client\", but the algorithm's updates hold \
                     more than the shared model; use level = \"example\" or another algorithm"
                        .into(),
                ));
                return;
            }
            if !sum.add(w, &update.model).is_finite() {
                self.problem.get_or_insert(Error::NonFinite {
                    client: setup.context.dataset.name(client),
                    place: format!("in the model it sent in round {}", self.round),
                    loss: f64::NAN,
                });
            }
            return;
        }
        if mean {
            algorithm.fold(server, &mut self.fold, from, update.join())
        } else {
            self.collected.push((from, update))
        }
    }

    /// Returns the fold of all updates.
    pub(super) fn finish(
        mut self,
        setup: &Setup,
        algorithm: &A,
        server: &A::Server,
    ) -> Result<A::Fold> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if let Some(sum) = self.private.take() {
            // One model stands for the cohort, even for an empty one: its fold is itself.
            let budget = setup.privacy.as_ref().expect("it protects");
            let w = aggregated_part(algorithm, server);
            let mut rng = setup.noise_stream(self.round);
            let w = sum.release(w, budget.noise, setup.expected_cohort(), &mut rng);
            let update = SplitUpdate::of_model(w).join();
            let weight = 1.0;
            algorithm.fold(server, &mut self.fold, Sender { client: 0, weight }, update);
            return Ok(self.fold);
        }
        let aggregation = setup.aggregation;
        if aggregation != Aggregation::Mean {
            let mut collected = std::mem::take(&mut self.collected);
            let enough = aggregation.check(collected.len());
            enough.map_err(|e| Error::data(format!("in round {}: {e}", self.round)))?;
            let take = |(_, update): &mut (_, SplitUpdate)| std::mem::take(&mut update.model);
            let models: Vec<Params> = collected.iter_mut().map(take).collect();
            let combined = aggregation.combine(&models);
            for (from, update) in collected {
                algorithm.fold(
                    server,
                    &mut self.fold,
                    from,
                    update.join_with(combined.clone()),
                );
            }
        }
        Ok(self.fold)
    }
}
