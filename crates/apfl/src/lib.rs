//! Personalized federated learning, exactly as *Adaptive Personalized Federated
//! Learning* (APFL) has it.
//!
//! Many clients train one shared model w together; each also trains a local model vᵢ
//! and serves the mixture v̄ᵢ = αᵢvᵢ + (1−αᵢ)w. This library trains; it never prints and
//! never parses arguments. The program `apfl` is built on it.
//!
//! ```
//! use apfl::spec::Spec;
//! use apfl::training::Training;
//!
//! // A spec says what to do; what it leaves out has a default.
//! let spec = Spec::parse(
//!     "[data]
//!      kind = 'synthetic'
//!      clients = 10
//!      [algorithm]
//!      kind = 'apfl'
//!      mixing = { fixed = 0.5 }
//!      [training]
//!      rounds = 5",
//! )?;
//! let plan = spec.plan()?; // every key checked, nothing read yet
//! let mut training = Training::new(plan.setup()?, &plan.algorithm)?;
//! while let Some(round) = training.next_round()? {
//!     let scores = round.scores.expect("every round is evaluated by default");
//!     assert!(scores.personal.train.loss.is_finite());
//! }
//! assert_eq!(training.fingerprint()?.len(), 64);
//! # Ok::<(), apfl::error::Error>(())
//! ```
//!
//! # The rooms
//!
//! | module | what it knows |
//! |---|---|
//! | [`params`] [`pack`] [`rng`] [`schedule`] [`settings`] | vectors, named arrays, addressed randomness, η_t, reading a spec's table |
//! | [`data`] | examples, how they fall on clients, where they come from |
//! | [`model`] | forward and backward passes over flat parameters |
//! | [`site`] | what an algorithm may see at a client |
//! | [`algorithm`] | APFL and what it is compared with, one file each |
//! | [`aggregation`] [`attack`] | rules that make one model of many; clients that want them to fail |
//! | [`memories`] | where clients' memories live: RAM, or a file |
//! | [`clients`] | the clients of this process: their data and memories |
//! | [`engine`] | where clients live and how they are reached |
//! | [`training`] | the only round loop |
//! | [`join`] | a client that was never in training |
//! | [`curvature`] | L of the clients' objectives, for the theory's step sizes |
//! | [`spec`] | what was written → what can run |
//! | [`store`] | run directory, models on disk |
//! | [`theory`] | ζᵢ, Δᵢ, σ², L, μ, κ, αᵢ*, the bound: measured on a run |

pub mod aggregation;
pub mod algorithm;
pub mod attack;
pub mod clients;
pub mod curvature;
pub mod data;
pub mod digest;
pub mod engine;
pub mod error;
pub mod join;
pub mod memories;
pub mod metrics;
pub mod model;
pub mod pack;
pub mod params;
pub mod predict;
pub mod rng;
pub mod run;
pub mod schedule;
pub mod settings;
pub mod site;
pub mod spec;
pub mod store;
pub mod theory;
pub mod training;

pub use algorithm::{Algorithm, Apfl, FedAvg, LocalOnly, PFedMe, PerFedAvg, Scaffold};
pub use data::{Dataset, Examples, InMemory, Schema, Shard};
pub use error::{Error, Result};
pub use model::cnn::Cnn;
pub use model::mlp::Mlp;
pub use model::{Loss, Model};
pub use params::Params;
pub use predict::{Prediction, TrainedModel, WhichModel};
pub use run::{Ended, Event, Finished, Run, RunBuilder};
pub use spec::{Plan, Spec};
pub use training::{RoundRecord, Training};
