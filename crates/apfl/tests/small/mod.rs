//! Small federations for tests: data made by hand, a round driven by hand, and a slow
//! float64 softmax regression that shares no code with the library.
#![allow(unused)] // every test file uses its own part

use std::sync::Arc;

use apfl::algorithm::{AfterRound, Algorithm, Sender};
use apfl::clients::{Rate, RunContext, StateHome};
use apfl::data::{Examples, Features, InMemory, Normalization, Schema, Shard, Targets, Task};
use apfl::local_client::{LocalClient, LocalTraining, LocalWork, Predictor, Scratch};
use apfl::model::mlp::Mlp;
use apfl::model::{Loss, Network};
use apfl::rng::{Purpose, stream};
use apfl::schedule::{Per, Schedule};
use apfl::spec::Spec;
use apfl::training::{FinalizedClients, Setup, Training, Weights};
use rand::{Rng, RngExt};

/// A federation: its model and its clients' data.
pub struct Small {
    pub model: Arc<Mlp>,
    pub shards: Vec<Arc<Shard>>,
    pub schema: Schema,
}

pub fn shard(name: usize, width: usize, x: Vec<f32>, targets: Targets) -> Arc<Shard> {
    let all = Examples::new(width, Features::Floats(x), targets);
    Arc::new(Shard::new(name.to_string(), all.clone(), all))
}

pub fn schema(task: Task, width: usize) -> Schema {
    Schema {
        task,
        features: (0..width).map(|j| format!("x{j}")).collect(),
        shape: vec![width],
        normalization: Normalization::None,
    }
}

/// Clients whose objective over the bias b is the mean of ½(b − t)² over their targets t:
/// every input is 0, so ∇ = b − mean t, and the weight never moves.
pub fn quadratics(targets: &[&[f32]], l2: f32) -> Small {
    let one =
        |(k, t): (usize, &&[f32])| shard(k, 1, vec![0.0; t.len()], Targets::Values(t.to_vec()));
    Small {
        model: Arc::new(Mlp::new(1, &[], 1, Loss::SquaredError, l2)),
        shards: targets.iter().enumerate().map(one).collect(),
        schema: schema(Task::Regression, 1),
    }
}

/// Clients with differing inputs and labels; client k has 20 + 3k examples.
pub fn classes(clients: usize, width: usize, classes: usize, hidden: &[usize], l2: f32) -> Small {
    let one = |k: usize| {
        let mut rng = stream(7, Purpose::Synthesis, 0, k as u64);
        let m = 20 + 3 * k;
        let x: Vec<f32> = (0..m * width)
            .map(|j| rng.random_range(-1.0..1.0) + 0.3 * ((j + k) % 3) as f32)
            .collect();
        let y = (0..m)
            .map(|r| {
                let score = x[r * width] * (1.0 + k as f32) + x[r * width + 1];
                ((score.abs() * 2.3) as usize + k) as u32 % classes as u32
            })
            .collect();
        shard(k, width, x, Targets::Classes(y))
    };
    let names = (0..classes).map(|c| c.to_string()).collect();
    Small {
        model: Arc::new(Mlp::new(width, hidden, classes, Loss::Softmax, l2)),
        shards: (0..clients).map(one).collect(),
        schema: schema(Task::Classification { classes: names }, width),
    }
}

/// τ full-batch steps a round at a constant rate.
pub fn full(tau: u64, rate: f64) -> LocalTraining {
    LocalTraining {
        work: LocalWork::Steps(tau),
        batch: None,
        learning_rate: rate,
        schedule: Schedule::Constant,
        momentum: 0.0,
    }
}

