//! Simulated attackers, to compare aggregators.
//!
//! ⌊share·n⌋ clients attack, the same in every round. They send a forged model or train on
//! flipped labels. Their scores are not counted. The other arrays of their updates (SCAFFOLD's
//! control, the agnostic loss) are honest.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::RngExt;
use rand_distr::StandardNormal;

use crate::data::partition::Assignment;
use crate::data::{Dataset, Schema, Shard, SourceFile};
use crate::error::{Error, Result};
use crate::rng::{Purpose, stream};
use crate::settings::{Kind, Number, Section, Setting, above_zero, at_least, registry};

/// Kind of attack.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttackKind {
    /// Send their update reversed.
    SignFlip {
        /// The factor by which its length changes.
        scale: f64,
    },
    /// Send noise.
    Gaussian {
        /// Its standard deviation.
        deviation: f64,
    },
    /// Train on labels y ↦ C − 1 − y.
    LabelFlip,
}

/// Registry entry of an attack.
#[doc(hidden)]
pub type AttackOption = Kind<Option<AttackKind>>;

registry! {
    AttackKind, AttackOption:
    SignFlip = SIGN_FLIP,
    Gaussian = GAUSSIAN,
    LabelFlip = LABEL_FLIP,
}

/// No attack, the default.
const NONE: AttackOption = Kind {
    name: "none",
    about: "no attack",
    settings: &[],
    examples: &["'none'"],
    value: None,
};

/// The values of `federation.attack.kind`.
#[doc(hidden)]
pub const ATTACKS: &[AttackOption] = &[NONE, SIGN_FLIP, GAUSSIAN, LABEL_FLIP];

const SHARE: Setting<Number> =
    Setting::number("share", 0.2, at_least(0.0).below(1.0)).help("attackers among all clients");

const SCALE: Setting<Number> = Setting::number("scale", 1.0, above_zero(1e-30).to(1e6))
    .help("the length of the reversed update");

const DEVIATION: Setting<Number> = Setting::number("deviation", 1.0, above_zero(1e-30).to(1e6))
    .help("the standard deviation of the noise");

const SIGN_FLIP: AttackOption = Kind {
    name: "sign-flip",
    about: "attackers send their update reversed",
    settings: &[&SHARE, &SCALE],
    examples: &["{ kind = 'sign-flip', share = 0.3, scale = 4 }"],
    value: Some(AttackKind::SignFlip { scale: 0.0 }),
};

const GAUSSIAN: AttackOption = Kind {
    name: "gaussian",
    about: "attackers send noise",
    settings: &[&SHARE, &DEVIATION],
    examples: &["{ kind = 'gaussian', share = 0.3, deviation = 4 }"],
    value: Some(AttackKind::Gaussian { deviation: 0.0 }),
};

const LABEL_FLIP: AttackOption = Kind {
    name: "label-flip",
    about: "attackers train on labels y ↦ C − 1 − y",
    settings: &[&SHARE],
    examples: &["{ kind = 'label-flip', share = 0.3 }"],
    value: Some(AttackKind::LabelFlip),
};

/// Settings of `federation.attack`. A plain name, `attack = "sign-flip"`, takes the defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attack {
    /// The attack.
    pub kind: AttackKind,
    /// The share of attackers among all clients.
    pub share: f64,
}

impl Attack {
    /// Binds `[federation.attack]`; `None`: no attack.
    pub fn settings(attack: &mut Option<Self>, s: &mut Section<'_>) {
        let mut kind = attack.map(|attack| attack.kind);
        let name = attack.map_or(NONE.name, |attack| attack.kind());
        s.kind("kind", ATTACKS, name, &mut kind);
        let mut share = attack.map_or(0.0, |attack| attack.share);
        *attack = kind.map(|mut kind| {
            match &mut kind {
                AttackKind::SignFlip { scale } => s.field(&SCALE, scale),
                AttackKind::Gaussian { deviation } => s.field(&DEVIATION, deviation),
                AttackKind::LabelFlip => {}
            }
            s.field(&SHARE, &mut share);
            Self { kind, share }
        });
    }

    /// Returns the kind as written in a spec.
    pub fn kind(&self) -> &'static str {
        self.kind.kind()
    }
}

/// The attackers of a run.
#[derive(Clone, Debug, Default, PartialEq)]
#[doc(hidden)]
pub struct Attackers {
    attack: Option<Attack>,
    clients: BTreeSet<usize>,
    seed: u64,
}

