//! The registry entry of `kind = "apfl"` and its settings.

use super::mixing_setting::{Alpha, MIXING};
use super::options::{self, Preset};
use super::{AgnosticApfl, AgnosticChosen, Apfl, Averaged, Chosen, Mixing, Options};
use crate::algorithm::agnostic::AGNOSTIC;
use crate::algorithm::{AlgorithmKind, AlgorithmSpec};
use crate::settings::{Kind, Number, Section, Setting, Settings, Words, at_least};

const OUTPUT: Setting<Words<bool>> = Setting::words(
    "output",
    "last",
    &[
        ("last", false, "the last models, as in the experiments"),
        ("averaged", true, "averages over all steps, with a fixed α"),
    ],
)
.help("the final models")
.source("Algorithm 1")
.seldom();

const AVERAGING_SHIFT: Setting<Number> =
    Setting::optional("averaging_shift", at_least(0.0).to(1e15))
        .symbol("a")
        .help("the shift of the weights (t+a)², unless a theory schedule sets it")
        .with("output = \"averaged\"")
        .source("Algorithm 1")
        .example("100")
        .seldom();

pub(in crate::algorithm) const KIND: AlgorithmKind = Kind {
    name: "apfl",
    about: "a shared model w, each client's own v, and their mixture αv + (1−α)w",
    settings: &[
        &MIXING,
        &options::PRESET,
        &options::MIX,
        &options::ORDER,
        &options::ALPHA_EVERY,
        &options::ALPHA_GRADIENT,
        &options::ALPHA_L2,
        &options::ALPHA_RATE,
        &options::ALPHA_ON,
        &options::V_RATE,
        &options::L2_ON_V,
        &options::V_DROPOUT,
        &options::PROJECTION,
        &OUTPUT,
        &AVERAGING_SHIFT,
        &AGNOSTIC,
    ],
    examples: &[
        "{ kind = 'apfl', mixing = { fixed = 0.25 } }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 } }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, preset = 'authors' }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, mix = 'logits', alpha_every = 'step' }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, order = 'sequential', alpha_rate = 0.05, \
         alpha_l2 = 0.02, alpha_gradient = 'blended' }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, alpha_on = 'aside' }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, projection = 0.1, v_rate = 0.2, l2_on_v = true }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, output = 'averaged', averaging_shift = 20 }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, output = 'averaged', averaging_shift = 0, \
         projection = 0.1 }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, agnostic = 0.05 }",
        "{ kind = 'apfl', mixing = { chosen = [0, 0.5, 1], folds = 2, prior = 5 } }",
        "{ kind = 'apfl', mixing = { chosen = [0.25, 1], folds = 1, refit = false }, \
         mix = 'logits', order = 'sequential', l2_on_v = true }",
        "{ kind = 'apfl', mixing = { chosen = [0, 1], folds = 2 }, agnostic = 0.05 }",
    ],
    value: |s| {
        let learned = Alpha::One(Mixing::Adaptive(0.0));
        s.filled(ApflSettings::new(learned, Options::PAPER)).into()
    },
};

/// APFL in any of its forms, as in a spec.
struct ApflSettings {
    alpha: Alpha,
    options: Options,
    averaged: bool,
    shift: Option<f64>,
    agnostic: Option<f64>,
}

impl Settings for ApflSettings {
    fn settings(&mut self, s: &mut Section<'_>) {
        self.alpha.settings(s);
        self.options.settings(s);
        s.field(&OUTPUT, &mut self.averaged);
        s.optional_field(&AVERAGING_SHIFT, &mut self.shift);
        s.field(&AGNOSTIC, &mut self.agnostic);
        if !self.averaged && self.shift.is_some() {
            s.problem(
                "averaging_shift",
                "applies to output = \"averaged\" only; remove it or set that output",
            );
        }
        if self.averaged && self.agnostic.is_some() {
            s.problem(
                "agnostic",
                "is incompatible with output = \"averaged\", whose theory weights all clients \
                 equally; remove one of them",
            );
        }
        if let Alpha::Chosen(_) = self.alpha {
            self.refuse_with_chosen(s);
        }
    }
}

impl ApflSettings {
    fn new(alpha: Alpha, options: Options) -> Self {
        Self {
            alpha,
            options,
            averaged: false,
            shift: None,
            agnostic: None,
        }
    }

    /// Reports settings that are incompatible with a chosen α.
    fn refuse_with_chosen(&self, s: &mut Section<'_>) {
        if self.options.preset != Preset::None {
            s.problem(
                "preset",
                "is incompatible with mixing = { chosen = … }, because it sets how α is learned; \
                                 remove it and set its other options individually",
            );
        } else {
            let differing = self.options.differences(&Options::PAPER);
            for key in differing
                .into_iter()
                .filter(|key| key.starts_with("alpha_"))
            {
                let problem = "applies to a learned α, but mixing = { chosen = … } learns none; \
                                               remove it";
                s.problem(key, problem);
            }
        }
        if self.averaged {
            s.problem(
                "output",
                "found \"averaged\", which needs one α for all; use mixing = { fixed = … } or \
                 output = \"last\"",
            );
        }
    }
}

impl From<ApflSettings> for AlgorithmSpec {
    fn from(settings: ApflSettings) -> Self {
        let ApflSettings { options, shift, .. } = settings;
        match (settings.alpha, settings.averaged, settings.agnostic) {
            (Alpha::Chosen(choosing), _, None) => Self::Chosen(Chosen::new(choosing, options)),
            (Alpha::Chosen(choosing), _, Some(step)) => Self::AgnosticChosen(AgnosticChosen {
                inner: Chosen::new(choosing, options),
                step,
            }),
            (Alpha::One(mixing), averaged, agnostic) => {
                let apfl = Apfl { mixing, options };
                match (averaged, agnostic) {
                    (true, _) => Self::Averaged(Averaged { apfl, shift }),
                    (false, Some(step)) => Self::AgnosticApfl(AgnosticApfl { inner: apfl, step }),
                    (false, None) => Self::Apfl(apfl),
                }
            }
        }
    }
}

impl Settings for Apfl {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.filled(ApflSettings::new(Alpha::One(self.mixing), self.options));
    }
}

impl Settings for Averaged {
    fn settings(&mut self, s: &mut Section<'_>) {
        let Apfl { mixing, options } = self.apfl;
        s.filled(ApflSettings {
            averaged: true,
            shift: self.shift,
            ..ApflSettings::new(Alpha::One(mixing), options)
        });
    }
}

impl Settings for AgnosticApfl {
    fn settings(&mut self, s: &mut Section<'_>) {
        let Apfl { mixing, options } = self.inner;
        s.filled(ApflSettings {
            agnostic: Some(self.step),
            ..ApflSettings::new(Alpha::One(mixing), options)
        });
    }
}

impl Settings for Chosen {
    fn settings(&mut self, s: &mut Section<'_>) {
        let choosing = self.choosing.clone();
        s.filled(ApflSettings::new(Alpha::Chosen(choosing), self.options));
    }
}

impl Settings for AgnosticChosen {
    fn settings(&mut self, s: &mut Section<'_>) {
        let choosing = self.inner.choosing.clone();
        s.filled(ApflSettings {
            agnostic: Some(self.step),
            ..ApflSettings::new(Alpha::Chosen(choosing), self.inner.options)
        });
    }
}
