//! APFL with αᵢ chosen from a list A on rows that were held out: beyond the paper's rule.
//!
//! w's path depends on neither v nor α, so one run serves all of A: client i keeps vᵢᵃ for
//! every a ∈ A above 0, each moved exactly as `mixing = { fixed = a }` moves it on the same
//! batches. a = 0 is the localized model, a = 1 training alone. [`crate::run::choice`] has the rule.

use super::options::Mix;
use super::{Options, mixture, momentum, variant};
use crate::algorithm::extensions::{Extensions, ModelChoice};
use crate::algorithm::{AfterRound, Agnostic, Models, OneModel, Properties};
use crate::choice::{Candidate, Choosing, Pass};
use crate::local_client::{LocalClient, Predictor};
use crate::pack::{Arrays, Pack, PackError, View};
use crate::params::Params;

/// APFL with αᵢ chosen from a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// From what, and how.
    pub choosing: Choosing,
    /// Departures from the paper; what is about learning α does not apply.
    pub options: Options,
    /// Whether this is the last pass, in which every client has its choice already.
    last: bool,
}

/// The same for the worst mixture of clients.
pub type AgnosticChosen = Agnostic<Chosen>;

/// State that client i keeps between rounds: models, and no choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientState {
    /// vᵢ of the α it chose: in the last pass.
    pub own: Option<Params>,
    /// α, if A has one value only. The state then equals that of a fixed α.
    pub alpha: Option<f32>,
    /// vᵢᵃ by a, ascending: of every a above 0, in the last pass of 1 where 1 ∈ A.
    pub grid: Vec<(f32, Params)>,
}

impl ClientState {
    fn of(&self, alpha: f32) -> Option<&Params> {
        let (_, v) = self.grid.iter().find(|(a, _)| *a == alpha)?;
        Some(v)
    }
}

impl Pack for ClientState {
    /// `v`, and `alpha` if A has one value only; else `grid`, which says whether there
    /// is a `v` and which α have a model, and their models `v0.25` ….
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        if let Some(own) = &self.own {
            see("v", View::F32(own));
        }
        match self.alpha {
            Some(alpha) => see("alpha", View::F32(&[alpha])),
            None => {
                let own = f32::from(u8::from(self.own.is_some()));
                let alphas = self.grid.iter().map(|(alpha, _)| *alpha);
                let list: Vec<f32> = std::iter::once(own).chain(alphas).collect();
                see("grid", View::F32(&list));
            }
        }
        for (alpha, v) in &self.grid {
            see(&format!("v{alpha}"), View::F32(v));
        }
    }
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError> {
        if arrays.0.contains_key("alpha") {
            return Ok(Self {
                own: Some(arrays.f32("v")?),
                alpha: Some(arrays.scalar("alpha")?),
                grid: Vec::new(),
            });
        }
        let list = arrays.f32("grid")?;
        let (own, alphas) = list.split_first().ok_or_else(|| PackError {
            name: "grid".into(),
            problem: "is empty".into(),
        })?;
        let own = if *own == 1.0 {
            Some(arrays.f32("v")?)
        } else {
            None
        };
        let of = |alpha: &f32| Ok((*alpha, arrays.f32(&format!("v{alpha}"))?));
        Ok(Self {
            own,
            alpha: None,
            grid: alphas.iter().map(of).collect::<Result<_, PackError>>()?,
        })
    }
}

impl Chosen {
    /// A choice, with options.
    pub fn new(choosing: Choosing, options: Options) -> Self {
        Self {
            choosing,
            options,
            last: false,
        }
    }

    /// The only α there is, if so.
    fn only(&self) -> Option<f32> {
        match self.choosing.candidates[..] {
            [alpha] => Some(alpha),
            _ => None,
        }
    }

    /// τ steps of w and of several models, each with its α:
    ///
    /// ```text
    /// wᵢ ← w;   τ times, every right-hand side at the values before the step:
    ///   vᵢᵃ ← vᵢᵃ − η a ∇fᵢ(a·vᵢᵃ + (1−a)wᵢ; ξ)     for every a
    ///   wᵢ ← wᵢ − η ∇fᵢ(wᵢ; ξ)
    /// ```
    fn round(
        &self,
        w: &mut [f32],
        models: &mut [(f32, &mut Params)],
        client: &mut LocalClient<'_>,
    ) {
        if self.options != Options::PAPER {
            return variant::rounds(&self.options, w, models, client);
        }
        if client.momentum() > 0.0 {
            return momentum::rounds(false, w, models, client);
        }
        for s in 0..client.steps() {
            let eta = client.rate(s);
            client.next_batch();
            match models {
                [(alpha, v)] => client.descend_both(*alpha, v, w, (eta * *alpha, eta)),
                _ => client.descend_all(models, w, eta),
            }
        }
    }

