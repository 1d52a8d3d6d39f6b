//! Opt-in traits beyond [`Algorithm`]. An algorithm implements those that apply and names them in
//! [`Algorithm::extensions`].

use std::fmt::Debug;
use std::ops::Range;

use super::{AfterRound, Algorithm};
use crate::choice::{Candidate, Choosing, Pass};
use crate::local_client::{LocalClient, Predictor};
use crate::params::Params;

/// Opt-in traits that an algorithm implements; by default none.
///
/// ```text
/// fn extensions(&self) -> Extensions<'_, Self> {
///     Extensions { clusters: Some(self), ..Extensions::default() }
/// }
/// ```
#[derive(Debug)]
pub struct Extensions<'a, A: Algorithm> {
    /// Shares a part of the model.
    pub partial: Option<&'a dyn PartialSharing<A>>,
    /// Has several shared models.
    pub clusters: Option<&'a dyn Clusters<A>>,
    /// Ends with other models than those of the last round.
    pub final_models: Option<&'a dyn FinalModels<A>>,
    /// Lets clients choose among several models.
    pub choice: Option<&'a dyn ModelChoice<A>>,
    /// Has a learning rate of its own in place of `training.learning_rate`.
    pub rate: Option<&'a dyn OwnRate<A>>,
}

impl<A: Algorithm> Default for Extensions<'_, A> {
    fn default() -> Self {
        Self {
            partial: None,
            clusters: None,
            final_models: None,
            choice: None,
            rate: None,
        }
    }
}

/// An algorithm that shares a part of the model's parameters.
pub trait PartialSharing<A: Algorithm = Self>: Debug {
    /// Returns the range of the shared model that the `model` array of an update covers.
    fn part(&self, server: &A::Server) -> Range<usize>;

    /// Returns the length of the vectors of an update, for a model with `parameters` parameters.
    fn update_len(&self, sent: &A::Broadcast, parameters: usize) -> usize;
}

/// An algorithm with several shared models, one of which is assigned to each client.
pub trait Clusters<A: Algorithm = Self>: Debug {
    /// Returns the shared models, one after the other.
    fn models<'a>(&self, server: &'a A::Server) -> &'a [f32];

    /// Returns the index of the client's shared model.
    fn of_client(&self, local: &A::ClientState) -> usize;
}

/// An algorithm whose final models are not those of its last round, but for example averages
/// over all rounds.
pub trait FinalModels<A: Algorithm = Self>: Debug {
    /// Returns the final shared model.
    fn shared(&self, server: &A::Server) -> Params;

    /// Returns the final personal model of a client, given its state after training and the
    /// final shared model.
    fn personal(&self, local: &A::ClientState, shared: &[f32], client: &LocalClient<'_>) -> Params;
}

/// An algorithm whose clients choose which of several models they serve.
pub trait ModelChoice<A: Algorithm = Self>: Debug {
    /// Returns the settings of the choice.
    fn choosing(&self) -> &Choosing;

    /// Returns the algorithm for one pass of a choice.
    fn in_pass(&self, pass: Pass) -> A;

    /// Returns the models that the client may choose from, in the order of [`Choosing::list`];
    /// none in a pass without a choice.
    fn candidates<'a>(&self, after: AfterRound<'a, A>) -> Vec<(Candidate, Predictor<'a>)>;
}

/// An algorithm whose learning rate is a setting of its own, the
/// [`rate_key`](super::Properties::rate_key) of its properties.
pub trait OwnRate<A: Algorithm = Self>: Debug {
    /// Returns the algorithm with another learning rate.
    fn with_rate(&self, rate: f64) -> A;
}

/// Returns the part of the shared model that the `model` array of an update covers: all of it,
/// unless only some layers are shared.
pub(crate) fn aggregated_part<'a, A: Algorithm>(algorithm: &A, server: &'a A::Server) -> &'a [f32] {
    let shared = algorithm.shared(server);
    match algorithm.extensions().partial {
        Some(partial) => &shared[partial.part(server)],
        None => shared,
    }
}

/// Returns the same part, mutable, for a server optimizer; `None` if none can act.
pub(crate) fn aggregated_part_mut<'a, A: Algorithm>(
    algorithm: &A,
    server: &'a mut A::Server,
) -> Option<&'a mut [f32]> {
    let partial = algorithm.extensions().partial;
    let part = partial.map(|partial| partial.part(server));
    let shared = algorithm.shared_mut(server)?;
    Some(match part {
        Some(part) => &mut shared[part],
        None => shared,
    })
}

/// Returns the length of the vectors of an update, for a model with `parameters` parameters.
pub(crate) fn update_len<A: Algorithm>(
    algorithm: &A,
    sent: &A::Broadcast,
    parameters: usize,
) -> usize {
    let partial = algorithm.extensions().partial;
    partial.map_or(parameters, |partial| partial.update_len(sent, parameters))
}

/// Returns the settings of the clients' choice among several models, if there is one.
pub(crate) fn choosing<A: Algorithm>(algorithm: &A) -> Option<&Choosing> {
    algorithm.extensions().choice.map(ModelChoice::choosing)
}
