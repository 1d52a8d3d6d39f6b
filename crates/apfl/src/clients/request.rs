//! Requests to clients and their responses, equal on every engine.

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

/// Rows on which models are compared during training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvaluationRows {
    /// Training rows that this pass holds out.
    HeldOut,
    /// Validation rows.
    Valid,
}

/// A set of client states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateSet {
    /// The states after the last round.
    Current,
    /// The states of the last snapshot.
    Snapshot,
}

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
    /// Compute the loss of every candidate on held-out rows, or that of the personal model.
    HoldOut {
        /// The round after the last.
        round: u64,
        /// The algorithm's broadcast.
        sent: B,
        /// The rows. Candidates are compared on held-out rows only.
        rows: EvaluationRows,
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
        /// The states to write.
        states: StateSet,
    },
    /// Read client states back from a part of an archive.
    Restore {
        /// The archive.
        archive: ArchiveDirectory,
        /// The file name of the part.
        part: String,
        /// Where they belong.
        states: StateSet,
    },
    /// Copy client states to the snapshot.
    Snapshot,
    /// Replace client states by those of the snapshot.
    Revert,
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
    /// Of `Choose`, `Restore`, `Snapshot` and `Revert`.
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
            Request::HoldOut { round, sent, rows } => Request::HoldOut {
                round: *round,
                sent: broadcast(context, sent)?,
                rows: *rows,
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
            Request::Save {
                archive,
                name,
                states,
            } => Request::Save {
                archive: archive.clone(),
                name: name.clone(),
                states: *states,
            },
            Request::Restore {
                archive,
                part,
                states,
            } => Request::Restore {
                archive: archive.clone(),
                part: part.clone(),
                states: *states,
            },
            Request::Snapshot => Request::Snapshot,
            Request::Revert => Request::Revert,
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
            Request::Snapshot => "take a snapshot",
            Request::Revert => "revert to the snapshot",
        }
    }

    /// Returns whether a process handles the request once for all of its clients.
    pub fn is_for_processes(&self) -> bool {
        matches!(
            self,
            Request::Choose { .. }
                | Request::Save { .. }
                | Request::Restore { .. }
                | Request::Snapshot
                | Request::Revert
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
            Request::HoldOut { round, sent, rows } => {
                Response::HeldOut(self.hold_out(client, *round, sent, *rows, scratch)?)
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
            Request::Choose { .. }
            | Request::Save { .. }
            | Request::Restore { .. }
            | Request::Snapshot
            | Request::Revert => self.handle_together(request, &[client])?,
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
            Request::Save {
                archive,
                name,
                states,
            } => {
                let part = self.save(archive, name, *states, clients)?;
                return Ok(Response::Saved(part, clients.to_vec()));
            }
            Request::Restore {
                archive,
                part,
                states,
            } => self.restore_all(archive, part, *states, clients)?,
            Request::Snapshot => self.take_snapshot(clients)?,
            Request::Revert => self.revert(clients)?,
            other => unreachable!("a request to {} is for each client", other.verb()),
        }
        Ok(Response::Done)
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
