//! Algorithms that share a part of the layers: FedPer, FedRep, LG-FedAvg.
//!
//! Shared layers travel and are averaged; private layers stay at their client. A client's whole
//! model is assembled for its round.

use std::ops::Range;

use super::extensions::{Extensions, PartialSharing, aggregated_part};
use super::{AfterRound, Algorithm, Models, Properties, Sender};
use crate::local_client::LocalClient;
use crate::model::Layout;
use crate::pack::{Arrays, Pack, PackError, View};
use crate::params::{Mean, Params};
use crate::settings::{Section, Settings};

/// Returns where each layer of a model starts. Tensors whose names are equal up to the last `.`,
/// such as `layer1.weight` and `layer1.bias`, form a layer.
pub fn starts(layout: &Layout) -> Vec<usize> {
    let layer = |name: &str| {
        name.rsplit_once('.')
            .map_or(name, |(layer, _)| layer)
            .to_owned()
    };
    let mut tensors: Vec<(String, usize)> = (layout.tensors.iter())
        .map(|tensor| (layer(&tensor.name), tensor.offset))
        .collect();
    tensors.dedup_by(|next, last| next.0 == last.0);
    tensors.into_iter().map(|(_, start)| start).collect()
}

/// Returns where the last `count` layers of a model start.
pub(crate) fn start_of_last(layout: &Layout, count: usize) -> Result<usize, String> {
    let starts = starts(layout);
    match starts.len() {
        layers @ ..2 => Err(format!(
            "the model has {layers} layer, so nothing would be shared; use mlp"
        )),
        layers if count > layers => Err(format!(
            "expected at most {layers} layers, as the model has, found {count}"
        )),
        layers => Ok(starts.get(layers - count).copied().unwrap_or(layout.len())),
    }
}

/// What differs between these algorithms.
pub trait Sharing: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// Returns the range of the shared parameters.
    fn shared(&self, layout: &Layout) -> Result<Range<usize>, String>;

    /// Returns the number of rounds at the start in which all layers are shared.
    fn warmup(&self) -> u64 {
        0
    }

    /// Takes the local steps of a round on the client's whole model.
    fn train(&self, whole: &mut [f32], shared: &Range<usize>, client: &mut LocalClient<'_>);

    /// Returns the algorithm's properties.
    fn properties(&self) -> Properties;
}

/// An algorithm that shares some of the layers.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSharing<S> {
    /// Which layers are shared, and how a client trains.
    pub sharing: S,
    /// The range of the shared parameters in the run's model.
    shared: Range<usize>,
}

impl<S> LayerSharing<S> {
    pub(super) fn new(sharing: S) -> Self {
        Self {
            sharing,
            shared: 0..0,
        }
    }
}

impl<S: Settings> Settings for LayerSharing<S> {
    fn settings(&mut self, s: &mut Section<'_>) {
        self.sharing.settings(s);
    }
}

/// State of the server and broadcast. In the broadcast `model` is only the shared layers, or all
/// layers if there is a warm-up.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// The shared layers; the private ones are those of w⁰ or of the end of the warm-up.
    pub model: Params,
    /// Rounds so far.
    pub round: u64,
}

crate::pack!(Server { model, round });

/// State that a client keeps between rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientState {
    /// The private layers.
    pub layers: Params,
    /// 1 if the client has trained them; 0 if they are the initial ones.
    pub own: u64,
}

crate::pack!(ClientState { layers, own });

/// The update of a client: the shared layers of its model.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    whole: Params,
    shared: Range<usize>,
}

impl Update {
    fn shared(&self) -> &[f32] {
        &self.whole[self.shared.clone()]
    }
}

impl Pack for Update {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        see("model", View::F32(self.shared()));
    }
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError> {
        let whole = arrays.f32("model")?;
        Ok(Self {
            shared: 0..whole.len(),
            whole,
        })
    }
}

/// Returns the parameters outside a range.
fn outside(whole: &[f32], range: &Range<usize>) -> Params {
    [&whole[..range.start], &whole[range.end..]].concat()
}

