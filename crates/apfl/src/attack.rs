//! Clients that attack the shared model, so that aggregation rules can be compared.
//!
//! The attackers are ⌊share·n⌋ clients, the same in every round. They take part like any
//! other but send a forged model, or train on forged labels; their scores are not counted
//! anywhere. What else they send (SCAFFOLD's control, the agnostic loss) is honest.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::RngExt;
use rand_distr::StandardNormal;

use crate::data::partition::Assignment;
use crate::data::{Dataset, Schema, Shard, SourceFile};
use crate::error::{Error, Result};
use crate::rng::{Purpose, stream};
use crate::settings::{Kind, Number, Section, Setting, above_zero, at_least, registry};

/// What attackers do.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttackKind {
    /// Send their update reversed.
    SignFlip {
        /// How much longer it is.
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

/// One kind of attack: with blank settings, and what is shown.
pub type AttackOption = Kind<Option<AttackKind>>;

registry! {
    AttackKind, AttackOption:
    SignFlip = SIGN_FLIP,
    Gaussian = GAUSSIAN,
    LabelFlip = LABEL_FLIP,
}

/// Nobody attacks: what a spec has where it does not say.
const NONE: AttackOption = Kind {
    name: "none",
    about: "nobody attacks",
    settings: &[],
    examples: &["'none'"],
    value: None,
};

/// What `federation.attack.kind` may be.
pub const ATTACKS: &[AttackOption] = &[NONE, SIGN_FLIP, GAUSSIAN, LABEL_FLIP];

const SHARE: Setting<Number> =
    Setting::number("share", 0.2, at_least(0.0).below(1.0)).help("attackers among all clients");

const SCALE: Setting<Number> = Setting::number("scale", 1.0, above_zero(1e-30).to(1e6))
    .help("the length of the reversed update");

const DEVIATION: Setting<Number> = Setting::number("deviation", 1.0, above_zero(1e-30).to(1e6))
    .help("the standard deviation of the noise");

const SIGN_FLIP: AttackOption = Kind {
    name: "sign-flip",
    about: "some send their update reversed",
    settings: &[&SHARE, &SCALE],
    examples: &["{ kind = 'sign-flip', share = 0.3, scale = 4 }"],
    value: Some(AttackKind::SignFlip { scale: 0.0 }),
};

const GAUSSIAN: AttackOption = Kind {
    name: "gaussian",
    about: "some send noise",
    settings: &[&SHARE, &DEVIATION],
    examples: &["{ kind = 'gaussian', share = 0.3, deviation = 4 }"],
    value: Some(AttackKind::Gaussian { deviation: 0.0 }),
};

const LABEL_FLIP: AttackOption = Kind {
    name: "label-flip",
    about: "some train on labels y ↦ C − 1 − y",
    settings: &[&SHARE],
    examples: &["{ kind = 'label-flip', share = 0.3 }"],
    value: Some(AttackKind::LabelFlip),
};

/// `federation.attack`. A word alone, `attack = "sign-flip"`, takes the defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attack {
    /// What they do.
    pub kind: AttackKind,
    /// Attackers among all clients.
    pub share: f64,
}

impl Attack {
    /// Binds `[federation.attack]`; `None`: nobody attacks.
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

    /// Its kind, as a spec writes it.
    pub fn kind(&self) -> &'static str {
        self.kind.kind()
    }
}

/// The attackers of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attackers {
    attack: Option<Attack>,
    who: BTreeSet<usize>,
    seed: u64,
}

impl Attackers {
    /// ⌊share·n⌋ of `clients` clients, uniformly.
    pub fn draw(attack: Option<Attack>, clients: usize, seed: u64) -> Self {
        let share = attack.map_or(0.0, |attack| attack.share);
        let count = crate::aggregation::share_of(share, clients);
        let mut rng = stream(seed, Purpose::Attack, 0, 0);
        Self {
            attack,
            who: rand::seq::index::sample(&mut rng, clients, count)
                .into_iter()
                .collect(),
            seed,
        }
    }

    /// Whether a client is one of them.
    pub fn has(&self, client: usize) -> bool {
        self.who.contains(&client)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.who.len()
    }

    /// Whether a client sends another model than it trained.
    pub fn forges(&self, client: usize) -> bool {
        let forged = |attack: Attack| attack.kind != AttackKind::LabelFlip;
        self.has(client) && self.attack.is_some_and(forged)
    }

    /// What an attacker sends in a round in which it received w and trained wᵢ:
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

    /// The data as the clients have it: with labels flipped at the attackers, where that
    /// is the attack.
    pub fn poison(&self, honest: Arc<dyn Dataset>) -> Result<Arc<dyn Dataset>> {
        if !matches!(self.attack, Some(attack) if attack.kind == AttackKind::LabelFlip) {
            return Ok(honest);
        }
        if honest.schema().task.classes() == 0 {
            return Err(Error::Request(
                "federation.attack: found \"label-flip\", but the data is for regression and has \
                 no classes to flip; use sign-flip or gaussian"
                    .into(),
            ));
        }
        Ok(Arc::new(Poisoned {
            honest,
            attackers: self.clone(),
        }))
    }

    /// A sentence for the user; `None` where there is nothing to tell.
    pub fn note(&self, clients: usize) -> Option<String> {
        let attack = self.attack?;
        let (kind, count) = (attack.kind(), self.count());
        if count == 0 {
            let share = attack.share;
            let said = format!("attack: {share} of {clients} clients is nobody, so nobody attacks");
            return (share > 0.0).then_some(said);
        }
        Some(format!(
            "attack: {kind} by {count} of {clients} clients; all scores are over the others"
        ))
    }
}

/// Data with the attackers' training labels flipped.
struct Poisoned {
    honest: Arc<dyn Dataset>,
    attackers: Attackers,
}

impl Dataset for Poisoned {
    fn schema(&self) -> &Schema {
        self.honest.schema()
    }
    fn clients(&self) -> usize {
        self.honest.clients()
    }
    fn name(&self, client: usize) -> String {
        self.honest.name(client)
    }
    fn sizes(&self, client: usize) -> (usize, usize) {
        self.honest.sizes(client)
    }
    fn test_size(&self, client: usize) -> usize {
        self.honest.test_size(client)
    }
    fn shard(&self, client: usize) -> Result<Arc<Shard>> {
        let shard = self.honest.shard(client)?;
        if !self.attackers.has(client) {
            return Ok(shard);
        }
        let mut flipped = (*shard).clone();
        flipped.train.flip_classes(self.schema().task.classes());
        Ok(Arc::new(flipped))
    }
    fn is_generated(&self) -> bool {
        self.honest.is_generated()
    }
    fn files(&self) -> Vec<SourceFile> {
        self.honest.files()
    }
    fn assignment(&self) -> Option<&Assignment> {
        self.honest.assignment()
    }
    fn notes(&self) -> Vec<String> {
        self.honest.notes()
    }
}
