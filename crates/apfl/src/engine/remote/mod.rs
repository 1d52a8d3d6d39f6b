//! The engine of a federation: a [`Transport`] carries requests to sites and responses back.
//!
//! A site handles one message at a time and may restart in between. So every message names the
//! client state to start from, by round and digest: a request that arrives twice gets the same
//! response, and a response that is too late has no effect. Responses arrive in any order and are
//! passed on in client order. An exchange costs seconds, so the shared model's scores are requested
//! with the next request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Engine, OnResponse};
use crate::algorithm::Algorithm;
use crate::choice::Candidate;
use crate::clients::wire::{Body, joined};
use crate::clients::{Finalized, Keep, Request, Response, RunContext, StateSet};
use crate::digest::digest_of;
use crate::error::{Error, Result, SiteCode};
use crate::files::archive::{ArchiveDirectory, ArchivePart};
use crate::pack::{Field, Pack};
use crate::params::Params;

mod check;
mod message;
mod serve;
mod sites;

pub use message::{ClientRequest, Handled, Outcome, SiteRequest, SiteResponse, StateVersion};
pub use serve::{Disclose, SiteContext, SiteModels, handle};
pub use sites::{Message, Sites, Transport};

/// The engine of the server.
pub struct Remote<A: Algorithm> {
    sites: Sites,
    context: RunContext,
    algorithm: Arc<A>,
    choices: BTreeMap<usize, Candidate>,
    /// The version of every client's current state.
    states: Vec<StateVersion>,
    /// The rounds of the states that the last two checkpoints need, oldest first.
    saved: [Vec<u64>; 2],
    /// The version of the initial state.
    initial: StateVersion,
    /// The versions of the last snapshot.
    snapshot: Option<Vec<StateVersion>>,
    /// Whether clients keep a state.
    is_stateful: bool,
    /// Scores to be requested with the next request.
    deferred: Option<Deferred>,
}

/// A client's response, and the new version of its state if it trained.
struct Received<U> {
    response: Response<U>,
    state: Option<StateVersion>,
}

/// A shared model to score, and the clients that score it.
struct Deferred {
    round: u64,
    shared: Params,
    clients: Vec<usize>,
}

impl<A: Algorithm> fmt::Debug for Remote<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("sites", &self.sites)
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}

impl<A: Algorithm> Remote<A> {
    /// Creates the engine; no client has been sampled yet.
    pub fn new(sites: Sites, context: RunContext, algorithm: Arc<A>) -> Self {
        let first = algorithm.join(&context.w0);
        let clients = context.dataset.clients();
        let version = StateVersion {
            round: 0,
            digest: digest_of(&first),
        };
        Self {
            sites,
            choices: BTreeMap::new(),
            states: vec![version; clients],
            saved: [vec![0; clients], vec![0; clients]],
            initial: version,
            snapshot: None,
            is_stateful: !first.fields().is_empty(),
            deferred: None,
            context,
            algorithm,
        }
    }

    fn name(&self, client: usize) -> String {
        self.context.dataset.name(client)
    }

    /// Carries a request to some clients, with the deferred scores. A client whose response is
    /// invalid counts as absent; at least `min_sites` clients must respond. Returns the absent
    /// ones.
    fn send(
        &mut self,
        request: Option<&Request<A::Broadcast>>,
        clients: &[usize],
        on_response: &mut OnResponse<'_, A::Update>,
    ) -> Result<Vec<usize>> {
        let deferred = self.deferred.take();
        let result = self.carry(deferred.as_ref(), request, clients, on_response);
        if result.is_err() {
            self.deferred = deferred; // no response was passed on
        }
        result
    }

