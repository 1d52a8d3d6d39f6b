//! APFL with αᵢ chosen from a list A on rows that were held out: beyond the paper's rule.
//!
//! w's path depends on neither v nor α, so one run serves all of A: client i keeps vᵢᵃ for
//! every a ∈ A above 0, each moved exactly as `mixing = { fixed = a }` moves it on the same
//! batches. a = 0 is the localized model, a = 1 training alone. [`crate::choice`] has the rule.

use super::options::Mix;
use super::{Algorithm, Apfl, Options, Properties, Sender, momentum, variant};
use crate::algorithm::Agnostic;
use crate::choice::{Candidate, Choosing, Pass};
use crate::pack::{Arrays, ModelOnly, Pack, PackError, View};
use crate::params::{Mean, Params, mix};
use crate::site::{Predictor, Site};

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

/// What client i remembers: models, and no choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// vᵢ of the α it chose: in the last pass.
    pub own: Option<Params>,
    /// α, where there was nothing to choose: then all of it is what a fixed α remembers.
    pub alpha: Option<f32>,
    /// vᵢᵃ by a, ascending: of every a above 0, in the last pass of 1 where 1 ∈ A.
    pub grid: Vec<(f32, Params)>,
}

impl Memory {
    fn of(&self, alpha: f32) -> Option<&Params> {
        let (_, v) = self.grid.iter().find(|(a, _)| *a == alpha)?;
        Some(v)
    }
}

impl Pack for Memory {
    /// `v`, and `alpha` where there was nothing to choose; else `grid`, which says whether there
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
        let own = match *own == 1.0 {
            true => Some(arrays.f32("v")?),
            false => None,
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
    fn round(&self, w: &mut [f32], models: &mut [(f32, &mut Params)], site: &mut Site<'_>) {
        if self.options != Options::PAPER {
            return variant::rounds(&self.options, w, models, site);
        }
        if site.momentum() > 0.0 {
            return momentum::rounds(false, w, models, site);
        }
        for s in 0..site.steps() {
            let eta = site.rate(s);
            site.next_batch();
            match models {
                [(alpha, v)] => site.descend_both(*alpha, v, w, (eta * *alpha, eta)),
                _ => site.descend_all(models, w, eta),
            }
        }
    }

    /// v̄ᵢ = αv + (1−α)wᵢ, or that mixture of outputs.
    fn mixture<'a>(&self, alpha: f32, v: &'a [f32], w: &'a [f32]) -> Predictor<'a> {
        if self.options.mix == Mix::Logits {
            return Predictor::MixedOutputs { alpha, v, w };
        }
        let mut v_bar = vec![0.0; v.len()];
        mix(&mut v_bar, alpha, v, w);
        Predictor::Own(v_bar)
    }

    /// A model as it is, in the form that personal models have.
    fn plain<'a>(&self, model: &'a [f32]) -> Predictor<'a> {
        match self.options.mix {
            Mix::Parameters => Predictor::At(model),
            Mix::Logits => self.mixture(0.0, model, model),
        }
    }
}

impl Algorithm for Chosen {
    type Server = ModelOnly;
    type Broadcast = ModelOnly;
    type Memory = Memory;
    type Update = ModelOnly;
    type Fold = Mean;

    fn start(&self, w0: &[f32], _clients: usize) -> ModelOnly {
        ModelOnly { model: w0.to_vec() }
    }

    fn broadcast(&self, server: &ModelOnly) -> ModelOnly {
        server.clone()
    }

    /// vᵢᵃ = w⁰ for every a.
    fn join(&self, w0: &[f32]) -> Memory {
        if !self.last {
            let above = self.choosing.candidates.iter().filter(|a| **a > 0.0);
            let grid: Vec<_> = above.map(|alpha| (*alpha, w0.to_vec())).collect();
            return Memory {
                // A = {0}: nothing else would be there to remember.
                own: grid.is_empty().then(|| w0.to_vec()),
                alpha: None,
                grid,
            };
        }
        let alone = self.only().is_none() && self.choosing.has_alone();
        Memory {
            own: Some(w0.to_vec()),
            alpha: self.only(),
            grid: alone.then(|| (1.0, w0.to_vec())).into_iter().collect(),
        }
    }