impl Attackers {
    /// Samples ⌊share·n⌋ of `clients` clients uniformly.
    pub fn sample(attack: Option<Attack>, clients: usize, seed: u64) -> Self {
        let share = attack.map_or(0.0, |attack| attack.share);
        let count = crate::aggregation::share_of(share, clients);
        let mut rng = stream(seed, Purpose::Attack, 0, 0);
        Self {
            attack,
            clients: rand::seq::index::sample(&mut rng, clients, count)
                .into_iter()
                .collect(),
            seed,
        }
    }

    /// Returns whether a client is an attacker.
    pub fn has(&self, client: usize) -> bool {
        self.clients.contains(&client)
    }

    /// Returns the number of attackers.
    pub fn count(&self) -> usize {
        self.clients.len()
    }

    /// Returns whether a client sends a forged model.
    pub fn forges(&self, client: usize) -> bool {
        let forged = |attack: Attack| attack.kind != AttackKind::LabelFlip;
        self.has(client) && self.attack.is_some_and(forged)
    }

    /// Replaces the model wᵢ that an attacker trained from w by the one that it sends:
    ///
    /// ```text
    /// sign-flip   w − scale·(wᵢ − w)
    /// gaussian    w + deviation·N(0, I)           stream(seed, Attack, round, client)
    /// ```
    pub fn forge(&self, client: usize, round: u64, w: &[f32], model: &mut [f32]) {
        match self.attack.map(|attack| attack.kind) {
            Some(AttackKind::SignFlip { scale }) => {
                for (sent, w) in model.iter_mut().zip(w) {
                    let w = f64::from(*w);
                    *sent = (w - scale * (f64::from(*sent) - w)) as f32;
                }
            }
            Some(AttackKind::Gaussian { deviation }) => {
                let mut rng = stream(self.seed, Purpose::Attack, round, client as u64);
                for (sent, w) in model.iter_mut().zip(w) {
                    let noise: f64 = rng.sample(StandardNormal);
                    *sent = (f64::from(*w) + deviation * noise) as f32;
                }
            }
            Some(AttackKind::LabelFlip) | None => {}
        }
    }

    /// Wraps the data so that the attackers' training labels are flipped, if that is the attack.
    ///
    /// # Errors
    /// If labels are to be flipped and the data has no classes.
    pub(crate) fn poison(&self, dataset: Arc<dyn Dataset>) -> Result<Arc<dyn Dataset>> {
        if !matches!(self.attack, Some(attack) if attack.kind == AttackKind::LabelFlip) {
            return Ok(dataset);
        }
        if dataset.schema().task.classes() == 0 {
            return Err(Error::Request(
                "federation.attack: found \"label-flip\", but the data is for regression and has \
                 no classes to flip; use sign-flip or gaussian"
                    .into(),
            ));
        }
        Ok(Arc::new(Poisoned {
            dataset,
            attackers: self.clone(),
        }))
    }

    /// Returns a message about the attackers; `None` without an attack.
    pub fn note(&self, clients: usize) -> Option<String> {
        let attack = self.attack?;
        let (kind, count) = (attack.kind(), self.count());
        if count == 0 {
            let share = attack.share;
            let message =
                format!("attack: {share} of {clients} clients is less than one, so nobody attacks");
            return (share > 0.0).then_some(message);
        }
        Some(format!(
            "attack: {kind} by {count} of {clients} clients; scores exclude them"
        ))
    }
}

/// A data set with the attackers' training labels flipped.
struct Poisoned {
    dataset: Arc<dyn Dataset>,
    attackers: Attackers,
}

impl Dataset for Poisoned {
    fn schema(&self) -> &Schema {
        self.dataset.schema()
    }
    fn clients(&self) -> usize {
        self.dataset.clients()
    }
    fn name(&self, client: usize) -> String {
        self.dataset.name(client)
    }
    fn sizes(&self, client: usize) -> (usize, usize) {
        self.dataset.sizes(client)
    }
    fn test_size(&self, client: usize) -> usize {
        self.dataset.test_size(client)
    }
    fn shard(&self, client: usize) -> Result<Arc<Shard>> {
        let shard = self.dataset.shard(client)?;
        if !self.attackers.has(client) {
            return Ok(shard);
        }
        let mut flipped = (*shard).clone();
        flipped.train.flip_classes(self.schema().task.classes());
        Ok(Arc::new(flipped))
    }
    fn is_generated(&self) -> bool {
        self.dataset.is_generated()
    }
    fn files(&self) -> Vec<SourceFile> {
        self.dataset.files()
    }
    fn assignment(&self) -> Option<&Assignment> {
        self.dataset.assignment()
    }
    fn notes(&self) -> Vec<String> {
        self.dataset.notes()
    }
}