    /// A model as it is, in the form that personal models have.
    fn plain<'a>(&self, model: &'a [f32]) -> Predictor<'a> {
        match self.options.mix {
            Mix::Parameters => Predictor::At(model),
            Mix::Logits => mixture(Mix::Logits, 0.0, model, model),
        }
    }

    fn details(&self) -> String {
        let names: Vec<String> = self.choosing.list().iter().map(|c| c.name()).collect();
        let Choosing { folds, pass, .. } = self.choosing;
        match pass {
            Some(pass) => format!(" (pass {pass} of {folds}: {})", names.join(", ")),
            None => format!(" (α chosen from {})", names.join(", ")),
        }
    }
}

impl OneModel for Chosen {
    type ClientState = ClientState;

    /// vᵢᵃ = w⁰ for every a.
    fn join(&self, w0: &[f32]) -> ClientState {
        if !self.last {
            let above = self.choosing.candidates.iter().filter(|a| **a > 0.0);
            let grid: Vec<_> = above.map(|alpha| (*alpha, w0.to_vec())).collect();
            return ClientState {
                // A = {0}: there is no other model to keep.
                own: grid.is_empty().then(|| w0.to_vec()),
                alpha: None,
                grid,
            };
        }
        let alone = self.only().is_none() && self.choosing.has_alone();
        ClientState {
            own: Some(w0.to_vec()),
            alpha: self.only(),
            grid: alone.then(|| (1.0, w0.to_vec())).into_iter().collect(),
        }
    }

    fn local_round(
        &self,
        sent: &[f32],
        local: &mut ClientState,
        client: &mut LocalClient<'_>,
    ) -> Params {
        let mut w = sent.to_vec();
        let choice = client.choice().and_then(Candidate::mixing);
        if !self.last {
            let mut models: Vec<_> = local.grid.iter_mut().map(|(a, v)| (*a, v)).collect();
            self.round(&mut w, &mut models, client);
            // The copy made for finalization: its own model is the one that the client chose.
            if let Some(alpha) = choice {
                local.own = local.of(alpha).cloned().or(local.own.take());
            }
            return w;
        }
        let alpha = choice.or(self.only()).unwrap_or(0.0);
        let twice = alpha == 1.0 && !local.grid.is_empty();
        // At α = 0, v does not move unless ℓ2 acts on it. At α = 1, v equals v¹.
        let moves = alpha > 0.0 || (self.only().is_some() && self.options != Options::PAPER);
        let own = local.own.iter_mut();
        let mut models: Vec<_> = own
            .filter(|_| moves && !twice)
            .map(|v| (alpha, v))
            .chain(local.grid.iter_mut().map(|(a, v)| (*a, v)))
            .collect();
        self.round(&mut w, &mut models, client);
        if let (true, Some(own)) = (twice, &mut local.own) {
            own.copy_from_slice(&local.grid[0].1);
        }
        w
    }

    /// The personal model is that of the α that the client chose; the localized one before there
    /// is a choice.
    fn models<'a>(&self, after: AfterRound<'a, Self>, client: &mut LocalClient<'_>) -> Models<'a> {
        let (w, local) = (&after.update.model, after.local);
        let choice = client.choice();
        let alpha = choice.and_then(Candidate::mixing).or(self.only());
        let alpha = alpha.unwrap_or(0.0);
        let personal = match (choice, local.of(alpha).or(local.own.as_ref())) {
            (Some(Candidate::Shared), _) => self.plain(&after.sent.model),
            (_, Some(v)) => mixture(self.options.mix, alpha, v, w),
            (_, None) => self.plain(w),
        };
        let only = (self.only() == Some(1.0)).then_some(local.own.as_ref());
        Models {
            localized: w.into(),
            personal,
            local: local.own.as_deref(),
            alone: local.of(1.0).or(only.flatten()).map(|v| &v[..]),
        }
    }

    fn mixing(&self, local: &ClientState) -> Option<f32> {
        local.alpha
    }

    fn properties(&self) -> Properties {
        let above = self.choosing.candidates.iter().filter(|a| **a > 0.0);
        let models = if self.last {
            1 + u64::from(self.choosing.has_alone())
        } else {
            above.count() as u64
        };
        Properties {
            details: self.details(),
            gradients: 1 + models,
            ..self.options.properties()
        }
    }

    fn extensions(&self) -> Extensions<'_, Self> {
        Extensions {
            choice: Some(self),
            ..Extensions::default()
        }
    }
}

impl ModelChoice for Chosen {
    fn choosing(&self) -> &Choosing {
        &self.choosing
    }

    fn in_pass(&self, pass: Pass) -> Self {
        Self {
            last: pass == Pass::Last,
            ..self.clone()
        }
    }

    fn candidates<'a>(&self, after: AfterRound<'a, Self>) -> Vec<(Candidate, Predictor<'a>)> {
        if self.last {
            return Vec::new();
        }
        let w = &after.update.model;
        let model = |candidate| match candidate {
            Candidate::Shared => Predictor::At(&after.sent.model[..]),
            Candidate::Mixing(alpha) => match after.local.of(alpha) {
                Some(v) => mixture(self.options.mix, alpha, v, w),
                None => Predictor::At(w),
            },
        };
        let list = self.choosing.list().into_iter();
        list.map(|candidate| (candidate, model(candidate)))
            .collect()
    }
}