    fn local_round(&self, sent: &ModelOnly, local: &mut Memory, site: &mut Site<'_>) -> ModelOnly {
        let mut w = sent.model.clone();
        let choice = site.choice().and_then(Candidate::mixing);
        if !self.last {
            let mut models: Vec<_> = local.grid.iter_mut().map(|(a, v)| (*a, v)).collect();
            self.round(&mut w, &mut models, site);
            // Delivery's copy: the client's own is the one it chose.
            if let Some(alpha) = choice {
                local.own = local.of(alpha).cloned().or(local.own.take());
            }
            return ModelOnly { model: w };
        }
        let alpha = choice.or(self.only()).unwrap_or(0.0);
        let twice = alpha == 1.0 && !local.grid.is_empty();
        // What mixes nothing never moves (but where ℓ2 acts on it, which a fixed α sees to),
        // and what would move as v¹ does is v¹.
        let moves = alpha > 0.0 || (self.only().is_some() && self.options != Options::PAPER);
        let own = local.own.iter_mut();
        let mut models: Vec<_> = own
            .filter(|_| moves && !twice)
            .map(|v| (alpha, v))
            .chain(local.grid.iter_mut().map(|(a, v)| (*a, v)))
            .collect();
        self.round(&mut w, &mut models, site);
        if let (true, Some(own)) = (twice, &mut local.own) {
            own.copy_from_slice(&local.grid[0].1);
        }
        ModelOnly { model: w }
    }

    fn fold(&self, _: &ModelOnly, fold: &mut Mean, from: Sender, update: ModelOnly) {
        fold.add(from.weight, &update.model);
    }

    fn finish(&self, server: &mut ModelOnly, fold: Mean) {
        if let Some(w) = fold.value() {
            server.model = w;
        }
    }

    fn shared<'a>(&self, server: &'a ModelOnly) -> &'a [f32] {
        &server.model
    }

    fn aggregated_mut<'a>(&self, server: &'a mut ModelOnly) -> Option<&'a mut [f32]> {
        Some(&mut server.model)
    }

    fn localized<'a>(&self, _: &'a Memory, update: &'a ModelOnly) -> &'a [f32] {
        &update.model
    }

    /// The model of the α that the client chose; the localized one before there is a choice.
    fn personal<'a>(
        &self,
        local: &'a Memory,
        update: &'a ModelOnly,
        site: &mut Site<'_>,
    ) -> Predictor<'a> {
        let choice = site.choice().and_then(Candidate::mixing).or(self.only());
        let alpha = choice.unwrap_or(0.0);
        match local.of(alpha).or(local.own.as_ref()) {
            Some(v) => self.mixture(alpha, v, &update.model),
            None => self.plain(&update.model),
        }
    }

    fn serves<'a>(
        &self,
        local: &'a Memory,
        sent: &'a ModelOnly,
        update: &'a ModelOnly,
        site: &mut Site<'_>,
    ) -> Predictor<'a> {
        match site.choice() {
            Some(Candidate::Shared) => self.plain(&sent.model),
            _ => self.personal(local, update, site),
        }
    }

    fn choosing(&self) -> Option<&Choosing> {
        Some(&self.choosing)
    }

    fn in_pass(&self, pass: Pass) -> Option<Self> {
        Some(Self {
            last: pass == Pass::Last,
            ..self.clone()
        })
    }

    fn candidates<'a>(
        &self,
        local: &'a Memory,
        sent: &'a ModelOnly,
        update: &'a ModelOnly,
    ) -> Vec<(Candidate, Predictor<'a>)> {
        if self.last {
            return Vec::new();
        }
        let model = |candidate| match candidate {
            Candidate::Shared => Predictor::At(&sent.model[..]),
            Candidate::Mixing(alpha) => match local.of(alpha) {
                Some(v) => self.mixture(alpha, v, &update.model),
                None => Predictor::At(&update.model),
            },
        };
        let list = self.choosing.list().into_iter();
        list.map(|candidate| (candidate, model(candidate)))
            .collect()
    }

    fn alone<'a>(&self, local: &'a Memory) -> Option<&'a [f32]> {
        let only = (self.only() == Some(1.0)).then_some(local.own.as_ref());
        local.of(1.0).or(only.flatten()).map(|v| &v[..])
    }

    fn own<'a>(&self, local: &'a Memory, update: &'a ModelOnly) -> &'a [f32] {
        local.own.as_ref().unwrap_or(&update.model)
    }

    fn properties(&self) -> Properties {
        let above = self.choosing.candidates.iter().filter(|a| **a > 0.0);
        let models = match self.last {
            true => 1 + u64::from(self.choosing.has_alone()),
            false => above.count() as u64,
        };
        Properties {
            gradients: 1 + models,
            momentum: self.options == Options::PAPER,
            ..Apfl::fixed(0.0).properties()
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

    fn mixes_outputs(&self) -> bool {
        self.options.mix == Mix::Logits
    }

    fn mixing(&self, local: &Memory) -> Option<f32> {
        local.alpha
    }
}
