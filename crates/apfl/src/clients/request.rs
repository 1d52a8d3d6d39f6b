//! Requests to clients and their responses, equal on every engine.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Clients, Finalized, Keep, ModelFiles, Reply, locked};
use crate::algorithm::Algorithm;
use crate::choice::{Candidate, HeldOut};
use crate::error::{Error, Result};
use crate::files::archive::{ArchiveDirectory, ArchivePart};
use crate::local_client::Scratch;
use crate::metrics::Tallies;
use crate::pack::{Field, Pack};
use crate::params::Params;

/// An operation on some clients.
///
/// `B` is the broadcast and `M` a shared model: values within a process, positions in a message
/// body between processes, and `()` in a template that the server fills in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request<B, M = Params> {
    /// Train a round and, if requested, score the localized and the personal model.
    Train {
        /// The round, from 1.
        round: u64,
        /// The algorithm's broadcast.
        sent: B,
        /// Whether to score.
        score: bool,
    },
    /// Score the shared model of a round.
    Score {
        /// The round.
        round: u64,
        /// The shared model; with clusters, all shared models one after the other.
        shared: M,
    },
    /// Compute the loss of every candidate on held-out rows.
    HoldOut {
        /// The round after the last.
        round: u64,
        /// The algorithm's broadcast.
        sent: B,
    },
    /// Note which candidates clients have chosen.
    Choose {
        /// Client indices and their choices.
        choices: Vec<(usize, Candidate)>,
    },
    /// Take a last local round on a copy of the client state and score the final models.
    Finalize {
        /// The round after the last.
        round: u64,
        /// The algorithm's broadcast.
        sent: B,
        /// The shared model, as in `Score`.
        shared: M,
        /// What is done with the models.
        keep: Keep,
    },
    /// Return the digest of the client state.
    Digest,
    /// Write client states to a part of an archive; each process writes those of its clients.
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

/// The response to a [`Request`]; `U` is the algorithm's update, or what stands for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response<U> {
    /// Of `Train`; `None` if the client's loss was not finite and the run continues without it.
    Trained(Option<Reply<U>>),
    /// Of `Score`.
    Scored(Tallies),
    /// Of `HoldOut`; `None` as in `Trained`.
    HeldOut(Option<HeldOut>),
    /// Of `Finalize`; `None` as in `Trained`.
    Finalized(Option<Box<Finalized>>),
    /// Of `Digest`.
    Digest([u8; 32]),
    /// Of `Save`: the part that a process wrote, and the clients in it.
    Saved(ArchivePart, Vec<usize>),
    /// Of `Choose` and `Restore`.
    Done,
}

impl<B, M> Request<B, M> {
    /// Converts the broadcast and the shared model of the request. `context` is passed to both
    /// functions.
    ///
    /// # Errors
    /// Errors of `broadcast` and `model`.
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

    /// Returns the operation as a verb.
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

    /// Returns whether a process handles the request once for all of its clients.
    pub fn is_for_processes(&self) -> bool {
        matches!(
            self,
            Request::Choose { .. } | Request::Save { .. } | Request::Restore { .. }
        )
    }
}

impl<U> Response<U> {
    /// Converts the update of the response.
    ///
    /// # Errors
    /// An error of `update`.
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
    /// Returns a client's response; `position` is that in the list of clients.
    ///
    /// # Errors
    /// If the loss is not finite and such clients are not left out, or if data or a client state
    /// cannot be read or written.
    pub fn handle(
        &self,
        (position, client): (usize, usize),
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
                let own = self.finalize((position, client), *round, sent, shared, keep, scratch)?;
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
    /// If client states cannot be read or written.
    ///
    /// # Panics
    /// If the request is for each client.
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

    /// Checks the arrays of a request from another party.
    ///
    /// # Errors
    /// If the broadcast or the shared model has other arrays or lengths than those of this run.
    pub fn require_fitting(&self, request: &Request<A::Broadcast>) -> Result<()> {
        let (sent, shared) = match request {
            Request::Train { sent, .. } | Request::HoldOut { sent, .. } => (Some(sent), None),
            Request::Score { shared, .. } => (None, Some(shared)),
            Request::Finalize { sent, shared, .. } => (Some(sent), Some(shared)),
            _ => return Ok(()),
        };
        let algorithm = &*self.algorithm;
        let server = algorithm.start(&self.context.w0, self.context.dataset.clients());
        let broadcast = algorithm.broadcast(&server).fields();
        let models = algorithm.extensions().clusters.map_or_else(
            || algorithm.shared(&server).len(),
            |clusters| clusters.models(&server).len(),
        );
        let lengths = |fields: &[Field]| -> Vec<usize> { fields.iter().map(|f| f.len).collect() };
        if let Some(found) = sent.map(Pack::fields).filter(|found| *found != broadcast) {
            return Err(Error::Engine(format!(
                "found a broadcast with arrays of {:?} numbers, this run's has {:?}",
                lengths(&found),
                lengths(&broadcast)
            )));
        }
        match shared.map(Vec::len).filter(|found| *found != models) {
            None => Ok(()),
            Some(found) => Err(Error::Engine(format!(
                "found a shared model of {found} numbers, this run's has {models}"
            ))),
        }
    }

    /// Prepares this process for a request to those of its clients.
    ///
    /// # Errors
    /// If files of models cannot be opened.
    pub fn begin(&self, request: &Request<A::Broadcast>, clients: &[usize]) -> Result<()> {
        match request {
            Request::Train { .. } => self.drop_last_cohort(clients),
            Request::Finalize {
                keep: Keep::InFiles(places),
                ..
            } => *locked(&self.models) = Some(Arc::new(ModelFiles::open(places)?)),
            _ => {}
        }
        Ok(())
    }

    /// Ends a request for which [`Clients::begin`] prepared; syncs written files.
    ///
    /// # Errors
    /// If files of models cannot be synced.
    pub fn end(&self) -> Result<()> {
        match locked(&self.models).take() {
            None => Ok(()),
            Some(files) => files.sync(),
        }
    }
}
