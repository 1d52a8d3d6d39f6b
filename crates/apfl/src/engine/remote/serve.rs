//! Handling of requests at a site.

use super::message::{ClientRequest, Handled, StateVersion};
use crate::algorithm::Algorithm;
use crate::clients::wire::Body;
use crate::clients::{ClientModels, Clients, Finalized, Keep, Request, Response, StateSet};
use crate::error::{Error, Result};
use crate::files::archive::ArchiveDirectory;
use crate::local_client::Scratch;
use crate::metrics::Finals;
use crate::params::Params;

/// What a site discloses of its client, besides updates and sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disclose {
    /// αᵢ
    pub mixing: bool,
    /// The number of training examples of each class.
    pub classes: bool,
    /// Its final scores and its gain over training alone.
    pub scores: bool,
}

/// The settings of a client at its site.
#[derive(Clone, Copy, Debug)]
pub struct SiteContext<'a> {
    /// The archive of its states.
    pub archive: &'a ArchiveDirectory,
    /// What it discloses.
    pub disclose: Disclose,
}

/// The models that stay at a site: the client's and the shared one.
pub type SiteModels = (Finalized, Params);

/// Handles the requests to a site's client. Returns the body and the rest of the response, and
/// the models that stay at the site.
///
/// # Errors
/// If a request is not for sites, or the client fails.
pub fn handle<A: Algorithm>(
    clients: &Clients<A>,
    site: SiteContext<'_>,
    message: ClientRequest,
    body: &[u8],
) -> Result<(Vec<u8>, Handled, Option<SiteModels>)> {
    let client = message.client;
    let mut scratch = Scratch::default();
    let lost = !restore(clients, site, &message)?;
    if let Some(choice) = message.choice {
        let choices = vec![(client, choice)];
        clients.handle_together(&Request::Choose { choices }, &[client])?;
    }
    let (mut response_body, mut responses) = (Body::default(), Vec::new());
    let (mut state, mut models) = (None, None);
    for packed in &message.requests {
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
                    "found a request to {}; allowed at a site are train, score, hold out and \
                     finalize",
                    request.verb()
                )));
            }
        }
        let mut response = clients.handle((0, client), &request, &mut scratch)?;
        match (&request, &mut response) {
            (Request::Train { round, .. }, Response::Trained(reply)) => {
                let digest = clients.digest(client)?;
                if clients.is_stateful() {
                    // Saved before the response leaves: a node killed in between responds again.
                    let name = StateVersion {
                        round: *round,
                        digest,
                    }
                    .name();
                    let archive = site.archive.clone();
                    let save = Request::Save {
                        archive,
                        name,
                        states: StateSet::Current,
                    };
                    clients.handle_together(&save, &[client])?;
                }
                state = Some(digest);
                if let Some(reply) = reply {
                    reply.mixing = reply.mixing.filter(|_| site.disclose.mixing);
                }
            }
            (Request::Finalize { shared, .. }, Response::Finalized(Some(own))) => {
                let disclosed = site.disclose.disclosed(own);
                let own = std::mem::replace(&mut **own, disclosed);
                models = Some((own, clients.shared_model_of(client, shared)?));
            }
            _ => {}
        }
        responses.push(response_body.response::<A>(response));
    }
    let handled = Handled {
        responses,
        state,
        lost,
    };
    Ok((response_body.into_bytes(), handled, models))
}

/// Restores the client state that a message names. Returns false if it is missing.
fn restore<A: Algorithm>(
    clients: &Clients<A>,
    site: SiteContext<'_>,
    message: &ClientRequest,
) -> Result<bool> {
    if message.state.round == 0 || !clients.is_stateful() {
        return Ok(true);
    }
    let part = format!("{}.safetensors", message.state.name());
    if !site.archive.0.join(&part).exists() {
        return Ok(false);
    }
    let archive = site.archive.clone();
    let restore = Request::Restore {
        archive,
        part: part.clone(),
        states: StateSet::Current,
    };
    clients.handle_together(&restore, &[message.client])?;
    if clients.digest(message.client)? == message.state.digest {
        return Ok(true);
    }
    Err(Error::Checkpoint(format!(
        "{part}: the content differs from what was written"
    )))
}

impl Disclose {
    /// Returns what a site discloses of a finalized client.
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