impl Small {
    /// A run's setup; w⁰ is uniform where `uniform`, else zero.
    pub fn setup(
        &self,
        local_training: LocalTraining,
        rounds: u64,
        participation: f64,
        uniform: bool,
    ) -> Setup {
        let w0 = if uniform {
            self.model
                .layout()
                .uniform(&mut stream(3, Purpose::Init, 0, 0))
        } else {
            self.model.layout().zeros()
        };
        Setup {
            context: RunContext {
                seed: 3,
                dataset: Arc::new(InMemory {
                    schema: self.schema.clone(),
                    shards: self.shards.clone(),
                    files: Vec::new(),
                    notes: Vec::new(),
                    assignment: None,
                }),
                model: self.model.clone(),
                w0: Arc::new(w0),
                local_training,
                skip_nonfinite: false,
                private: None,
                rarely_sampled: false,
                pass: None,
                rate: Rate::Planned,
            },
            rounds,
            participation,
            weights: Weights::Uniform,
            aggregation: Default::default(),
            server: Default::default(),
            attackers: Default::default(),
            privacy: None,
            evaluate_every: 1,
            finalized_clients: FinalizedClients::All,
            keep_models: true,
            engine: apfl::engine::EngineKind::Threads,
            threads: 1,
            home: StateHome::Ram,
            notes: Vec::new(),
        }
    }
}

/// A run driven by hand, so that tests see what the server and the clients remember.
pub struct Hand<A: Algorithm> {
    pub algorithm: A,
    pub setup: Setup,
    pub server: A::Server,
    pub locals: Vec<A::ClientState>,
    pub round: u64,
    scratch: Scratch,
}

/// A client's part of a round, seen from outside.
pub struct Seen {
    pub localized: Vec<f32>,
    pub personal: Option<Vec<f32>>,
}

impl<A: Algorithm> Hand<A> {
    pub fn new(algorithm: A, setup: Setup) -> Self {
        let w0 = setup.context.w0.clone();
        let n = setup.context.dataset.clients();
        let layout = setup.context.model.layout();
        let algorithm = algorithm.for_run(layout, setup.context.seed).unwrap();
        Self {
            server: algorithm.start(&w0, n),
            locals: (0..n).map(|_| algorithm.join(&w0)).collect(),
            algorithm,
            setup,
            round: 0,
            scratch: Scratch::default(),
        }
    }

    /// The next round, with the setup's own cohort.
    pub fn step(&mut self) -> Vec<Seen> {
        let cohort = self.setup.cohort(self.round + 1);
        self.step_with(&cohort)
    }

    /// The next round with those clients.
    pub fn step_with(&mut self, cohort: &[usize]) -> Vec<Seen> {
        self.round += 1;
        let RunContext {
            seed,
            dataset,
            model,
            local_training,
            ..
        } = self.setup.context.clone();
        let sent = self.algorithm.broadcast(&self.server);
        let mut fold = A::Fold::default();
        let mut seen = Vec::new();
        for &client in cohort {
            let shard = dataset.shard(client).unwrap();
            let rng = stream(seed, Purpose::Batches, self.round, client as u64);
            let mut local_client = LocalClient::new(
                &*model,
                &shard.train,
                local_training,
                self.round,
                rng,
                &mut self.scratch,
            );
            let local = &mut self.locals[client];
            let update = self.algorithm.local_round(&sent, local, &mut local_client);
            assert_eq!(local_client.non_finite(), None);
            let after = AfterRound {
                local,
                sent: &sent,
                update: &update,
            };
            let models = self.algorithm.models(after, &mut local_client);
            let personal = match models.personal {
                Predictor::At(at) => Some(at.to_vec()),
                Predictor::Own(at) => Some(at),
                Predictor::MixedOutputs { .. } => None,
            };
            seen.push(Seen {
                localized: models.localized.to_vec(),
                personal,
            });
            let weight = 1.0;
            let from = Sender { client, weight };
            self.algorithm.fold(&self.server, &mut fold, from, update);
        }
        self.algorithm.finish(&mut self.server, fold);
        seen
    }

    pub fn shared(&self) -> Vec<f32> {
        self.algorithm.shared(&self.server).to_vec()
    }
}

/// Softmax regression in float64 with (λ/2)‖·‖²: parameters are W (width × classes), then b.
pub struct Slow {
    pub width: usize,
    pub classes: usize,
    pub l2: f64,
    /// Every client's rows and labels.
    pub data: Vec<(Vec<Vec<f64>>, Vec<usize>)>,
}

