//! The agnostic shared model of section 7: min_w max_{q∈Δ} Σ qᵢfᵢ(w), after Mohri et al.
//! (2019). With APFL as the inner algorithm it is the paper's "adaptive personalized
//! agnostic federated learning".

use toml::Value;

use super::{Algorithm, Properties, Sender};
use crate::choice::{Candidate, Choosing, Pass};
use crate::pack::{Arrays, ModelOnly, Pack, PackError, View};
use crate::params::project_onto_simplex;
use crate::settings::{Custom, Setting, as_number};
use crate::site::{Predictor, Site};

/// An algorithm whose server weighs clients by q, which grows where the loss is high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agnostic<A> {
    /// What clients do.
    pub inner: A,
    /// γ_q
    pub step: f64,
}

/// What the server remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct Server<S> {
    /// The inner algorithm's.
    pub inner: S,
    /// q, a weight for every client; it never leaves the server.
    pub q: Vec<f64>,
}

/// What travels back.
#[derive(Clone, Debug, PartialEq)]
pub struct Update<U> {
    /// The inner algorithm's.
    pub inner: U,
    /// ℓᵢ = fᵢ(w): the objective of the received w over all training examples, ℓ2 term
    /// included.
    pub loss: f64,
}

impl<S: Pack> Pack for Server<S> {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        self.inner.visit(see);
        see("q", View::F64(&self.q));
    }
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError> {
        Ok(Self {
            inner: S::unpack(arrays)?,
            q: arrays.f64("q")?,
        })
    }
}

impl<U: Pack> Pack for Update<U> {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        self.inner.visit(see);
        see("loss", View::F64(&[self.loss]));
    }
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError> {
        Ok(Self {
            inner: U::unpack(arrays)?,
            loss: arrays.f64_of("loss", 1)?[0],
        })
    }
}

/// γ_q, where the server weighs clients by q; `None`: it does not.
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

impl<A: Algorithm<Broadcast = ModelOnly>> Algorithm for Agnostic<A> {
    type Server = Server<A::Server>;
    type Broadcast = ModelOnly;
    type Memory = A::Memory;
    type Update = Update<A::Update>;
    /// All updates of the cohort: the weights are known only when the last has come.
    type Fold = Vec<(Sender, Self::Update)>;

    /// qᵢ⁰ = 1/n
    fn start(&self, w0: &[f32], clients: usize) -> Self::Server {
        Server {
            inner: self.inner.start(w0, clients),
            q: vec![1.0 / clients as f64; clients],
        }
    }

    fn broadcast(&self, server: &Self::Server) -> ModelOnly {
        self.inner.broadcast(&server.inner)
    }

    fn join(&self, w0: &[f32]) -> A::Memory {
        self.inner.join(w0)
    }

    fn local_round(
        &self,
        sent: &ModelOnly,
        local: &mut A::Memory,
        site: &mut Site<'_>,
    ) -> Self::Update {
        let loss = site.objective(&sent.model);
        Update {
            inner: self.inner.local_round(sent, local, site),
            loss,
        }
    }

    fn fold(&self, _: &Self::Server, fold: &mut Self::Fold, from: Sender, update: Self::Update) {
        fold.push((from, update));
    }

    /// q ← Π_Δ(q + γ_q (n/K) ℓ on U);   w ← Σ_U qᵢwᵢ / Σ_U qᵢ
    ///
    /// Where every client of U has qᵢ = 0, w stays.
    fn finish(&self, server: &mut Self::Server, fold: Self::Fold) {
        let Server { inner, q } = server;
        let share = q.len() as f64 / fold.len() as f64;
        for (from, update) in &fold {
            q[from.client] += self.step * share * update.loss;
        }
        project_onto_simplex(q);
        let mut weighted = A::Fold::default();
        for (Sender { client, .. }, update) in fold {
            let weight = q[client];
            let from = Sender { client, weight };
            self.inner.fold(inner, &mut weighted, from, update.inner);
        }
        self.inner.finish(inner, weighted);
    }

    fn shared<'a>(&self, server: &'a Self::Server) -> &'a [f32] {
        self.inner.shared(&server.inner)
    }

    fn aggregated_mut<'a>(&self, server: &'a mut Self::Server) -> Option<&'a mut [f32]> {
        self.inner.aggregated_mut(&mut server.inner)
    }

    fn localized<'a>(&self, local: &'a A::Memory, update: &'a Self::Update) -> &'a [f32] {
        self.inner.localized(local, &update.inner)
    }

    fn personal<'a>(
        &self,
        local: &'a A::Memory,
        update: &'a Self::Update,
        site: &mut Site<'_>,
    ) -> Predictor<'a> {
        self.inner.personal(local, &update.inner, site)
    }

    fn serves<'a>(
        &self,
        local: &'a A::Memory,
        sent: &'a ModelOnly,
        update: &'a Self::Update,
        site: &mut Site<'_>,
    ) -> Predictor<'a> {
        self.inner.serves(local, sent, &update.inner, site)
    }

    fn choosing(&self) -> Option<&Choosing> {
        self.inner.choosing()
    }

    fn in_pass(&self, pass: Pass) -> Option<Self> {
        let step = self.step;
        self.inner.in_pass(pass).map(|inner| Self { inner, step })
    }

    fn candidates<'a>(
        &self,
        local: &'a A::Memory,
        sent: &'a ModelOnly,
        update: &'a Self::Update,
    ) -> Vec<(Candidate, Predictor<'a>)> {
        self.inner.candidates(local, sent, &update.inner)
    }

    fn alone<'a>(&self, local: &'a A::Memory) -> Option<&'a [f32]> {
        self.inner.alone(local)
    }

    fn own<'a>(&self, local: &'a A::Memory, update: &'a Self::Update) -> &'a [f32] {
        self.inner.own(local, &update.inner)
    }

    fn properties(&self) -> Properties {
        Properties {
            weighs_clients: true,
            ..self.inner.properties()
        }
    }

    fn details(&self) -> String {
        format!("{}, agnostic", self.inner.details())
    }

    fn mixes_outputs(&self) -> bool {
        self.inner.mixes_outputs()
    }

    fn mixing(&self, local: &A::Memory) -> Option<f32> {
        self.inner.mixing(local)
    }
}
