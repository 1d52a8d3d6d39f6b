//! What clients can be asked for, and what they respond: the same on every engine.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Clients, Finalized, Keep, ModelFiles, Reply, locked};
use crate::algorithm::Algorithm;
use crate::choice::{Candidate, HeldOut};
use crate::error::Result;
use crate::files::archive::{ArchiveDirectory, ArchivePart};
use crate::local_client::Scratch;
use crate::metrics::Tallies;
use crate::params::Params;

/// An operation on some clients.
///
/// `B` is what the algorithm broadcasts and `M` a shared model: values within a process, places
/// in the body of a message between processes, and nothing where the server is yet to fill them
/// in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request<B, M = Params> {
    /// Train a round, and score the localized and the personal model where asked.
    Train {
        /// The round, from 1.
        round: u64,
        /// What the algorithm broadcasts.
        sent: B,
        /// Whether to score.
        score: bool,
    },
    /// Score the shared model of a round.
    Score {
        /// The round.
        round: u64,
        /// The shared model; several one after the other where clients have clusters.
        shared: M,
    },
    /// Measure everything there is to choose from on the rows held out.
    HoldOut {
        /// The round after the last.
        round: u64,
        /// What the algorithm broadcasts.
        sent: B,
    },
    /// Take note of what clients have chosen to serve.
    Choose {
        /// By the client's index.
        choices: Vec<(usize, Candidate)>,
    },
    /// Take a last local round on a copy of the client state, and score the final models.
    Finalize {
        /// The round after the last.
        round: u64,
        /// What the algorithm broadcasts.
        sent: B,
        /// The shared model, as in `Score`.
        shared: M,
        /// What becomes of the models.
        keep: Keep,
    },
    /// Return the digest of the client state.
    Digest,
    /// Write client states to a part of an archive, every process those of its own clients.
    Save {
        /// The archive.
        archive: ArchiveDirectory,
        /// The name of the part.
        name: String,
    },
    /// Read client states back from a part of an archive.
    Restore {
        /// The archive.
        archive: ArchiveDirectory,
        /// The file name of the part.
        part: String,
    },
}

/// What comes back of a [`Request`]; `U` is the algorithm's update, or what stands for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response<U> {
    /// Of `Train`; `None`: the client's loss was not finite, and the run goes on without it.
    Trained(Option<Reply<U>>),
    /// Of `Score`.
    Scored(Tallies),
    /// Of `HoldOut`; `None` as in `Trained`.
    HeldOut(Option<HeldOut>),
    /// Of `Finalize`; `None` as in `Trained`.
    Finalized(Option<Box<Finalized>>),
    /// Of `Digest`.
    Digest([u8; 32]),
    /// Of `Save`: the part of a process, and the clients in it.
    Saved(ArchivePart, Vec<usize>),
    /// Of `Choose` and `Restore`.
    Done,
}

impl<B, M> Request<B, M> {
    /// Returns the same request with other representations of what is broadcast and of the
    /// shared model, made with the help of `context`.
    ///
    /// # Errors
    /// What `broadcast` and `model` return.
    pub fn map<C, B2, M2>(
        &self,
        context: &mut C,
        broadcast: impl Fn(&mut C, &B) -> Result<B2>,
        model: impl Fn(&mut C, &M) -> Result<M2>,
    ) -> Result<Request<B2, M2>> {
        Ok(match self {
            Request::Train { round, sent, score } => Request::Train {
                round: *round,
                sent: broadcast(context, sent)?,
                score: *score,
            },
            Request::Score { round, shared } => Request::Score {
                round: *round,
                shared: model(context, shared)?,
            },
            Request::HoldOut { round, sent } => Request::HoldOut {
                round: *round,
                sent: broadcast(context, sent)?,
            },
            Request::Finalize {
                round,
                sent,
                shared,
                keep,
            } => Request::Finalize {
                round: *round,
                sent: broadcast(context, sent)?,
                shared: model(context, shared)?,
                keep: keep.clone(),
            },
            Request::Choose { choices } => Request::Choose {
                choices: choices.clone(),
            },
            Request::Digest => Request::Digest,
            Request::Save { archive, name } => Request::Save {
                archive: archive.clone(),
                name: name.clone(),
            },
            Request::Restore { archive, part } => Request::Restore {
                archive: archive.clone(),
                part: part.clone(),
            },
        })
    }

