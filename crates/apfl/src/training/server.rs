//! The server: an algorithm on an engine, with both types erased.

use std::sync::Arc;

use super::Setup;
use super::aggregator::Aggregator;
use crate::aggregation::optimizer::OptimizerState;
use crate::algorithm::Algorithm;
use crate::algorithm::extensions::{aggregated_part, aggregated_part_mut};
use crate::clients::{Request, Response};
use crate::digest::digest_of;
use crate::engine::{Engine, OnResponse};
use crate::error::{Error, Result};
use crate::local_client::ModelForm;
use crate::pack::{Arrays, Field, Pack};
use crate::params::Params;

/// A request whose broadcast and shared model the server fills in.
pub(super) type RequestTemplate = Request<(), ()>;

/// The bytes that a round transferred.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// To each client.
    pub down: u64,
    /// From all clients.
    pub up: u64,
}

/// A server whose algorithm and engine types are erased.
pub(super) trait Server: Send {
    /// Carries a request to clients and passes on their responses without updates, which it
    /// aggregates. Returns the clients that did not respond.
    fn exchange(
        &mut self,
        template: &RequestTemplate,
        clients: &[usize],
        on_response: &mut OnResponse<'_, ()>,
    ) -> Result<Vec<usize>>;

    /// Ends the round of the last `Train`: the algorithm takes the aggregated updates.
    fn finish_round(&mut self) -> Result<Traffic>;

    /// As [`Engine::defers_scores`].
    fn defers_scores(&self) -> bool;

    /// As [`Engine::flush`].
    fn flush(&mut self, on_response: &mut OnResponse<'_, ()>) -> Result<()>;

    /// Returns the shared model.
    fn shared(&self) -> Params;

    /// Returns the shared model that the run ends with.
    fn output(&self) -> Params;

    /// Returns the arrays of the server's state.
    fn state(&self) -> (Vec<Field>, Vec<u8>);

    /// Restores that state.
    fn restore(&mut self, state: Arrays) -> Result<()>;

    /// Returns the digests of the server's state, for the fingerprint.
    fn digests(&self) -> Vec<[u8; 32]>;

    /// Returns the arrays of any client state.
    fn client_fields(&self) -> Vec<Field>;

    /// Returns the form of the models that clients serve.
    fn personal_form(&self) -> ModelForm;
}

/// The implementation of [`Server`] for an algorithm.
pub(super) struct ServerOf<A: Algorithm> {
    setup: Arc<Setup>,
    algorithm: Arc<A>,
    engine: Box<dyn Engine<A>>,
    state: A::Server,
    /// The state of the server's optimizer, if there is one.
    moments: Option<OptimizerState>,
    /// The updates of the current round.
    updates: Option<Aggregator<A>>,
    traffic: Traffic,
}

impl<A: Algorithm> ServerOf<A> {
    pub(super) fn new(
        setup: Arc<Setup>,
        algorithm: Arc<A>,
        engine: Box<dyn Engine<A>>,
    ) -> Result<Self> {
        let mut state = algorithm.start(&setup.context.w0, setup.context.dataset.clients());
        let moments = setup
            .server
            .start(aggregated_part(&*algorithm, &state).len());
        if moments.is_some() && aggregated_part_mut(&*algorithm, &mut state).is_none() {
            return Err(Error::Request(format!(
                "federation.server: found \"{}\", but the algorithm has no shared model for a \
                 server optimizer; use \"mean\"",
                setup.server.kind()
            )));
        }
        Ok(Self {
            setup,
            algorithm,
            engine,
            state,
            moments,
            updates: None,
            traffic: Traffic::default(),
        })
    }

