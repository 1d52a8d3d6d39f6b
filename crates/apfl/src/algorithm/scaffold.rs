//! SCAFFOLD (Karimireddy et al., 2020): control variates against the clients' drift.

use super::{AfterRound, Algorithm, AlgorithmKind, AlgorithmSpec, Models, Sender};
use crate::local_client::{LocalClient, Sgd};
use crate::pack;
use crate::params::{Mean, Params, Sum, axpy};
use crate::settings::{Kind, Section, Setting, Settings, Words};

/// Update of a client's control cᵢ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Option II: cᵢ⁺ = cᵢ − c + (x − y)/Σ(step sizes used).
    Drift,
    /// Option I: cᵢ⁺ = ∇fᵢ(x), over all of the client's training examples.
    Fresh,
}

/// The localized model, which is scored, served and never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Localized {
    /// The model after the corrected steps, which is sent.
    Corrected,
    /// The received model after as many plain steps of SGD on the same batches. It is trained only
    /// for scores and finalization.
    Sgd,
}

/// SCAFFOLD's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaffold {
    /// The update of controls.
    pub control: Control,
    /// The localized model.
    pub localized: Localized,
}

/// A model and a control: the broadcast (x and c) and the update (y and cᵢ⁺ − cᵢ).
#[derive(Clone, Debug, PartialEq)]
pub struct Controlled {
    /// x or y.
    pub model: Params,
    /// c, the mean of all clients' controls, or the change of the client's.
    pub control: Params,
}

pack!(Controlled { model, control like model });

/// State of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// x and c.
    pub sent: Controlled,
    /// n: all clients, sampled or not.
    pub clients: u64,
}

pack!(Server { sent, clients });

/// State that a client keeps between rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientState {
    /// cᵢ
    pub control: Params,
}

pack!(ClientState { control });

const CONTROL: Setting<Words<Control>> = Setting::words(
    "control",
    "drift",
    &[
        ("drift", Control::Drift, "option II"),
        ("fresh", Control::Fresh, "option I"),
    ],
)
.symbol("cᵢ⁺")
.help("a client's new control");

const LOCALIZED: Setting<Words<Localized>> = Setting::words(
    "localized",
    "corrected",
    &[
        (
            "corrected",
            Localized::Corrected,
            "after the corrected steps",
        ),
        (
            "sgd",
            Localized::Sgd,
            "the received model after as many plain steps of SGD on the same batches, as the APFL \
             paper defines it",
        ),
    ],
)
.help("the localized model, which is also the personal one; the shared model is the same");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "scaffold",
    about: "control variates against the clients' drift (Karimireddy et al., 2020)",
    settings: &[&CONTROL, &LOCALIZED],
    examples: &[
        "{ kind = 'scaffold' }",
        "{ kind = 'scaffold', control = 'fresh' }",
        "{ kind = 'scaffold', localized = 'sgd' }",
    ],
    value: |s| {
        AlgorithmSpec::Scaffold(s.filled(Scaffold {
            control: Control::Drift,
            localized: Localized::Corrected,
        }))
    },
};

impl Settings for Scaffold {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&CONTROL, &mut self.control);
        s.field(&LOCALIZED, &mut self.localized);
    }
}

impl Algorithm for Scaffold {
    type Server = Server;
    type Broadcast = Controlled;
    type ClientState = ClientState;
    type Update = Controlled;
    type Fold = (Mean, Sum);

    fn start(&self, w0: &[f32], clients: usize) -> Server {
        Server {
            sent: Controlled {
                model: w0.to_vec(),
                control: vec![0.0; w0.len()],
            },
            clients: clients as u64,
        }
    }

    fn broadcast(&self, server: &Server) -> Controlled {
        server.sent.clone()
    }

    fn join(&self, w0: &[f32]) -> ClientState {
        ClientState {
            control: vec![0.0; w0.len()],
        }
    }

    /// ```text
    /// y ← x;   y ← y − η(∇fᵢ(y; ξ) + c − cᵢ)   τ times
    /// cᵢ⁺ = cᵢ − c + (x − y)/Σ(step sizes used)     option II
    /// cᵢ⁺ = ∇fᵢ(x)                                  option I
    /// ```
    fn local_round(
        &self,
        sent: &Controlled,
        local: &mut ClientState,
        client: &mut LocalClient<'_>,
    ) -> Controlled {
        let Controlled { model: x, control } = sent;
        let mut y = x.clone();
        let mut correction = client.borrow(); // c − cᵢ
        for (d, (c, c_i)) in correction
            .iter_mut()
            .zip(control.iter().zip(&local.control))
        {
            *d = c - c_i;
        }
        let mut distance = 0.0f64;
        for s in 0..client.steps() {
            let eta = client.rate(s);
            client.next_batch();
            client.descend(&mut y, eta);
            axpy(&mut y, -eta, &correction);
            distance += f64::from(eta);
        }
        let mut change = match self.control {
            Control::Fresh => {
                let mut fresh = vec![0.0; x.len()];
                client.full_gradient(x, &mut fresh);
                fresh
            }
            // If all rates are 0, cᵢ does not change.
            Control::Drift if distance == 0.0 => local.control.clone(),
            Control::Drift => {
                let drift = |(x, y): (&f32, &f32)| (f64::from(*x) - f64::from(*y)) / distance;
                let pairs = x.iter().zip(&y).map(drift).zip(&correction);
                pairs.map(|(d, c)| (d - f64::from(*c)) as f32).collect()
            }
        };
        // `change` is cᵢ⁺ before the loop and cᵢ⁺ − cᵢ after it.
        for (change, c_i) in change.iter_mut().zip(&mut local.control) {
            let next = *change;
            *change = next - *c_i;
            *c_i = next;
        }
        client.give_back(correction);
        Controlled {
            model: y,
            control: change,
        }
    }

    fn fold(
        &self,
        _: &Server,
        (model, control): &mut (Mean, Sum),
        from: Sender,
        update: Controlled,
    ) {
        model.add(from.weight, &update.model);
        control.add(&update.control);
    }

    /// x ← x + mean(y − x) = mean y;   c ← c + (1/n) Σ_{i∈U} (cᵢ⁺ − cᵢ), n being **all**
    /// clients, so that c stays the mean of all controls whichever clients take part.
    fn finish(&self, server: &mut Server, (model, control): (Mean, Sum)) {
        if let Some(x) = model.value() {
            server.sent.model = x;
        }
        for (c, change) in server.sent.control.iter_mut().zip(control.value()) {
            *c = (f64::from(*c) + change / server.clients as f64) as f32;
        }
    }

    fn shared<'a>(&self, server: &'a Server) -> &'a [f32] {
        &server.sent.model
    }

    fn shared_mut<'a>(&self, server: &'a mut Server) -> Option<&'a mut [f32]> {
        Some(&mut server.sent.model)
    }

    /// The localized model y, or with `localized = "sgd"`, for the round's batches ξ:
    ///
    /// ```text
    /// z ← x;   z ← z − η∇fᵢ(z; ξ)   τ times
    /// ```
    fn models<'a>(&self, after: AfterRound<'a, Self>, client: &mut LocalClient<'_>) -> Models<'a> {
        match self.localized {
            Localized::Corrected => Models::one(&after.update.model),
            Localized::Sgd => {
                let mut z = after.sent.model.clone();
                client.rewind();
                Sgd::round(&mut z, client);
                Models::own(z)
            }
        }
    }
}