    /// What it asks for, in a word.
    pub fn verb(&self) -> &'static str {
        match self {
            Request::Train { .. } => "train",
            Request::Score { .. } => "score",
            Request::HoldOut { .. } => "hold out",
            Request::Choose { .. } => "choose",
            Request::Finalize { .. } => "finalize",
            Request::Digest => "digest",
            Request::Save { .. } => "save",
            Request::Restore { .. } => "restore",
        }
    }

    /// Whether a process handles it once for all of its clients, not client by client.
    pub fn is_for_processes(&self) -> bool {
        matches!(
            self,
            Request::Choose { .. } | Request::Save { .. } | Request::Restore { .. }
        )
    }
}

impl<U> Response<U> {
    /// Returns the same response with another representation of the update.
    ///
    /// # Errors
    /// What `update` returns.
    pub fn map<V>(self, update: impl FnOnce(U) -> Result<V>) -> Result<Response<V>> {
        Ok(match self {
            Response::Trained(None) => Response::Trained(None),
            Response::Trained(Some(reply)) => Response::Trained(Some(Reply {
                update: update(reply.update)?,
                tallies: reply.tallies,
                candidates: reply.candidates,
                mixing: reply.mixing,
                steps: reply.steps,
            })),
            Response::Scored(tallies) => Response::Scored(tallies),
            Response::HeldOut(held_out) => Response::HeldOut(held_out),
            Response::Finalized(own) => Response::Finalized(own),
            Response::Digest(digest) => Response::Digest(digest),
            Response::Saved(part, clients) => Response::Saved(part, clients),
            Response::Done => Response::Done,
        })
    }
}

impl<A: Algorithm> Clients<A> {
    /// Returns a client's response; `place` is its position in the list of clients.
    ///
    /// # Errors
    /// A loss that is not finite, where such a client is not left out; data or a client state
    /// that cannot be read or written.
    pub fn handle(
        &self,
        (place, client): (usize, usize),
        request: &Request<A::Broadcast>,
        scratch: &mut Scratch,
    ) -> Result<Response<A::Update>> {
        Ok(match request {
            Request::Train { round, sent, score } => {
                Response::Trained(self.train(client, *round, sent, *score, scratch)?)
            }
            Request::Score { round, shared } => {
                Response::Scored(self.score(client, shared, *round, scratch)?)
            }
            Request::HoldOut { round, sent } => {
                Response::HeldOut(self.hold_out(client, *round, sent, scratch)?)
            }
            Request::Finalize {
                round,
                sent,
                shared,
                keep,
            } => {
                let own = self.finalize((place, client), *round, sent, shared, keep, scratch)?;
                Response::Finalized(own.map(Box::new))
            }
            Request::Digest => Response::Digest(self.digest(client)?),
            Request::Choose { .. } | Request::Save { .. } | Request::Restore { .. } => {
                self.handle_together(request, &[client])?
            }
        })
    }

    /// Handles a request that a process handles once for all of its clients
    /// ([`Request::is_for_processes`]).
    ///
    /// # Errors
    /// Client states that cannot be read or written.
    ///
    /// # Panics
    /// Where it is a request for each client.
    pub fn handle_together(
        &self,
        request: &Request<A::Broadcast>,
        clients: &[usize],
    ) -> Result<Response<A::Update>> {
        match request {
            Request::Choose { choices } => self.choose(choices),
            Request::Save { archive, name } => {
                let part = self.save(archive, name, clients)?;
                return Ok(Response::Saved(part, clients.to_vec()));
            }
            Request::Restore { archive, part } => self.restore_all(archive, part, clients)?,
            other => unreachable!("a request to {} is for each client", other.verb()),
        }
        Ok(Response::Done)
    }

    /// Prepares this process for a request to those of its clients.
    ///
    /// # Errors
    /// Files of models that cannot be opened.
    pub fn begin(&self, request: &Request<A::Broadcast>, clients: &[usize]) -> Result<()> {
        match request {
            Request::Train { .. } => self.let_go(clients),
            Request::Finalize {
                keep: Keep::InFiles(places),
                ..
            } => *locked(&self.models) = Some(Arc::new(ModelFiles::open(places)?)),
            _ => {}
        }
        Ok(())
    }

    /// Ends a request for which [`Clients::begin`] prepared: makes durable what was written.
    ///
    /// # Errors
    /// Files of models that cannot be synced.
    pub fn end(&self) -> Result<()> {
        match locked(&self.models).take() {
            None => Ok(()),
            Some(files) => files.sync(),
        }
    }
}