    fn carry(
        &mut self,
        deferred: Option<&Deferred>,
        request: Option<&Request<A::Broadcast>>,
        clients: &[usize],
        on_response: &mut OnResponse<'_, A::Update>,
    ) -> Result<Vec<usize>> {
        let score = deferred.map(|deferred| Request::Score {
            round: deferred.round,
            shared: deferred.shared.clone(),
        });
        let scorers = deferred.map_or(&[][..], |deferred| &deferred.clients);
        let when = when(request.or(score.as_ref()));
        // The requests to a client, the scores first.
        let requests = |client: usize| {
            let score = score.as_ref();
            let score = score.filter(|_| scorers.binary_search(&client).is_ok());
            let request = request.filter(|_| clients.binary_search(&client).is_ok());
            score.into_iter().chain(request).collect::<Vec<_>>()
        };
        let mut recipients: Vec<usize> = clients.iter().chain(scorers).copied().collect();
        recipients.sort_unstable();
        recipients.dedup();
        let messages = recipients.iter().map(|client| {
            let bytes = self.message(*client, &requests(*client));
            Message {
                client: *client,
                bytes,
            }
        });
        let mut received = self.sites.exchange(messages.collect())?;
        let (mut responded, mut absent, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        for client in recipients {
            let sent = requests(client);
            let read = match received.remove(&client) {
                None => None,
                Some((response, body)) => match response.result {
                    Ok(Outcome::Handled(handled)) => {
                        Some(self.read_all(client, &sent, handled, &body))
                    }
                    Ok(_) => Some(Err("its response does not match the request")),
                    Err(SiteCode::NonFinite) => {
                        return Err(Error::NonFinite {
                            client: self.name(client),
                            place: format!("{when}, as its site reports"),
                            loss: f64::NAN,
                        });
                    }
                    Err(code) => {
                        let name = self.name(client);
                        (self.sites).note(&format!("site '{name}' responded {when}: {code}"));
                        codes.push((name, code));
                        None
                    }
                },
            };
            match read {
                Some(Ok(responses)) => {
                    responded.extend(responses.into_iter().map(|response| (client, response)));
                    continue;
                }
                Some(Err(why)) => {
                    let name = self.name(client);
                    (self.sites).note(&format!("site '{name}' is left out {when}: {why}"));
                    codes.push((name, SiteCode::Garbled));
                }
                None => {}
            }
            absent.extend(clients.binary_search(&client).is_ok().then_some(client));
        }
        let required = self.sites.min_sites.min(clients.len());
        let responses = clients.len() - absent.len();
        if responses < required {
            return Err(Error::Absent {
                when,
                responded: responses,
                required,
                absent: absent.iter().map(|client| self.name(*client)).collect(),
                codes,
            });
        }
        for (client, Received { response, state }) in responded {
            if let Some(state) = state.filter(|_| self.is_stateful) {
                self.states[client] = state;
            }
            on_response(client, response)?;
        }
        Ok(absent)
    }

    /// Encodes requests to a client.
    fn message(&self, client: usize, requests: &[&Request<A::Broadcast>]) -> Vec<u8> {
        let mut body = Body::default();
        // Packed last to first: the model to score is mostly part of the broadcast and is then
        // found in the body.
        let mut packed: Vec<_> = requests
            .iter()
            .rev()
            .map(|r| body.request::<A>(r))
            .collect();
        packed.reverse();
        let request = ClientRequest {
            agreement: self.sites.agreement.clone(),
            client,
            pass: self.context.pass,
            rate: self.context.rate.set(),
            choice: self.choices.get(&client).copied(),
            state: self.states[client],
            floor: self.oldest(client).min(self.saved[0][client]),
            requests: packed,
        };
        joined(body.into_bytes(), &SiteRequest::Handle(Box::new(request)))
    }

    /// Validates a client's responses to `requests`.
    fn read_all(
        &self,
        client: usize,
        sent: &[&Request<A::Broadcast>],
        handled: Handled,
        body: &[u8],
    ) -> check::Validated<Vec<Received<A::Update>>> {
        if handled.responses.len() != sent.len() {
            return Err("its number of responses differs from that of the requests");
        }
        let mut all = Vec::new();
        for (request, response) in sent.iter().zip(handled.responses) {
            let mut response = self.read(client, request, response, body)?;
            let mut state = None;
            match (request, &mut response) {
                (Request::Train { round, .. }, _) => {
                    let digest = handled.state.ok_or("its new state has no digest")?;
                    let round = *round;
                    state = Some(StateVersion { round, digest });
                }
                (_, Response::Finalized(Some(own))) => {
                    **own = Finalized {
                        client,
                        name: self.name(client),
                        models: None,
                        ..(**own).clone()
                    };
                }
                _ => {}
            }
            all.push(Received { response, state });
        }
        if handled.lost {
            self.sites.note(&format!(
                "site '{}' has lost its client state of round {} and started from w⁰ {}",
                self.name(client),
                self.states[client].round,
                when(sent.last().copied()),
            ));
        }
        Ok(all)
    }

    /// Returns the round of a client's oldest state that the run may still use.
    fn oldest(&self, client: usize) -> u64 {
        let current = self.states[client].round;
        let snapshot = self.snapshot.as_ref();
        snapshot.map_or(current, |states| states[client].round.min(current))
    }

    /// Returns a set of versions.
    fn versions(&mut self, states: StateSet) -> &mut Vec<StateVersion> {
        match states {
            StateSet::Current => &mut self.states,
            StateSet::Snapshot => {
                let initial = vec![self.initial; self.states.len()];
                self.snapshot.get_or_insert(initial)
            }
        }
    }

    /// Saves the versions of the client states; the states themselves stay at their sites.
    fn save(
        &mut self,
        archive: &ArchiveDirectory,
        name: &str,
        states: StateSet,
        list: &[usize],
    ) -> Result<ArchivePart> {
        let versions = self.versions(states);
        let part = archive.write(name, &message::version_fields(), list, &mut |client| {
            Ok(versions[client].to_bytes())
        })?;
        if states == StateSet::Current {
            let rounds = (0..self.states.len()).map(|k| self.oldest(k)).collect();
            self.saved = [std::mem::take(&mut self.saved[1]), rounds];
        }
        Ok(part)
    }

    fn restore(
        &mut self,
        archive: &ArchiveDirectory,
        part: &str,
        states: StateSet,
        list: &[usize],
    ) -> Result<()> {
        let states = self.versions(states);
        let fields: Vec<Field> = message::version_fields();
        archive.read(part, &fields, list, &mut |client, mut arrays| {
            let damaged = |e: crate::pack::PackError| Error::Checkpoint(e.to_string());
            states[client] = StateVersion::unpack(&mut arrays).map_err(damaged)?;
            Ok(())
        })
    }
}

/// Describes when a request is sent.
fn when<B>(request: Option<&Request<B>>) -> String {
    match request {
        Some(Request::Train { round, .. }) => format!("in round {round}"),
        Some(Request::Score { round, .. }) => {
            format!("when the shared model of round {round} was scored")
        }
        Some(Request::HoldOut { .. }) => "before the choice".into(),
        _ => "at finalization".into(),
    }
}

impl<A: Algorithm> Engine<A> for Remote<A> {
    fn exchange(
        &mut self,
        request: &Request<A::Broadcast>,
        clients: &[usize],
        on_response: &mut OnResponse<'_, A::Update>,
    ) -> Result<Vec<usize>> {
        let first = clients.first().copied().unwrap_or_default();
        match request {
            Request::Train { .. } | Request::HoldOut { .. } => {
                return self.send(Some(request), clients, on_response);
            }
            Request::Finalize { keep, .. } => {
                if !matches!(keep, Keep::Nothing | Keep::AtOwner) {
                    return Err(Error::Engine(
                        "personal models stay at their sites; they cannot be returned to the server".into(),
                    ));
                }
                return self.send(Some(request), clients, on_response);
            }
            Request::Score { round, shared } => {
                self.deferred = Some(Deferred {
                    round: *round,
                    shared: shared.clone(),
                    clients: clients.to_vec(),
                });
            }
            // Sent with the next request.
            Request::Choose { choices } => self.choices.extend(choices.iter().copied()),
            Request::Digest => {
                for client in clients {
                    on_response(*client, Response::Digest(self.states[*client].digest))?;
                }
            }
            Request::Save {
                archive,
                name,
                states,
            } => {
                let part = self.save(archive, name, *states, clients)?;
                on_response(first, Response::Saved(part, clients.to_vec()))?;
            }
            Request::Restore {
                archive,
                part,
                states,
            } => self.restore(archive, part, *states, clients)?,
            // The states themselves stay at their sites.
            Request::Snapshot => self.snapshot = Some(self.states.clone()),
            Request::Revert => {
                if let Some(snapshot) = &self.snapshot {
                    for client in clients {
                        self.states[*client] = snapshot[*client];
                    }
                }
            }
        }
        Ok(Vec::new())
    }

    fn defers_scores(&self) -> bool {
        true
    }

    fn flush(&mut self, on_response: &mut OnResponse<'_, A::Update>) -> Result<()> {
        if self.deferred.is_some() {
            self.send(None, &[], on_response)?;
        }
        Ok(())
    }
}
