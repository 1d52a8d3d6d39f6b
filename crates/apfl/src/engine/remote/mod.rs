//! Clients at sites of their own: a [`Transport`] carries requests to them and responses back.
//!
//! A site handles one message at a time and may be gone in between. So every message names the
//! client state that the client starts from, by round and digest: a request that comes twice gets
//! the same response, and a site that trained but responded too late is as one that was never
//! asked. Responses come in any order and are handed over in the order of the clients. An
//! exchange costs seconds, so the shared model's scores are asked for with the next request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Each, Engine};
use crate::algorithm::Algorithm;
use crate::choice::Candidate;
use crate::clients::wire::{Body, joined};
use crate::clients::{Finalized, Keep, Request, Response, RunContext};
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
pub use serve::{Disclose, Kept, Place, handle};
pub use sites::{Message, Sites, Transport};

/// The engine of the server.
pub struct Remote<A: Algorithm> {
    sites: Sites,
    context: RunContext,
    algorithm: Arc<A>,
    choices: BTreeMap<usize, Candidate>,
    /// Every client's current state.
    states: Vec<StateVersion>,
    /// The rounds of those states that the last two checkpoints need, the older first.
    saved: [Vec<u64>; 2],
    /// Whether clients keep anything.
    remembers: bool,
    /// Scores that are asked for with the next request.
    deferred: Option<Deferred>,
}

