//! What few algorithms have beyond [`Algorithm`]: small traits, each of which an algorithm may
//! implement for itself and name in [`Algorithm::extensions`].

use std::fmt::Debug;
use std::ops::Range;

use super::{AfterRound, Algorithm};
use crate::choice::{Candidate, Choosing, Pass};
use crate::local_client::{LocalClient, Predictor};
use crate::params::Params;

/// The opt-in traits that an algorithm implements; by default none.
///
/// ```text
/// fn extensions(&self) -> Extensions<'_, Self> {
///     Extensions { clusters: Some(self), ..Extensions::default() }
/// }
/// ```
#[derive(Debug)]
pub struct Extensions<'a, A: Algorithm> {
    /// It shares a part of the model.
    pub partial: Option<&'a dyn PartialSharing<A>>,
    /// It has several shared models.
    pub clusters: Option<&'a dyn Clusters<A>>,
    /// It ends with other models than the last round's.
    pub final_models: Option<&'a dyn FinalModels<A>>,
    /// Its clients choose among several models.
    pub choice: Option<&'a dyn ModelChoice<A>>,
}

impl<A: Algorithm> Default for Extensions<'_, A> {
    fn default() -> Self {
        Self {
            partial: None,
            clusters: None,
            final_models: None,
            choice: None,
        }
    }
}

/// An algorithm that shares a part of the model's parameters.
pub trait PartialSharing<A: Algorithm = Self>: Debug {
    /// Returns the part of the shared model that the `model` array of an update stands for.
    fn part(&self, server: &A::Server) -> Range<usize>;

    /// Returns how long the vectors of an update are, of a model with that many parameters.
    fn sends(&self, sent: &A::Broadcast, parameters: usize) -> usize;
}

/// An algorithm with several shared models, of which every client has its own.
pub trait Clusters<A: Algorithm = Self>: Debug {
    /// Returns the shared models, one after the other.
    fn models<'a>(&self, server: &'a A::Server) -> &'a [f32];

    /// Returns which of the shared models is the client's, from 0.
    fn of_client(&self, local: &A::ClientState) -> usize;
}

/// An algorithm that ends with other models than those of its last round, such as averages
/// over all rounds.
pub trait FinalModels<A: Algorithm = Self>: Debug {
    /// Returns the shared model that a run ends with.
    fn shared(&self, server: &A::Server) -> Params;

    /// Returns the personal model that a client ends with, made of its state after training and
    /// of the `shared` model that the run ends with.
    fn personal(&self, local: &A::ClientState, shared: &[f32], client: &LocalClient<'_>) -> Params;
}

/// An algorithm whose clients choose which of several models they serve.
pub trait ModelChoice<A: Algorithm = Self>: Debug {
    /// Returns how the choice is made.
    fn choosing(&self) -> &Choosing;

    /// Returns the algorithm in one of the passes of a choice.
    fn in_pass(&self, pass: Pass) -> A;

    /// Returns all models that the client may choose from, in the order of [`Choosing::list`];
    /// none in a pass in which there is nothing to choose.
    fn candidates<'a>(&self, after: AfterRound<'a, A>) -> Vec<(Candidate, Predictor<'a>)>;
}

/// Returns the part of the shared model that the `model` array of an update stands for: all of
/// it, where not only some layers are shared.
pub(crate) fn aggregated<'a, A: Algorithm>(algorithm: &A, server: &'a A::Server) -> &'a [f32] {
    let shared = algorithm.shared(server);
    match algorithm.extensions().partial {
        Some(partial) => &shared[partial.part(server)],
        None => shared,
    }
}

/// Returns the same part for an optimizer to move; `None` where none can act.
pub(crate) fn aggregated_mut<'a, A: Algorithm>(
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

/// Returns how long the vectors of an update are, of a model with that many parameters.
pub(crate) fn update_len<A: Algorithm>(
    algorithm: &A,
    sent: &A::Broadcast,
    parameters: usize,
) -> usize {
    let partial = algorithm.extensions().partial;
    partial.map_or(parameters, |partial| partial.sends(sent, parameters))
}

/// Returns how the clients choose among several models, where they do.
pub(crate) fn choosing<A: Algorithm>(algorithm: &A) -> Option<&Choosing> {
    algorithm.extensions().choice.map(ModelChoice::choosing)
}
