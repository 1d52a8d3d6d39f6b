//! A site handles requests for its client.

use super::message::{ClientRequest, Handled, StateVersion};
use crate::algorithm::Algorithm;
use crate::clients::wire::Body;
use crate::clients::{ClientModels, Clients, Finalized, Keep, Request, Response};
use crate::error::{Error, Result};
use crate::files::archive::ArchiveDirectory;
use crate::local_client::Scratch;
use crate::metrics::Finals;
use crate::params::Params;

/// What of a client leaves its site beside updates and sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disclose {
    /// αᵢ
    pub mixing: bool,
    /// Its training examples of every class.
    pub classes: bool,
    /// Its final scores and what joining gave it.
    pub scores: bool,
}

/// A client at its site.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Where its states are kept.
    pub archive: &'a ArchiveDirectory,
    /// What may leave.
    pub disclose: Disclose,
}

/// What delivery leaves at a site: the client with its models, and its shared model.
pub type Kept = (Finalized, Params);

/// Handles the requests for a site's client. Returns the body and the rest of the response, and
/// what stays at the site.
///
/// # Errors
/// A request that no site handles; what goes wrong at the client.
pub fn handle<A: Algorithm>(
    clients: &Clients<A>,
    place: Place<'_>,
    asked: ClientRequest,
    body: &[u8],
) -> Result<(Vec<u8>, Handled, Option<Kept>)> {
    let client = asked.client;
    let mut scratch = Scratch::default();
    let lost = !restored(clients, place, &asked)?;
    if let Some(choice) = asked.choice {
        let choices = vec![(client, choice)];
        clients.handle_together(&Request::Choose { choices }, &[client])?;
    }
    let (mut back, mut responses) = (Body::default(), Vec::new());
    let (mut state, mut kept) = (None, None);
    for packed in &asked.requests {
        let mut request = packed.unpack::<A>(body)?;
        match &mut request {
            Request::Train { .. } | Request::Score { .. } | Request::HoldOut { .. } => {}
            Request::Finalize { keep, .. } => {
                *keep = match keep {
                    Keep::AtOwner => Keep::HandOver,
                    _ => Keep::Nothing,
                }
            }
            _ => {
                return Err(Error::Engine(format!(
                    "found a request to {}; a site trains, scores, holds out and finalizes for the \
                     server, and nothing else",
                    request.verb()
                )));
            }
        }
        let mut response = clients.handle((0, client), &request, &mut scratch)?;
        match (&request, &mut response) {
            (Request::Train { round, .. }, Response::Trained(reply)) => {
                let digest = clients.digest(client)?;
                if clients.remembers() {
                    // Before the response leaves: who is killed in between responds again.
                    let name = StateVersion {
                        round: *round,
                        digest,
                    }
                    .name();
                    let archive = place.archive.clone();
                    clients.handle_together(&Request::Save { archive, name }, &[client])?;
                }
                state = Some(digest);
                if let Some(reply) = reply {
                    reply.mixing = reply.mixing.filter(|_| place.disclose.mixing);
                }
            }
            (Request::Finalize { shared, .. }, Response::Finalized(Some(own))) => {
                let disclosed = place.disclose.disclosed(own);
                let own = std::mem::replace(&mut **own, disclosed);
                kept = Some((own, clients.shared_of(client, shared)?));
            }
            _ => {}
        }
        responses.push(back.response::<A>(response));
    }
    let handled = Handled {
        responses,
        state,
        lost,
    };
    Ok((back.into_bytes(), handled, kept))
}

/// Gives the client the state that a request names; returns whether it was there.
fn restored<A: Algorithm>(
    clients: &Clients<A>,
    place: Place<'_>,
    asked: &ClientRequest,
) -> Result<bool> {
    if asked.state.round == 0 || !clients.remembers() {
        return Ok(true);
    }
    let part = format!("{}.safetensors", asked.state.name());
    if !place.archive.0.join(&part).exists() {
        return Ok(false);
    }
    let archive = place.archive.clone();
    let restore = Request::Restore {
        archive,
        part: part.clone(),
    };
    clients.handle_together(&restore, &[asked.client])?;
    if clients.digest(asked.client)? == asked.state.digest {
        return Ok(true);
    }
    Err(Error::Checkpoint(format!(
        "{part}: its content is not what was written"
    )))
}

impl Disclose {
    /// Returns what a site discloses of what delivery left there: sums, and what it may.
    fn disclosed(&self, own: &Finalized) -> Finalized {
        let sums = |finals: &Finals| {
            if self.scores {
                finals.clone()
            } else {
                Finals {
                    tallies: finals.tallies,
                    tested: finals.tested,
                    ..Finals::default()
                }
            }
        };
        let scores = self.scores;
        Finalized {
            client: own.client,
            name: String::new(), // the server knows
            examples: own.examples,
            test_examples: own.test_examples,
            classes: if self.classes {
                own.classes.clone()
            } else {
                Vec::new()
            },
            mixing: own.mixing.filter(|_| self.mixing),
            majority: own.majority.filter(|_| scores),
            finals: own.finals.map(sums),
            alone: own.alone.as_ref().filter(|_| scores).cloned(),
            gain: own.gain.filter(|_| scores),
            models: None::<ClientModels>,
        }
    }
}
