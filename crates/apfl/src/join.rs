//! New clients, which were not in training: section 7 of the paper, "new participant nodes".
//!
//! A new client gets the trained shared model ŵ, starts v from it and trains on its own data. For
//! comparison, ŵ is fine-tuned at the same rate on the same batches, as FedAvg would do.

use serde::Serialize;

use crate::algorithm::apfl::Mixing;
use crate::choice::{Candidate, Choosing, HeldOut};
use crate::data::Shard;
use crate::data::held_out::HeldOutRows;
use crate::error::{Error, Result};
use crate::local_client::{LocalClient, LocalTraining, LocalWork, Predictor, Scratch};
use crate::metrics::{Scores, Tallies};
use crate::model::Model;
use crate::params::{Params, axpy, dot_difference, mix};
use crate::rng::{Purpose, stream};
use crate::run::choice::{Choice, choose};

/// The settings of a new client's training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JoinSettings {
    /// Fixed α, or learned α (one step at the start of each epoch).
    pub mixing: Mixing,
    /// Passes over its training examples.
    pub epochs: u64,
    /// Whether w takes local steps too; otherwise it stays ŵ.
    pub running: bool,
    /// Batch size, rate and schedule of the run. The schedule restarts; an epoch counts as a
    /// round.
    pub local_training: LocalTraining,
    /// The run's seed.
    pub seed: u64,
    /// The index of the new client, which decides the order of its batches.
    pub number: u64,
    /// The standard deviation of a standardized label, in its own units; else 1.
    pub unit: f64,
}

/// The scores of a new client's models after an epoch; epoch 0 is before any step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Epoch {
    /// The epoch.
    pub epoch: u64,
    /// ŵ
    pub shared: Scores,
    /// SGD from ŵ.
    pub fine_tuned: Scores,
    /// v̄ = αv + (1−α)w
    pub personal: Scores,
    /// α
    pub mixing: f64,
}

/// The result of joining.
#[derive(Clone, Debug, PartialEq)]
pub struct Joined {
    /// Scores, epoch by epoch.
    pub epochs: Vec<Epoch>,
    /// v̄
    pub personal: Params,
    /// v
    pub local: Params,
    /// SGD from ŵ.
    pub fine_tuned: Params,
}

/// Personalizes ŵ = `shared` for one client. Every right-hand side at the values before
/// the step:
///
/// ```text
/// v⁰ = ŵ                          u⁰ = ŵ
/// u ← u − η∇f(u; ξ)               fine-tuning; w = u if running, else w = ŵ
/// v ← v − ηα∇f(v̄; ξ)              v̄ = αv + (1−α)w
/// α ← clip₀₁(α − η⟨v − w, ∇f(v̄; ξ)⟩)   adaptive: at an epoch's first step
/// ```
///
/// With w frozen v̄ follows SGD with step α²η from ŵ.
pub fn join(
    model: &dyn Model,
    shared: &[f32],
    shard: &Shard,
    joining: &JoinSettings,
    regression: bool,
) -> Result<Joined> {
    let mut scratch = Scratch::default();
    let mut score = |at: &[f32], epoch: u64| {
        let predictor = Predictor::At(at);
        let mut tallies = Tallies {
            train: scratch.tally(model, &predictor, &shard.train),
            valid: scratch.tally(model, &predictor, &shard.valid),
        };
        tallies.train.squared_error *= joining.unit * joining.unit;
        tallies.valid.squared_error *= joining.unit * joining.unit;
        let losses = [tallies.train.loss, tallies.valid.loss];
        match losses.into_iter().find(|loss| !loss.is_finite()) {
            None => Ok(tallies.scores(regression)),
            Some(loss) => Err(non_finite(shard, epoch, loss)),
        }
    };
    let (Mixing::Fixed(alpha) | Mixing::Adaptive(alpha)) = joining.mixing;
    let first = score(shared, 0)?;
    let mut epochs = vec![Epoch {
        epoch: 0,
        shared: first,
        fine_tuned: first,
        personal: first,
        mixing: f64::from(alpha),
    }];
    let trained = train(model, shared, shard, joining, &mut |epoch, now| {
        epochs.push(Epoch {
            epoch,
            shared: first,
            fine_tuned: score(&now.fine_tuned, epoch)?,
            personal: score(&now.personal, epoch)?,
            mixing: f64::from(now.alpha),
        });
        Ok(())
    })?;
    Ok(Joined {
        epochs,
        personal: trained.personal,
        local: trained.local,
        fine_tuned: trained.fine_tuned,
    })
}

/// A new client's models after some epochs.
struct NewClient {
    alpha: f32,
    personal: Params,
    local: Params,
    fine_tuned: Params,
}

