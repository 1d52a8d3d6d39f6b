//! Personalized federated learning, exactly as *Adaptive Personalized Federated
//! Learning* (APFL) has it.
//!
//! Many clients train one shared model w together; each also trains a local model vᵢ
//! and serves the mixture v̄ᵢ = αᵢvᵢ + (1−αᵢ)w. This library trains; it never prints and
//! never parses arguments. The program `apfl` is built on it.
//!
//! # Quick start: your data in memory
//!
//! ```
//! use apfl::{Apfl, Examples, InMemory, Mlp, Run};
//!
//! // Three clients with 60 rows each; a fifth of the rows is held out to score on.
//! let mut data = InMemory::classes(["x", "y"], ["below", "above"]);
//! for (clinic, limit) in [("north", 0.2), ("south", -0.4), ("west", 0.0)] {
//!     let rows: Vec<f32> = (0..120).map(|k| ((k * 37) % 41) as f32 / 20.0 - 1.0).collect();
//!     let labels = rows.chunks(2).map(|row| u32::from(row[0] + row[1] > limit)).collect();
//!     data.add(clinic, Examples::classes(2, rows, labels)?, 0.2)?;
//! }
//! let model = Mlp::logistic(2, 2, 1e-4); // features, classes, λ: one linear layer
//! let run = Run::builder(data, model)
//!     .algorithm(Apfl::adaptive(0.01))
//!     .rounds(20)
//!     .build()?                       // checks settings and data; errors name key, client and row
//!     .train()?;
//! let prediction = run.personal("north")?.predict(&[0.9, 0.8])?;
//! assert_eq!(prediction[0].class(), Some(1));
//! # Ok::<(), apfl::Error>(())
//! ```
//!
//! With [`RunBuilder::directory`] a run is durable: killed at any instant and resumed, it ends
//! with the same bits. The folder `examples/` of the crate has `own_data`, `own_model`,
//! `own_algorithm` and `personal_models`.
//!
//! # From a spec
//!
//! A spec is a TOML file in which every key has a default. A table in a CSV or Parquet file is
//! `data = { kind = 'table', path = '…' }`.
//!
//! ```
//! use apfl::{Run, Spec};
//!
//! let spec = Spec::parse(
//!     "data = { kind = 'synthetic', clients = 10 }
//!      algorithm = { kind = 'apfl', mixing = { fixed = 0.5 } }
//!      training = { rounds = 5 }",
//! )?;
//! let plan = spec.plan()?; // every key checked, nothing read yet
//! let run = Run::new(&plan, plan.setup()?).train()?;
//! assert_eq!(run.summary.fingerprint.len(), 64);
//! # Ok::<(), apfl::Error>(())
//! ```
//!
//! [`Training`] is the loop alone, round by round, without a directory or finalized models.
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`run`] | runs that survive a kill: built, trained, resumed, finished |
//! | [`data`] | examples, data sets, how examples are assigned to clients |
//! | [`model`] | networks and losses over flat parameters |
//! | [`algorithm`] | APFL and the other algorithms, one file each; traits for your own |
//! | [`local_client`] | what an algorithm may use at a client: batches, gradients, rates |
//! | [`aggregation`] [`attack`] [`privacy`] | aggregators, clients that attack, differential privacy |
//! | [`training`] | the round loop |
//! | [`engine`] | where clients live: threads, MPI, sites |
//! | [`federation`] | the server and the nodes of a federation over sites |
//! | [`spec`] | a spec in TOML and the plan made of it |
//! | [`predict`] [`join`] [`advise`] | trained models, new clients, whether joining is worth it |
//! | [`params`] [`mod@pack`] [`rng`] [`schedule`] [`metrics`] | vectors, named arrays, random streams, learning-rate schedules, scores |
//! | [`error`] | what can go wrong |

pub mod advise;
pub mod aggregation;
pub mod algorithm;
pub mod attack;
#[doc(hidden)] // for the program and the tests
pub mod choice;
mod client_states;
#[doc(hidden)] // for the program and the tests
pub mod clients;
#[doc(hidden)] // for the program and the tests
pub mod curvature;
pub mod data;
#[doc(hidden)] // for the program and the tests
pub mod digest;
pub mod engine;
pub mod error;
pub mod federation;
#[doc(hidden)] // for the program and the tests
pub mod files;
pub mod join;
pub mod local_client;
pub mod metrics;
pub mod model;
#[doc(hidden)] // for the program and the tests
pub mod moments;
pub mod pack;
pub mod params;
pub mod predict;
pub mod privacy;
#[doc(hidden)] // for the program and the tests
pub mod quote;
pub mod rng;
pub mod run;
pub mod schedule;
#[doc(hidden)] // for the program and the tests
pub mod settings;
pub mod spec;
pub mod training;

pub use aggregation::{Aggregation, ServerOptimizer};
pub use algorithm::{
    Algorithm, AlgorithmSpec, Apfl, Ditto, FedAvg, FedPer, FedProx, FedRep, HypCluster, L2gd,
    LgFedAvg, LocalOnly, Mapper, OneModel, PFedMe, PerFedAvg, Scaffold,
};
pub use data::{Dataset, Examples, InMemory, Schema, Shard};
pub use error::{Error, Result};
pub use model::{Cnn, Loss, Mlp, Model, Network};
pub use params::Params;
pub use predict::{Prediction, TrainedModel, WhichModel};
pub use run::{Ended, Event, Finished, Program, Run, RunBuilder};
pub use schedule::Schedule;
pub use spec::{Plan, Spec};
pub use training::{FinalizedClients, RoundRecord, Training, Weights};
