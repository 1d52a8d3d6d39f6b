//! MAPPER (Mansour et al., 2020): a mixture of the shared and a local model per client, whose
//! weight is chosen on held-out examples.

use super::{AfterRound, AlgorithmKind, AlgorithmSpec, Models, OneModel, Properties};
use crate::local_client::{BatchSource, LocalClient, Predictor};
use crate::pack;
use crate::params::{Params, mix};
use crate::settings::{
    Custom, Kind, Number, Section, Setting, SettingField, Settings, above_zero, as_number,
};

/// MAPPER's settings. *Shared* is w, *localized* wᵢ after its step, *personal* λᵢvᵢ + (1−λᵢ)wᵢ.
///
/// With one λ there is no choice, and nothing is held out.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapper {
    /// The λs, ascending.
    pub grid: Vec<f32>,
    /// The share of held-out training examples.
    pub held_out: f64,
}

/// State that a client keeps between rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientState {
    /// vᵢ, the local model.
    pub v: Params,
    /// λᵢ, its share in the mixture.
    pub lambda: f32,
}

pack!(ClientState { v, lambda });

const GRID: Setting<Custom<Vec<f64>>> = Setting::custom(
    "grid",
    Custom {
        name: "list of numbers",
        default: || Some(vec![0.25, 0.5, 0.75]),
        allowed: "a list of 1 to 100 different numbers from 0 to 1, ascending, such as \
                  [0.25, 0.5, 0.75]",
        parse: |found| {
            let grid: Vec<f64> = found
                .as_array()?
                .iter()
                .map(as_number)
                .collect::<Option<_>>()?;
            let ascending = grid.windows(2).all(|pair| pair[0] < pair[1]);
            let shares = grid.iter().all(|lambda| (0.0..=1.0).contains(lambda));
            (ascending && shares && (1..=100).contains(&grid.len())).then_some(grid)
        },
        write: |grid| grid.clone().into(),
    },
)
.symbol("λ")
.help("the shares that are tried for λv + (1−λ)w");

const HELD_OUT: Setting<Number> = Setting::number("aside", 0.2, above_zero(1e-6).below(1.0))
    .help("the share of training examples that the choice is made on");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "mapper",
    about: "mixtures whose weight is chosen on held-out examples (Mansour et al., 2020)",
    settings: &[&GRID, &HELD_OUT],
    examples: &[
        "{ kind = 'mapper' }",
        "{ kind = 'mapper', grid = [0.5], aside = 0.1 }",
    ],
    value: |s| {
        let grid = Vec::new();
        AlgorithmSpec::Mapper(s.filled(Mapper {
            grid,
            held_out: 0.0,
        }))
    },
};

impl Settings for Mapper {
    fn settings(&mut self, s: &mut Section<'_>) {
        let mut grid: Vec<f64> = self.grid.iter().map(SettingField::to_setting).collect();
        s.field(&GRID, &mut grid);
        self.grid = grid.into_iter().map(|lambda| lambda as f32).collect();
        s.field(&HELD_OUT, &mut self.held_out);
    }
}

impl OneModel for Mapper {
    type ClientState = ClientState;

    fn join(&self, w0: &[f32]) -> ClientState {
        ClientState {
            v: w0.to_vec(),
            lambda: self.grid[0],
        }
    }

    /// Holds out some examples, the same in every round. For every λ of the grid, starting from the
    /// stored vᵢ and the received w, on batches of the other examples:
    ///
    /// ```text
    /// v_λ ← v_λ − ηλ∇fᵢ(λv_λ + (1−λ)w; ξ)                    τ times
    /// λᵢ = argmin_λ held-out loss of λv_λ + (1−λ)w;          vᵢ ← v_λᵢ
    /// wᵢ = w − η(1−λᵢ)∇fᵢ(λᵢvᵢ + (1−λᵢ)w; ξ)                 one step
    /// ```
    ///
    /// λ = 0 does not move v and samples no batch. Of equal losses the smaller λ is taken.
    fn local_round(
        &self,
        sent: &[f32],
        local: &mut ClientState,
        client: &mut LocalClient<'_>,
    ) -> Params {
        let mut w = sent.to_vec();
        let source = match self.grid.len() {
            1 => BatchSource::Whole,
            _ => {
                let m = client.examples();
                client.hold_out(((self.held_out * m as f64).ceil() as usize).min(m.max(2) - 1));
                BatchSource::Rest
            }
        };
        let mut point = client.borrow();
        let mut best: Option<(f64, f32, Params)> = None;
        for &lambda in &self.grid {
            let mut v = client.borrow();
            v.copy_from_slice(&local.v);
            let steps = if lambda > 0.0 { client.steps() } else { 0 };
            for s in 0..steps {
                let rate = client.rate(s) * lambda;
                client.next_batch_of(source);
                let loss = client.on_batch(|model, batch, ws| {
                    model.descend_mixed(lambda, &mut v, &w, rate, batch, ws)
                });
                client.watch(loss);
            }
            let loss = match source {
                BatchSource::Whole => 0.0,
                _ => {
                    mix(&mut point, lambda, &v, &w);
                    client.held_out_loss(&point)
                }
            };
            match &best {
                Some((smallest, ..)) if *smallest <= loss => client.give_back(v),
                _ => {
                    if let Some((.., worse)) = best.replace((loss, lambda, v)) {
                        client.give_back(worse);
                    }
                }
            }
        }
        let (_, lambda, v) = best.expect("a non-empty grid");
        local.v.copy_from_slice(&v);
        local.lambda = lambda;
        if lambda < 1.0 {
            mix(&mut point, lambda, &local.v, &w);
            let rate = client.rate(client.steps() - 1) * (1.0 - lambda);
            client.next_batch_of(source);
            client.descend_at(&point, &mut w, rate);
        }
        client.give_back(v);
        client.give_back(point);
        w
    }

    /// The personal model is λᵢvᵢ + (1−λᵢ)wᵢ.
    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut LocalClient<'_>) -> Models<'a> {
        let (w, ClientState { v, lambda }) = (&after.update.model, after.local);
        let mut mixed = vec![0.0; v.len()];
        mix(&mut mixed, *lambda, v, w);
        Models {
            personal: Predictor::Own(mixed),
            ..Models::two(w, v)
        }
    }

    fn mixing(&self, local: &ClientState) -> Option<f32> {
        Some(local.lambda)
    }

    fn properties(&self) -> Properties {
        Properties {
            models: ["w", "wᵢ after its one step", "λᵢvᵢ + (1−λᵢ)wᵢ"],
            gradients: self.grid.len() as u64,
            ..Properties::default()
        }
    }
}