/// Takes the steps of [`join`]; `each` receives the models after every epoch.
fn train(
    model: &dyn Model,
    shared: &[f32],
    shard: &Shard,
    joining: &JoinSettings,
    each: &mut dyn FnMut(u64, &NewClient) -> Result<()>,
) -> Result<NewClient> {
    let local_training = LocalTraining {
        work: LocalWork::Epochs(1),
        ..joining.local_training
    };
    let (Mixing::Fixed(alpha) | Mixing::Adaptive(alpha)) = joining.mixing;
    let adaptive = matches!(joining.mixing, Mixing::Adaptive(_));
    let mut now = NewClient {
        alpha,
        personal: shared.to_vec(),
        local: shared.to_vec(),
        fine_tuned: shared.to_vec(),
    };
    let mut g = shared.to_vec();
    let mut scratch = Scratch::default();
    for epoch in 1..=joining.epochs {
        let rng = stream(joining.seed, Purpose::Join, epoch, joining.number);
        let masks = stream(joining.seed, Purpose::Dropout, epoch, joining.number);
        let local_client = LocalClient::new(
            model,
            &shard.train,
            local_training,
            epoch,
            rng,
            &mut scratch,
        );
        let mut local_client = local_client.with_dropout(masks);
        let NewClient {
            alpha,
            personal: v_bar,
            local: v,
            fine_tuned: u,
        } = &mut now;
        for s in 0..local_client.steps() {
            let eta = local_client.rate(s);
            local_client.next_batch();
            local_client.gradient(v_bar, &mut g);
            let w = if joining.running { &u[..] } else { shared };
            let slope = dot_difference(v, w, &g);
            axpy(v, -eta * *alpha, &g);
            local_client.descend(u, eta);
            if adaptive && s == 0 {
                *alpha = (f64::from(*alpha) - f64::from(eta) * slope).clamp(0.0, 1.0) as f32;
            }
            let w = if joining.running { &u[..] } else { shared };
            mix(v_bar, *alpha, v, w);
        }
        if let Some(found) = local_client.non_finite() {
            return Err(non_finite(shard, epoch, found.loss));
        }
        each(epoch, &now)?;
    }
    Ok(now)
}

/// The settings of a new client's choice, which follows the run's clients with their losses as
/// its prior.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinChoosing {
    /// The candidates and the settings of the choice.
    pub choosing: Choosing,
    /// ℓ̄ of the run for each candidate, in the order of [`Choosing::list`].
    pub curve: Vec<f64>,
}

/// Chooses a candidate for a new client by its held-out rows.
pub fn choose_mixing(
    model: &dyn Model,
    shared: &[f32],
    shard: &Shard,
    joining: &JoinSettings,
    how: &JoinChoosing,
) -> Result<Choice> {
    let list = how.choosing.list();
    let mut all = HeldOut {
        rows: 0,
        sums: vec![0.0; list.len()],
    };
    let mut scratch = Scratch::default();
    for part in 1..=how.choosing.folds {
        let rows = HeldOutRows {
            seed: joining.seed,
            folds: how.choosing.folds,
            part,
            share: how.choosing.aside,
        };
        let (rest, held_out) = rows.split(joining.number as usize, shard.train.len());
        if held_out.is_empty() {
            continue;
        }
        let held_out = shard.train.gathered(&held_out);
        let mut less = shard.clone();
        less.train = shard.train.gathered(&rest);
        let mut sums = Vec::with_capacity(list.len());
        for candidate in &list {
            let model_of = match candidate {
                Candidate::Shared => shared.to_vec(),
                Candidate::Mixing(alpha) => {
                    let joining = JoinSettings {
                        mixing: Mixing::Fixed(*alpha),
                        ..*joining
                    };
                    train(model, shared, &less, &joining, &mut |_, _| Ok(()))?.personal
                }
            };
            let loss = scratch
                .tally(model, &Predictor::At(&model_of), &held_out)
                .loss;
            if !loss.is_finite() {
                return Err(non_finite(shard, joining.epochs, loss));
            }
            sums.push(loss);
        }
        all.add(&HeldOut {
            rows: held_out.len() as u64,
            sums,
        });
    }
    let place = choose(&all, &how.curve, how.choosing.prior);
    Ok(Choice {
        candidate: list[place],
        held_out: all,
    })
}