/// Sets the parameters outside a range.
fn set_outside(whole: &mut [f32], range: &Range<usize>, layers: &[f32]) {
    let (before, after) = layers.split_at(range.start);
    whole[..range.start].copy_from_slice(before);
    whole[range.end..].copy_from_slice(after);
}

impl<S: Sharing> LayerSharing<S> {
    /// Returns the shared range in the round after `round` rounds.
    fn shared_after(&self, round: u64, len: usize) -> Range<usize> {
        if round < self.sharing.warmup() {
            0..len
        } else {
            self.shared.clone()
        }
    }
}

impl<S: Sharing> Algorithm for LayerSharing<S> {
    type Server = Server;
    type Broadcast = Server;
    type ClientState = ClientState;
    type Update = Update;
    type Fold = Mean;

    fn for_run(mut self, layout: &Layout, _: u64) -> Result<Self, String> {
        self.shared = self.sharing.shared(layout)?;
        Ok(self)
    }

    fn start(&self, w0: &[f32], _clients: usize) -> Server {
        Server {
            model: w0.to_vec(),
            round: 0,
        }
    }

    /// Sends the shared layers. With a warm-up it sends all layers, because a client that is first
    /// sampled later starts from its end.
    fn broadcast(&self, server: &Server) -> Server {
        let part = match self.sharing.warmup() {
            0 => aggregated_part(self, server),
            _ => &server.model,
        };
        Server {
            model: part.to_vec(),
            round: server.round,
        }
    }

    fn join(&self, w0: &[f32]) -> ClientState {
        ClientState {
            layers: outside(w0, &self.shared),
            own: 0,
        }
    }

    fn local_round(
        &self,
        sent: &Server,
        local: &mut ClientState,
        client: &mut LocalClient<'_>,
    ) -> Update {
        let len = client.model().layout().len();
        let shared = self.shared_after(sent.round, len);
        let mut whole = if sent.model.len() == len {
            sent.model.clone()
        } else {
            let mut whole = vec![0.0; len];
            whole[shared.clone()].copy_from_slice(&sent.model);
            whole
        };
        let in_warmup = shared != self.shared;
        if !in_warmup && (local.own == 1 || self.sharing.warmup() == 0) {
            set_outside(&mut whole, &self.shared, &local.layers);
        }
        self.sharing.train(&mut whole, &shared, client);
        if !in_warmup {
            *local = ClientState {
                layers: outside(&whole, &self.shared),
                own: 1,
            };
        }
        Update { whole, shared }
    }

    fn fold(&self, _: &Server, fold: &mut Mean, from: Sender, update: Update) {
        fold.add(from.weight, update.shared());
    }

    fn finish(&self, server: &mut Server, fold: Mean) {
        if let Some(mean) = fold.value() {
            let shared = self.shared_after(server.round, server.model.len());
            server.model[shared].copy_from_slice(&mean);
        }
        server.round += 1;
    }

    fn shared<'a>(&self, server: &'a Server) -> &'a [f32] {
        &server.model
    }

    fn shared_mut<'a>(&self, server: &'a mut Server) -> Option<&'a mut [f32]> {
        Some(&mut server.model)
    }

    /// All models are the client's whole model.
    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut LocalClient<'_>) -> Models<'a> {
        Models::one(&after.update.whole)
    }

    fn properties(&self) -> Properties {
        Properties {
            optimizer_problem: (self.sharing.warmup() > 0).then_some(
                "algorithm.warmup changes which layers are shared during the run; use warmup = 0",
            ),
            momentum: true,
            ..self.sharing.properties()
        }
    }

    fn extensions(&self) -> Extensions<'_, Self> {
        Extensions {
            partial: Some(self),
            ..Extensions::default()
        }
    }
}

impl<S: Sharing> PartialSharing for LayerSharing<S> {
    fn part(&self, server: &Server) -> Range<usize> {
        self.shared_after(server.round, server.model.len())
    }

    fn update_len(&self, sent: &Server, parameters: usize) -> usize {
        self.shared_after(sent.round, parameters).len()
    }
}