/// A client's response, and the new version of its state where it trained.
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
    /// All clients of the world at their sites, none of them sampled yet.
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
            remembers: !first.fields().is_empty(),
            deferred: None,
            context,
            algorithm,
        }
    }

    fn name(&self, client: usize) -> String {
        self.context.dataset.name(client)
    }

    /// Carries a request to some clients, and the deferred one to those that it is for. A client
    /// whose response is invalid counts as absent; at least `min_sites` of those asked must
    /// respond. Returns the absent ones.
    fn ask(
        &mut self,
        request: Option<&Request<A::Broadcast>>,
        clients: &[usize],
        each: &mut Each<'_, A::Update>,
    ) -> Result<Vec<usize>> {
        let deferred = self.deferred.take();
        let result = self.carry(deferred.as_ref(), request, clients, each);
        if result.is_err() {
            self.deferred = deferred; // nothing of it was handed over
        }
        result
    }

    fn carry(
        &mut self,
        deferred: Option<&Deferred>,
        request: Option<&Request<A::Broadcast>>,
        clients: &[usize],
        each: &mut Each<'_, A::Update>,
    ) -> Result<Vec<usize>> {
        let score = deferred.map(|deferred| Request::Score {
            round: deferred.round,
            shared: deferred.shared.clone(),
        });
        let scorers = deferred.map_or(&[][..], |deferred| &deferred.clients);
        let when = when(request.or(score.as_ref()));
        // What a client is asked, the scores first.
        let requests = |client: usize| {
            let score = score.as_ref();
            let score = score.filter(|_| scorers.binary_search(&client).is_ok());
            let request = request.filter(|_| clients.binary_search(&client).is_ok());
            score.into_iter().chain(request).collect::<Vec<_>>()
        };
        let mut everybody: Vec<usize> = clients.iter().chain(scorers).copied().collect();
        everybody.sort_unstable();
        everybody.dedup();
        let messages = everybody.iter().map(|client| {
            let bytes = self.message(*client, &requests(*client));
            Message {
                client: *client,
                bytes,
            }
        });
        let mut received = self.sites.exchange(messages.collect())?;
        let (mut responded, mut absent, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        for client in everybody {
            let asked = requests(client);
            let read = match received.remove(&client) {
                None => None,
                Some((response, body)) => match response.result {
                    Ok(Outcome::Handled(handled)) => {
                        Some(self.read_all(client, &asked, handled, &body))
                    }
                    Ok(_) => Some(Err("its response is of another kind than the request")),
                    Err(SiteCode::NonFinite) => {
                        return Err(Error::NonFinite {
                            client: self.name(client),
                            place: format!("{when}, as its site reports"),
                            loss: f64::NAN,
                        });
                    }
                    Err(code) => {
                        let name = self.name(client);
                        (self.sites).note(&format!("site '{name}' answered {when}: {code}"));
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
        let wanted = self.sites.min_sites.min(clients.len());
        let answered = clients.len() - absent.len();
        if answered < wanted {
            return Err(Error::Absent {
                when,
                responded: answered,
                required: wanted,
                absent: absent.iter().map(|client| self.name(*client)).collect(),
                codes,
            });
        }
        for (client, Received { response, state }) in responded {
            if let Some(state) = state.filter(|_| self.remembers) {
                self.states[client] = state;
            }
            each(client, response)?;
        }
        Ok(absent)
    }

    /// Returns the message with those requests for a client.
    fn message(&self, client: usize, requests: &[&Request<A::Broadcast>]) -> Vec<u8> {
        let mut body = Body::default();
        // The last first: the model that is scored is mostly part of what is broadcast, and is
        // found in the body then.
        let mut packed: Vec<_> = requests
            .iter()
            .rev()
            .map(|r| body.request::<A>(r))
            .collect();
        packed.reverse();
        let asked = ClientRequest {
            agreement: self.sites.agreement.clone(),
            client,
            pass: self.context.pass,
            choice: self.choices.get(&client).copied(),
            state: self.states[client],
            floor: self.saved[0][client],
            requests: packed,
        };
        joined(body.into_bytes(), &SiteRequest::Handle(Box::new(asked)))
    }

    /// Reads a client's responses, each with the new version of its state where it trained.
    fn read_all(
        &self,
        client: usize,
        asked: &[&Request<A::Broadcast>],
        handled: Handled,
        body: &[u8],
    ) -> check::Sense<Vec<Received<A::Update>>> {
        if handled.responses.len() != asked.len() {
            return Err("its responses are not as many as the requests");
        }
        let mut all = Vec::new();
        for (request, response) in asked.iter().zip(handled.responses) {
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
                "site '{}' has lost its client state of round {} and started {} from w⁰",
                self.name(client),
                self.states[client].round,
                when(asked.last().copied()),
            ));
        }
        Ok(all)
    }

    /// Client states are at their sites: what is saved is which of them are current.
    fn save(
        &mut self,
        archive: &ArchiveDirectory,
        name: &str,
        list: &[usize],
    ) -> Result<ArchivePart> {
        let part = archive.write(name, &message::version_fields(), list, &mut |client| {
            Ok(self.states[client].to_bytes())
        })?;
        let rounds = self.states.iter().map(|state| state.round).collect();
        self.saved = [std::mem::take(&mut self.saved[1]), rounds];
        Ok(part)
    }

    fn restore(&mut self, archive: &ArchiveDirectory, part: &str, list: &[usize]) -> Result<()> {
        let states = &mut self.states;
        let fields: Vec<Field> = message::version_fields();
        archive.read(part, &fields, list, &mut |client, mut arrays| {
            let wrong = |e: crate::pack::PackError| Error::Checkpoint(e.to_string());
            states[client] = StateVersion::unpack(&mut arrays).map_err(wrong)?;
            Ok(())
        })
    }
}

/// When a request is carried, in words.
fn when<B>(request: Option<&Request<B>>) -> String {
    match request {
        Some(Request::Train { round, .. }) => format!("in round {round}"),
        Some(Request::Score { round, .. }) => {
            format!("when the shared model of round {round} was scored")
        }
        Some(Request::HoldOut { .. }) => "before the choice".into(),
        _ => "at delivery".into(),
    }
}

impl<A: Algorithm> Engine<A> for Remote<A> {
    fn exchange(
        &mut self,
        request: &Request<A::Broadcast>,
        clients: &[usize],
        each: &mut Each<'_, A::Update>,
    ) -> Result<Vec<usize>> {
        let first = clients.first().copied().unwrap_or_default();
        match request {
            Request::Train { .. } | Request::HoldOut { .. } => {
                return self.ask(Some(request), clients, each);
            }
            Request::Finalize { keep, .. } => {
                if !matches!(keep, Keep::Nothing | Keep::AtOwner) {
                    return Err(Error::Engine(
                        "personal models stay at their sites: they cannot be handed over".into(),
                    ));
                }
                return self.ask(Some(request), clients, each);
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
                    each(*client, Response::Digest(self.states[*client].digest))?;
                }
            }
            Request::Save { archive, name } => {
                let part = self.save(archive, name, clients)?;
                each(first, Response::Saved(part, clients.to_vec()))?;
            }
            Request::Restore { archive, part } => self.restore(archive, part, clients)?,
        }
        Ok(Vec::new())
    }

    fn defers_scores(&self) -> bool {
        true
    }

    fn flush(&mut self, each: &mut Each<'_, A::Update>) -> Result<()> {
        if self.deferred.is_some() {
            self.ask(None, &[], each)?;
        }
        Ok(())
    }
}