fn non_finite(shard: &Shard, epoch: u64, loss: f64) -> Error {
    Error::NonFinite {
        client: shard.name.clone(),
        place: format!("in epoch {epoch} of joining"),
        loss,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Examples, Features, Targets};
    use crate::model::Loss;
    use crate::model::mlp::Mlp;
    use crate::schedule::Schedule;

    fn shard() -> Shard {
        let x: Vec<f32> = (0..14)
            .map(|k| ((k * 37 % 11) as f32 - 5.0) / 4.0)
            .collect();
        let y = vec![0, 1, 2, 0, 2, 1, 0];
        let all = Examples::new(2, Features::Floats(x), Targets::Classes(y));
        Shard::new("k", all.clone(), all)
    }

    fn joining(mixing: Mixing, running: bool) -> JoinSettings {
        JoinSettings {
            mixing,
            epochs: 6,
            running,
            local_training: LocalTraining {
                work: LocalWork::Steps(1),
                batch: Some(3),
                learning_rate: 0.2,
                schedule: Schedule::Constant,
                momentum: 0.0,
            },
            seed: 5,
            number: 0,
            unit: 1.0,
        }
    }

    fn shared() -> Params {
        (0..9).map(|k| 0.1 * (k as f32 - 4.0)).collect()
    }

    /// Frozen w, v⁰ = w: v̄ is SGD with step α²η on the same batches. The fine-tuned model
    /// of a run at rate α²η is that SGD.
    #[test]
    fn with_w_frozen_v_bar_is_sgd_with_step_alpha_squared_eta() {
        let model = Mlp::new(2, &[], 3, Loss::Softmax, 0.01);
        for alpha in [0.25f32, 0.5, 0.9] {
            let joined = join(
                &model,
                &shared(),
                &shard(),
                &joining(Mixing::Fixed(alpha), false),
                false,
            )
            .unwrap();
            let mut slow = joining(Mixing::Fixed(0.0), false);
            slow.local_training.learning_rate *= f64::from(alpha).powi(2);
            let sgd = join(&model, &shared(), &shard(), &slow, false).unwrap();
            for (a, b) in joined.personal.iter().zip(&sgd.fine_tuned) {
                assert!((a - b).abs() < 1e-6, "{alpha}: {a} {b}");
            }
        }
    }

    #[test]
    fn the_ends_of_alpha() {
        let model = Mlp::new(2, &[], 3, Loss::Softmax, 0.0);
        let run = |mixing, running| {
            let joining = joining(mixing, running);
            join(&model, &shared(), &shard(), &joining, false).unwrap()
        };
        // α = 1: v̄ = v is fine-tuning, frozen or running.
        for running in [false, true] {
            let joined = run(Mixing::Fixed(1.0), running);
            for (a, b) in joined.personal.iter().zip(&joined.fine_tuned) {
                assert!((a - b).abs() < 1e-6);
            }
        }
        // α = 0: frozen stays ŵ, running is fine-tuning.
        assert_eq!(run(Mixing::Fixed(0.0), false).personal, shared());
        let joined = run(Mixing::Fixed(0.0), true);
        assert_eq!(joined.personal, joined.fine_tuned);
        assert_eq!(joined.epochs.len(), 7);
        assert_eq!(joined.epochs[0].personal, joined.epochs[0].shared);
        let (first, last) = (joined.epochs[0], joined.epochs[6]);
        assert_eq!(first.shared, last.shared);
        assert!(last.personal.train.loss < first.personal.train.loss);
    }

    /// A new client with few rows follows the run's prior; with κ = 0 its own rows decide, and a
    /// shared model that predicts the opposite is not chosen.
    #[test]
    fn a_new_client_chooses_by_its_rows_and_the_prior() {
        let model = Mlp::new(2, &[], 3, Loss::Softmax, 0.0);
        let x: Vec<f32> = (0..80)
            .map(|k| ((k * 37 % 41) as f32 - 20.0) / 10.0)
            .collect();
        let y: Vec<u32> = x.chunks(2).map(|row| u32::from(row[0] > 0.0)).collect();
        let all = Examples::new(2, Features::Floats(x), Targets::Classes(y));
        let shard = Shard {
            name: "k".into(),
            test: all.empty_like(),
            train: all.clone(),
            valid: all,
        };
        // Weights of x₀ towards the wrong class.
        let shared = vec![3.0, -3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let chosen = |prior: f64| {
            let mut how = JoinChoosing {
                choosing: Choosing::from([0.0, 0.5, 1.0]),
                curve: vec![0.5, 0.4, 0.45, 0.6],
            };
            how.choosing.prior = prior;
            let joining = joining(Mixing::Fixed(0.0), false);
            choose_mixing(&model, &shared, &shard, &joining, &how).unwrap()
        };
        let own = chosen(0.0);
        assert_eq!(own.held_out.rows, 40, "every row once");
        assert_eq!(own.candidate, Candidate::Mixing(1.0));
        // α = 0 with w frozen is the shared model.
        assert_eq!(own.held_out.sums[0], own.held_out.sums[1]);
        assert_eq!(chosen(1e12).candidate, Candidate::Mixing(0.0));
    }

    /// v = w at the start: the slope along α is 0 in the first step, so α moves from the
    /// second epoch on only; frozen with v better than ŵ it grows.
    #[test]
    fn a_learned_alpha_starts_to_move_in_the_second_epoch() {
        let model = Mlp::new(2, &[], 3, Loss::Softmax, 0.0);
        let joining = joining(Mixing::Adaptive(0.5), false);
        let joined = join(&model, &shared(), &shard(), &joining, false).unwrap();
        assert_eq!(joined.epochs[1].mixing, 0.5);
        assert!(joined.epochs[6].mixing > 0.5, "{:?}", joined.epochs[6]);
    }
}
