//! The agnostic shared model of section 7: min_w max_{q∈Δ} Σ qᵢfᵢ(w), after Mohri et al.
//! (2019). With APFL as the inner algorithm it is the paper's "adaptive personalized
//! agnostic federated learning".

use toml::Value;

use super::extensions::{Extensions, ModelChoice};
use super::{AfterRound, Algorithm, Models, OneModel, Properties, Sender};
use crate::choice::{Candidate, Choosing, Pass};
use crate::local_client::{LocalClient, Predictor};
use crate::model::Layout;
use crate::pack::ModelOnly;
use crate::params::{Mean, Params, project_onto_simplex};
use crate::settings::{Custom, Setting, as_number};

/// An algorithm whose server weights clients by q, which grows for clients with a high loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agnostic<A> {
    /// The algorithm of the clients.
    pub inner: A,
    /// γ_q
    pub step: f64,
}

/// State of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// w
    pub model: Params,
    /// q, a weight per client; it never leaves the server.
    pub q: Vec<f64>,
}

crate::pack!(Server { model, q });

/// The update of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The inner algorithm's update.
    pub inner: ModelOnly,
    /// ℓᵢ = fᵢ(w): the objective of the received w over all training examples, with the ℓ2 term.
    pub loss: f64,
}

crate::pack!(Update { inner, loss });

/// γ_q; `None`: the server does not weight clients by q.
pub(super) const AGNOSTIC: Setting<Custom<Option<f64>>> = Setting::custom(
    "agnostic",
    Custom {
        name: "number, or true or false",
        default: || Some(None),
        allowed: "true, false or the step γ_q, above 0, at most 1e6",
        parse: |found| match (found.as_bool(), as_number(found)) {
            (Some(on), _) => Some(on.then_some(0.01)),
            (_, step) => step.filter(|x| *x > 0.0 && *x <= 1e6).map(Some),
        },
        write: |step| step.map_or(Value::Boolean(false), Value::Float),
    },
)
.symbol("γ_q")
.help("the step of the clients' weights, to minimize the worst mixture of clients (true: 0.01)")
.source("Mohri et al., 2019; section 7")
.example("0.01")
.seldom();

impl<A: OneModel> Algorithm for Agnostic<A> {
    type Server = Server;
    type Broadcast = ModelOnly;
    type ClientState = A::ClientState;
    type Update = Update;
    /// All updates of the cohort: the weights depend on all of them.
    type Fold = Vec<(Sender, Update)>;

    /// qᵢ⁰ = 1/n
    fn start(&self, w0: &[f32], clients: usize) -> Server {
        Server {
            model: w0.to_vec(),
            q: vec![1.0 / clients as f64; clients],
        }
    }

    fn broadcast(&self, server: &Server) -> ModelOnly {
        ModelOnly {
            model: server.model.clone(),
        }
    }

    fn join(&self, w0: &[f32]) -> A::ClientState {
        OneModel::join(&self.inner, w0)
    }

    fn local_round(
        &self,
        sent: &ModelOnly,
        local: &mut A::ClientState,
        local_client: &mut LocalClient<'_>,
    ) -> Update {
        let loss = local_client.objective(&sent.model);
        let inner = Algorithm::local_round(&self.inner, sent, local, local_client);
        Update { inner, loss }
    }

    fn fold(&self, _: &Server, fold: &mut Self::Fold, from: Sender, update: Update) {
        fold.push((from, update));
    }

    /// q ← Π_Δ(q + γ_q (n/K) ℓ on U);   w ← Σ_U qᵢwᵢ / Σ_U qᵢ
    ///
    /// If every client of U has qᵢ = 0, w does not change.
    fn finish(&self, Server { model, q }: &mut Server, fold: Self::Fold) {
        let share = q.len() as f64 / fold.len() as f64;
        for (from, update) in &fold {
            q[from.client] += self.step * share * update.loss;
        }
        project_onto_simplex(q);
        let mut weighted = Mean::default();
        for (from, update) in &fold {
            weighted.add(q[from.client], &update.inner.model);
        }
        if let Some(mean) = weighted.value() {
            OneModel::finish(&self.inner, model, mean);
        }
    }

    fn shared<'a>(&self, server: &'a Server) -> &'a [f32] {
        &server.model
    }

    fn shared_mut<'a>(&self, server: &'a mut Server) -> Option<&'a mut [f32]> {
        Some(&mut server.model)
    }

    fn models<'a>(
        &self,
        after: AfterRound<'a, Self>,
        local_client: &mut LocalClient<'_>,
    ) -> Models<'a> {
        OneModel::models(&self.inner, inner(after), local_client)
    }

    fn for_run(self, layout: &Layout, seed: u64) -> Result<Self, String> {
        let inner = OneModel::for_run(self.inner, layout, seed)?;
        Ok(Self { inner, ..self })
    }

    fn mixing(&self, local: &A::ClientState) -> Option<f32> {
        OneModel::mixing(&self.inner, local)
    }

    fn properties(&self) -> Properties {
        let inner = OneModel::properties(&self.inner);
        let Extensions {
            partial,
            clusters,
            final_models,
            ..
        } = OneModel::extensions(&self.inner);
        let plain = partial.is_none() && clusters.is_none() && final_models.is_none();
        let problem =
            "agnostic does not support algorithms with clusters, final models or partial sharing";
        Properties {
            problem: (!plain).then(|| problem.into()).or(inner.problem),
            details: format!("{}, agnostic", inner.details),
            weighs_clients: true,
            ..inner
        }
    }

    fn extensions(&self) -> Extensions<'_, Self> {
        let choice = OneModel::extensions(&self.inner).choice;
        Extensions {
            choice: choice.map(|_| self as &dyn ModelChoice<Self>),
            ..Extensions::default()
        }
    }
}

/// Returns the inner algorithm's view of a client after its round.
fn inner<A: OneModel>(after: AfterRound<'_, Agnostic<A>>) -> AfterRound<'_, A> {
    AfterRound {
        local: after.local,
        sent: after.sent,
        update: &after.update.inner,
    }
}

impl<A: OneModel> Agnostic<A> {
    fn choice(&self) -> &dyn ModelChoice<A> {
        let choice = OneModel::extensions(&self.inner).choice;
        choice.expect("offered only where the inner algorithm chooses")
    }
}

impl<A: OneModel> ModelChoice for Agnostic<A> {
    fn choosing(&self) -> &Choosing {
        self.choice().choosing()
    }

    fn in_pass(&self, pass: Pass) -> Self {
        Self {
            inner: self.choice().in_pass(pass),
            step: self.step,
        }
    }

    fn candidates<'a>(&self, after: AfterRound<'a, Self>) -> Vec<(Candidate, Predictor<'a>)> {
        self.choice().candidates(inner(after))
    }
}
