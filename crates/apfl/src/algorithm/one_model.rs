//! Algorithms whose server is one model: clients receive it, and it becomes the mean of their
//! models.

use super::{AfterRound, Algorithm, Extensions, Models, Properties, Sender};
use crate::local_client::LocalClient;
use crate::model::Layout;
use crate::pack::{ModelOnly, Pack};
use crate::params::{Mean, Params};

/// An algorithm whose server, broadcast and update are one model each.
///
/// Every `OneModel` is an [`Algorithm`]. A minimal one defines what a client does with the
/// received model:
///
/// ```
/// use apfl::algorithm::OneModel;
/// use apfl::local_client::LocalClient;
/// use apfl::{Params, Spec, Training};
///
/// /// wᵢ ← w;   wᵢ ← wᵢ − η∇fᵢ(wᵢ; ξ)   τ times;   w ← mean wᵢ
/// #[derive(Debug)]
/// struct Averaging;
///
/// impl OneModel for Averaging {
///     type ClientState = (); // a client keeps nothing
///
///     fn join(&self, _w0: &[f32]) {}
///
///     fn local_round(&self, sent: &[f32], _: &mut (), client: &mut LocalClient<'_>) -> Params {
///         let mut w = sent.to_vec();
///         for s in 0..client.steps() {
///             client.next_batch();
///             client.descend(&mut w, client.rate(s));
///         }
///         w
///     }
/// }
///
/// let spec = Spec::parse(
///     "data = { kind = 'synthetic', clients = 5 }
///      training = { rounds = 2 }",
/// )?;
/// let mut training = Training::with_algorithm(spec.plan()?.setup()?, Averaging)?;
/// while let Some(round) = training.next_round()? {
///     assert!(round.scores.is_some());
/// }
/// # Ok::<(), apfl::Error>(())
/// ```
pub trait OneModel: std::fmt::Debug + Send + Sync + Sized + 'static {
    /// State that a client keeps between rounds.
    type ClientState: Pack + Clone + Send + Sync;

    /// Returns the state of a client when it is first sampled.
    fn join(&self, w0: &[f32]) -> Self::ClientState;

    /// Returns the client's model after a round in which it received `sent`.
    fn local_round(
        &self,
        sent: &[f32],
        local: &mut Self::ClientState,
        client: &mut LocalClient<'_>,
    ) -> Params;

    /// See [`Algorithm::models`]. By default all are the model that [`OneModel::local_round`]
    /// returned.
    fn models<'a>(&self, after: AfterRound<'a, Self>, _client: &mut LocalClient<'_>) -> Models<'a> {
        Models::one(&after.update.model)
    }

    /// Ends a round, given the mean of the clients' models. By default w ← mean.
    fn finish(&self, w: &mut Params, mean: Params) {
        *w = mean;
    }

    /// See [`Algorithm::for_run`].
    fn for_run(self, _layout: &Layout, _seed: u64) -> Result<Self, String> {
        Ok(self)
    }

    /// See [`Algorithm::mixing`].
    fn mixing(&self, _local: &Self::ClientState) -> Option<f32> {
        None
    }

    /// See [`Algorithm::properties`].
    fn properties(&self) -> Properties {
        Properties::default()
    }

    /// See [`Algorithm::extensions`].
    fn extensions(&self) -> Extensions<'_, Self> {
        Extensions::default()
    }
}

impl<T: OneModel> Algorithm for T {
    type Server = ModelOnly;
    type Broadcast = ModelOnly;
    type ClientState = T::ClientState;
    type Update = ModelOnly;
    type Fold = Mean;

    fn start(&self, w0: &[f32], _clients: usize) -> ModelOnly {
        ModelOnly { model: w0.to_vec() }
    }

    fn broadcast(&self, server: &ModelOnly) -> ModelOnly {
        server.clone()
    }

    fn join(&self, w0: &[f32]) -> T::ClientState {
        OneModel::join(self, w0)
    }

    fn local_round(
        &self,
        sent: &ModelOnly,
        local: &mut T::ClientState,
        client: &mut LocalClient<'_>,
    ) -> ModelOnly {
        let model = OneModel::local_round(self, &sent.model, local, client);
        ModelOnly { model }
    }

    fn fold(&self, _: &ModelOnly, fold: &mut Mean, from: Sender, update: ModelOnly) {
        fold.add(from.weight, &update.model);
    }

    fn finish(&self, server: &mut ModelOnly, fold: Mean) {
        if let Some(mean) = fold.value() {
            OneModel::finish(self, &mut server.model, mean);
        }
    }

    fn shared<'a>(&self, server: &'a ModelOnly) -> &'a [f32] {
        &server.model
    }

    fn shared_mut<'a>(&self, server: &'a mut ModelOnly) -> Option<&'a mut [f32]> {
        Some(&mut server.model)
    }

    fn models<'a>(&self, after: AfterRound<'a, T>, client: &mut LocalClient<'_>) -> Models<'a> {
        OneModel::models(self, after, client)
    }

    fn for_run(self, layout: &Layout, seed: u64) -> Result<T, String> {
        OneModel::for_run(self, layout, seed)
    }

    fn mixing(&self, local: &T::ClientState) -> Option<f32> {
        OneModel::mixing(self, local)
    }

    fn properties(&self) -> Properties {
        OneModel::properties(self)
    }

    fn extensions(&self) -> Extensions<'_, T> {
        OneModel::extensions(self)
    }
}