impl Slow {
    pub fn of(small: &Small, l2: f32) -> Self {
        let width = small.schema.shape[0];
        let data = small.shards.iter().map(|shard| {
            let Features::Floats(x) = shard.train.features() else {
                unreachable!()
            };
            let Targets::Classes(y) = shard.train.targets() else {
                unreachable!()
            };
            let rows = x
                .chunks(width)
                .map(|r| r.iter().map(|v| *v as f64).collect());
            (rows.collect(), y.iter().map(|c| *c as usize).collect())
        });
        Self {
            width,
            classes: small.schema.task.classes(),
            l2: l2 as f64,
            data: data.collect(),
        }
    }

    /// ∇fᵢ over some of a client's rows.
    pub fn gradient(&self, client: usize, at: &[f64], rows: &[usize]) -> Vec<f64> {
        let (x, y) = &self.data[client];
        let (d, c) = (self.width, self.classes);
        let mut g: Vec<f64> = at.iter().map(|w| self.l2 * w).collect();
        for &r in rows {
            let z: Vec<f64> = (0..c)
                .map(|k| at[d * c + k] + (0..d).map(|j| x[r][j] * at[j * c + k]).sum::<f64>())
                .collect();
            let sum: f64 = z.iter().map(|z| z.exp()).sum();
            for k in 0..c {
                let miss = z[k].exp() / sum - if y[r] == k { 1.0 } else { 0.0 };
                let share = miss / rows.len() as f64;
                g[d * c + k] += share;
                (0..d).for_each(|j| g[j * c + k] += share * x[r][j]);
            }
        }
        g
    }

    /// ∇fᵢ over all of a client's rows.
    pub fn full(&self, client: usize, at: &[f64]) -> Vec<f64> {
        let rows: Vec<usize> = (0..self.data[client].1.len()).collect();
        self.gradient(client, at, &rows)
    }

    /// The mean loss of a client, ℓ2 term included.
    pub fn objective(&self, client: usize, at: &[f64]) -> f64 {
        let (x, y) = &self.data[client];
        let (d, c) = (self.width, self.classes);
        let mut loss = 0.0;
        for (x, y) in x.iter().zip(y) {
            let z: Vec<f64> = (0..c)
                .map(|k| at[d * c + k] + (0..d).map(|j| x[j] * at[j * c + k]).sum::<f64>())
                .collect();
            loss += z.iter().map(|z| z.exp()).sum::<f64>().ln() - z[*y];
        }
        let square: f64 = at.iter().map(|w| w * w).sum();
        loss / y.len() as f64 + 0.5 * self.l2 * square
    }
}

/// The mean of vectors.
pub fn mean(of: &[Vec<f64>]) -> Vec<f64> {
    (0..of[0].len())
        .map(|j| of.iter().map(|v| v[j]).sum::<f64>() / of.len() as f64)
        .collect()
}

/// The largest difference between a result and its float64 evaluation.
pub fn apart(fast: &[f32], slow: &[f64]) -> f64 {
    assert_eq!(fast.len(), slow.len());
    let gaps = fast.iter().zip(slow).map(|(f, s)| (*f as f64 - s).abs());
    gaps.fold(0.0, f64::max)
}

/// The norm's share that differs between two vectors.
pub fn gap(a: &[f32], b: &[f32]) -> f32 {
    let gaps = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    gaps.fold(0.0, f32::max)
}

/// A synthetic run of an algorithm as a spec writes it.
pub fn synthetic(algorithm: &str, more: &str) -> apfl::spec::Plan {
    let text = format!(
        "algorithm = {algorithm}
         data = {{ kind = 'synthetic', clients = 7, features = 6, classes = 3, max_examples = 90 }}
         {more}"
    );
    fitting(Spec::parse(&text).unwrap()).plan().unwrap()
}

/// The spec with what its algorithm asks of it, where it is refused without: every client in
/// every round, all alike, and a model of which a part can be shared.
pub fn fitting(mut spec: Spec) -> Spec {
    for (key, remedy) in [
        ("model.kind", "model={ kind = 'mlp', hidden = [5] }"),
        ("federation.participation", "federation.participation=1"),
        ("federation.weights", "federation.weights=uniform"),
        ("training.learning_rate", "algorithm.pull=0"),
    ] {
        if let Err(apfl::Error::Spec(problems)) = spec.plan()
            && problems.0.iter().any(|problem| problem.key == key)
        {
            spec.set(remedy).unwrap();
        }
    }
    spec
}
