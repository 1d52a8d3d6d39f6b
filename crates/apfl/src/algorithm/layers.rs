//! Algorithms that share a part of the layers: FedPer, FedRep, LG-FedAvg.
//!
//! What is shared travels and is averaged; the rest stays at its client for ever. A client's
//! whole model is put together for its round and lives no longer.

use std::ops::Range;

use super::extensions::{Extensions, PartialSharing, aggregated};
use super::{AfterRound, Algorithm, Models, Properties, Sender};
use crate::local_client::LocalClient;
use crate::model::Layout;
use crate::pack::{Arrays, Pack, PackError, View};
use crate::params::{Mean, Params};
use crate::settings::{Section, Settings};

/// Returns where each layer of a model starts: the tensors whose names are alike up to their
/// last `.`, such as `layer1.weight` and `layer1.bias`, are a layer.
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
pub fn start_of_last(layout: &Layout, count: usize) -> Result<usize, String> {
    let starts = starts(layout);
    match starts.len() {
        layers @ ..2 => Err(format!(
            "nothing would be shared of a model with {layers} layer: use mlp"
        )),
        layers if count > layers => Err(format!("the model has {layers} layers, not {count}")),
        layers => Ok(starts.get(layers - count).copied().unwrap_or(layout.len())),
    }
}

/// What one of these algorithms does its own way.
pub trait Sharing: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// The parameters that are shared.
    fn shared(&self, layout: &Layout) -> Result<Range<usize>, String>;

    /// Rounds at the start in which all layers are shared.
    fn warmup(&self) -> u64 {
        0
    }

    /// The local steps of a round on the client's whole model.
    fn train(&self, whole: &mut [f32], shared: &Range<usize>, client: &mut LocalClient<'_>);

    /// What the rest of a spec must know of it.
    fn properties(&self) -> Properties;
}

/// An algorithm that shares a part of the layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Partly<S> {
    /// Which part, and how a client trains.
    pub sharing: S,
    /// Where it is in the parameters of the run's model.
    shared: Range<usize>,
}

impl<S> Partly<S> {
    pub(super) fn new(sharing: S) -> Self {
        Self {
            sharing,
            shared: 0..0,
        }
    }
}

impl<S: Settings> Settings for Partly<S> {
    fn settings(&mut self, s: &mut Section<'_>) {
        self.sharing.settings(s);
    }
}

/// State of the server; and what clients receive, where `model` is the shared layers alone, or
/// all, while or after they all were shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// The shared layers, with the others of w⁰, or of the end of the warm-up.
    pub model: Params,
    /// Rounds so far.
    pub round: u64,
}

crate::pack!(Server { model, round });

/// What a client keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Private {
    /// The layers that are not shared.
    pub layers: Params,
    /// Whether they are its own yet (1), or what all start with (0).
    pub own: u64,
}

crate::pack!(Private { layers, own });

/// What a client sends back: the shared layers of its model alone.
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

/// The parameters outside a range, one after the other.
fn outside(whole: &[f32], range: &Range<usize>) -> Params {
    [&whole[..range.start], &whole[range.end..]].concat()
}

/// Puts them back.
fn put_outside(whole: &mut [f32], range: &Range<usize>, layers: &[f32]) {
    let (before, after) = layers.split_at(range.start);
    whole[..range.start].copy_from_slice(before);
    whole[range.end..].copy_from_slice(after);
}

impl<S: Sharing> Partly<S> {
    /// What is shared in the round after that many.
    fn shared_after(&self, round: u64, len: usize) -> Range<usize> {
        if round < self.sharing.warmup() {
            0..len
        } else {
            self.shared.clone()
        }
    }
}

impl<S: Sharing> Algorithm for Partly<S> {
    type Server = Server;
    type Broadcast = Server;
    type ClientState = Private;
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

    /// The shared layers; with a warm-up all of them, for a client that is drawn for the
    /// first time after it starts with its end.
    fn broadcast(&self, server: &Server) -> Server {
        let part = match self.sharing.warmup() {
            0 => aggregated(self, server),
            _ => &server.model,
        };
        Server {
            model: part.to_vec(),
            round: server.round,
        }
    }

    fn join(&self, w0: &[f32]) -> Private {
        Private {
            layers: outside(w0, &self.shared),
            own: 0,
        }
    }

    fn local_round(
        &self,
        sent: &Server,
        local: &mut Private,
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
        let warm = shared != self.shared;
        if !warm && (local.own == 1 || self.sharing.warmup() == 0) {
            put_outside(&mut whole, &self.shared, &local.layers);
        }
        self.sharing.train(&mut whole, &shared, client);
        if !warm {
            *local = Private {
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

    /// All are the client's whole model.
    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut LocalClient<'_>) -> Models<'a> {
        Models::one(&after.update.whole)
    }

    fn properties(&self) -> Properties {
        Properties {
            beyond_optimizers: (self.sharing.warmup() > 0)
                .then_some("algorithm.warmup changes what is shared on the way; use warmup = 0"),
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

impl<S: Sharing> PartialSharing for Partly<S> {
    fn part(&self, server: &Server) -> Range<usize> {
        self.shared_after(server.round, server.model.len())
    }

    fn sends(&self, sent: &Server, parameters: usize) -> usize {
        self.shared_after(sent.round, parameters).len()
    }
}