    /// Fills in the broadcast and the shared model.
    fn fill_in(&self, template: &RequestTemplate) -> Request<A::Broadcast> {
        let (algorithm, state) = (&*self.algorithm, &self.state);
        let is_final = matches!(template, Request::Finalize { .. });
        let shared = |_: &mut (), (): &()| {
            Ok(match algorithm.extensions().clusters {
                Some(clusters) => clusters.models(state).to_vec(),
                None if is_final => self.output(),
                None => self.shared(),
            })
        };
        let filled = template.map(&mut (), |_, ()| Ok(algorithm.broadcast(state)), shared);
        filled.expect("filling in does not fail")
    }
}

/// Drops the update of a response.
fn without_update<U>(response: Response<U>) -> Response<()> {
    let stripped = response.map(|_| Ok(()));
    stripped.expect("dropping does not fail")
}

impl<A: Algorithm> Server for ServerOf<A> {
    fn exchange(
        &mut self,
        template: &RequestTemplate,
        clients: &[usize],
        on_response: &mut OnResponse<'_, ()>,
    ) -> Result<Vec<usize>> {
        let request = self.fill_in(template);
        let Request::Train { round, sent, .. } = &request else {
            let mut pass_on = |client, response| on_response(client, without_update(response));
            return self.engine.exchange(&request, clients, &mut pass_on);
        };
        let mut traffic = Traffic {
            down: sent.bytes() as u64,
            up: 0,
        };
        let (setup, algorithm, state) = (&*self.setup, &*self.algorithm, &self.state);
        let mut updates = Aggregator::new(setup, algorithm, state, *round);
        let absent = self
            .engine
            .exchange(&request, clients, &mut |client, response| {
                let response = response.map(|update: A::Update| {
                    traffic.up += update.bytes() as u64;
                    updates.add(setup, algorithm, state, client, update);
                    Ok(())
                })?;
                on_response(client, response)
            })?;
        self.updates = Some(updates);
        self.traffic = traffic;
        Ok(absent)
    }

    fn finish_round(&mut self) -> Result<Traffic> {
        let (algorithm, state) = (&*self.algorithm, &mut self.state);
        let updates = self.updates.take().expect("a round was trained");
        let fold = updates.finish(&self.setup, algorithm, state)?;
        let before = self
            .moments
            .is_some()
            .then(|| aggregated_part(algorithm, state).to_vec());
        algorithm.finish(state, fold);
        if let (Some(moments), Some(before)) = (&mut self.moments, before)
            && let Some(w) = aggregated_part_mut(algorithm, state)
        {
            self.setup.server.step(moments, &before, w);
        }
        Ok(self.traffic)
    }

    fn defers_scores(&self) -> bool {
        self.engine.defers_scores()
    }

    fn flush(&mut self, on_response: &mut OnResponse<'_, ()>) -> Result<()> {
        let mut pass_on = |client, response| on_response(client, without_update(response));
        self.engine.flush(&mut pass_on)
    }

    fn shared(&self) -> Params {
        self.algorithm.shared(&self.state).to_vec()
    }

    fn output(&self) -> Params {
        match self.algorithm.extensions().final_models {
            Some(models) => models.shared(&self.state),
            None => self.shared(),
        }
    }

    fn state(&self) -> (Vec<Field>, Vec<u8>) {
        let (mut fields, mut bytes) = (self.state.fields(), self.state.to_bytes());
        if let Some(moments) = &self.moments {
            fields.extend(moments.fields());
            bytes.extend(moments.to_bytes());
        }
        (fields, bytes)
    }

    fn restore(&mut self, mut state: Arrays) -> Result<()> {
        let damaged = |e| Error::Checkpoint(format!("the server's state: {e}"));
        self.state = A::Server::unpack(&mut state).map_err(damaged)?;
        if self.moments.is_some() {
            self.moments = Some(OptimizerState::unpack(&mut state).map_err(damaged)?);
        }
        Ok(())
    }

    fn digests(&self) -> Vec<[u8; 32]> {
        let server = digest_of(&self.state);
        let moments = self.moments.as_ref().map(digest_of);
        [server].into_iter().chain(moments).collect()
    }

    fn client_fields(&self) -> Vec<Field> {
        self.algorithm.join(&self.setup.context.w0).fields()
    }

    fn personal_form(&self) -> ModelForm {
        self.algorithm.properties().personal
    }
}
