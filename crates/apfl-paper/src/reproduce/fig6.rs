//! Figure 6: clients that join after training.

use apfl::WhichModel;
use apfl::algorithm::apfl::Mixing;
use apfl::data::{Source, new_client};
use apfl::error::{Error, Result};
use apfl::join::{Epoch, JoinSettings, join};
use apfl::run::run_dir::FinishedRun;
use apfl_report::chart::{self, Axis, Chart, Series};
use apfl_report::statistics::Sample;

use super::item::{Item, Pictures, Tables, run};
use super::results::{Results, banded};
use super::verdict::{Check, Claim, Values, all_of};
use crate::grid::CompletedRun;

const DATA: [&str; 2] = ["0", "0.5"];

/// The new clients, numbered after the 97 that trained, each joining alone. The paper has three, so
/// that their data decide; the means here are over two hundred.
const NEW_CLIENTS: std::ops::Range<u64> = 97..297;
const EPOCHS: u64 = 5;

/// How a new client mixes: name, α, and whether w is trained too. The printed rule,
///
/// ```text
/// v ← v − η ∇_v f(αv + (1−α)ŵ; ξ) = v − ηα ∇f(αv + (1−α)ŵ; ξ)
/// ```
///
/// trains v alone and leaves ŵ as it is; the text names no α. So the verdicts are on the fixed α
/// with w frozen.
const METHODS: [(&str, Mixing, bool); 6] = [
    ("APFL α=0.5, w frozen", Mixing::Fixed(0.5), false),
    ("APFL α=0.75, w frozen", Mixing::Fixed(0.75), false),
    ("APFL adaptive, w frozen", Mixing::Adaptive(0.5), false),
    ("APFL α=0.5, w running", Mixing::Fixed(0.5), true),
    ("APFL α=0.75, w running", Mixing::Fixed(0.75), true),
    ("APFL adaptive, w running", Mixing::Adaptive(0.5), true),
];

/// Returns the item: its runs, claims and pictures.
pub fn item() -> Item {
    let one = |spread: &str| {
        let set = [
            format!("data.gamma={spread}"),
            format!("data.beta={spread}"),
        ];
        run(name(spread), &[&set[0], &set[1]])
    };
    Item {
        name: "fig6",
        title: "Clients that join after training (synthetic, logistic)",
        preset: include_str!("../../presets/fig6.toml"),
        seeds: 10,
        runs: DATA.into_iter().map(one).collect(),
        variants: &[],
        claims,
        figures,
        tables,
        compare_all_clients: false,
        remarks: &[
            "Means over 200 new clients (the paper has 3), each alone with the trained w. The rule is printed \
             as v ← v − η∇_v f(αv + (1−α)ŵ; ξ), “from the given global model as an initial local model”: ŵ \
             stays, and ∇_v has the factor α. Verdicts are on this rule with α = 0.5 and 0.75, as the text \
             names no α. The learned α, and w running (the new clients “start training local and \
             personalized models of their own”), are counted beside.",
            "The rate restarts at 0.1 for new clients, the same for fine-tuning and for APFL. With ŵ frozen \
             the mixture moves with α²η, so fine-tuning from the same ŵ at the same rate has the longer \
             steps.",
        ],
    }
}

/// Returns whether a method is the paper's printed rule.
fn printed(mixing: Mixing, running: bool) -> bool {
    !running && matches!(mixing, Mixing::Fixed(_))
}

fn name(spread: &str) -> String {
    format!("synthetic({spread}, {spread})")
}

/// Represents mean training loss and validation accuracy per epoch over the new clients of a run.
struct Path {
    loss: Vec<f64>,
    accuracy: Vec<f64>,
}

/// Returns the paths of fine-tuning and of every method in one run.
fn paths(run: &CompletedRun) -> Result<Vec<Path>> {
    let run = FinishedRun::open(&run.dir)?;
    let shared = run.model(WhichModel::Shared, "")?;
    let Source::Synthetic(settings) = &run.plan.data else {
        return Err(Error::data(format!(
            "{}: not synthetic data",
            run.path.display()
        )));
    };
    let mut paths = Vec::new();
    for (k, (_, mixing, running)) in METHODS.into_iter().enumerate() {
        let mut all: Vec<Vec<Epoch>> = Vec::new();
        for number in NEW_CLIENTS {
            let shard = new_client::synthetic(settings, number as usize)?;
            let joining = JoinSettings {
                mixing,
                epochs: EPOCHS,
                running,
                local_training: run.plan.local_training.for_new_client(),
                seed: run.plan.seed,
                number,
                unit: 1.0,
            };
            all.push(join(shared.model(), shared.params(), &shard, &joining, false)?.epochs);
        }
        let path = |pick: fn(&Epoch) -> (f64, f64)| {
            let mean = |epoch: usize| {
                let of: Vec<(f64, f64)> = all.iter().map(|epochs| pick(&epochs[epoch])).collect();
                let n = of.len() as f64;
                let sum = of.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
                (sum.0 / n, sum.1 / n)
            };
            let (loss, accuracy) = (0..=EPOCHS as usize).map(mean).unzip();
            Path { loss, accuracy }
        };
        // Fine-tuning is the same for every method.
        if k == 0 {
            paths.push(path(|e| {
                (
                    e.fine_tuned.train.loss,
                    e.fine_tuned.valid.accuracy.unwrap_or(0.0),
                )
            }));
        }
        paths.push(path(|e| {
            (
                e.personal.train.loss,
                e.personal.valid.accuracy.unwrap_or(0.0),
            )
        }));
    }
    Ok(paths)
}

/// Returns the names of the paths that [`paths`] returns.
fn names() -> Vec<&'static str> {
    std::iter::once("FedAvg fine-tuning")
        .chain(METHODS.iter().map(|method| method.0))
        .collect()
}

/// Returns all paths of a data set by seed.
fn by_seed(results: &Results, spread: &str) -> Result<Vec<Vec<Path>>> {
    results.runs(&name(spread)).iter().map(paths).collect()
}

const BETTER: &str = "the model from APFL can better personalize the global model with respect to the \
                      FedAvg method both in training loss and validation accuracy.";

const HARDER: &str = "Increasing diversity makes it harder to personalize, however, APFL surpasses FedAvg \
                      again.";

fn claims(results: &Results) -> Result<Vec<Claim>> {
    let all: Vec<_> = DATA
        .into_iter()
        .map(|spread| by_seed(results, spread))
        .collect::<Result<_>>()?;
    let last = |data: usize, k: usize, pick: fn(&Path) -> &Vec<f64>| Values {
        name: format!("{} ({})", names()[k], name(DATA[data])),
        by_seed: all[data]
            .iter()
            .map(|paths| pick(&paths[k])[EPOCHS as usize])
            .collect(),
    };
    let (mut lower, mut higher, mut harder) = (Vec::new(), Vec::new(), Vec::new());
    for (method, (_, mixing, running)) in (1..).zip(METHODS) {
        let decides = printed(mixing, running);
        for data in 0..DATA.len() {
            let [ours, tuned] = [method, 0].map(|k| last(data, k, |p| &p.loss));
            lower.push(Check::below(&ours, &tuned).deciding(decides));
            let [ours, tuned] = [method, 0].map(|k| last(data, k, |p| &p.accuracy));
            higher.push(Check::below(&tuned, &ours).deciding(decides));
        }
    }
    // It is harder for fine-tuning, too: "APFL surpasses FedAvg again".
    let of_methods = METHODS.map(|(_, mixing, running)| printed(mixing, running));
    for (k, decides) in std::iter::once(true).chain(of_methods).enumerate() {
        let [less, more] = [0, 1].map(|data| last(data, k, |p| &p.loss));
        harder.push(Check::below(&less, &more).deciding(decides));
        let [less, more] = [0, 1].map(|data| last(data, k, |p| &p.accuracy));
        harder.push(Check::below(&more, &less).deciding(decides));
    }
    Ok(vec![
        all_of(
            "23: new clients: APFL lies below FedAvg's fine-tuning in training loss",
            "below on both data sets",
            lower,
        )
        .quoting(BETTER),
        all_of(
            "24: new clients: and above it in validation accuracy",
            "above on both data sets",
            higher,
        )
        .quoting(BETTER),
        all_of(
            "28: new clients: on the more diverse data, fine-tuning and APFL have the higher training loss and the lower validation accuracy",
            "synthetic(0.5, 0.5) is harder than synthetic(0, 0)",
            harder,
        )
        .quoting(HARDER),
    ])
}

fn figures(results: &Results) -> Result<Pictures> {
    let mut charts = Vec::new();
    let all: Vec<_> = DATA
        .into_iter()
        .map(|spread| by_seed(results, spread))
        .collect::<Result<_>>()?;
    for loss in [true, false] {
        for (spread, seeds) in DATA.into_iter().zip(&all) {
            let series = |(k, line): (usize, &str)| -> Series {
                let at = |epoch: usize| {
                    let value = |paths: &Vec<Path>| {
                        if loss {
                            paths[k].loss[epoch]
                        } else {
                            paths[k].accuracy[epoch]
                        }
                    };
                    let sample = Sample::of(seeds.iter().map(value))?;
                    Some((epoch as f64, sample))
                };
                // Epoch 0 is the same for all and far above the rest.
                let samples = (1..=EPOCHS as usize).filter_map(at).collect();
                let colour = if k == 0 { 3 } else { [0, 1, 2][(k - 1) % 3] };
                banded(line, colour, samples, k > 3)
            };
            charts.push(Chart {
                title: name(spread),
                x: Axis::new("epochs after joining"),
                y: if loss {
                    Axis::new("training loss")
                } else {
                    Axis::percent("validation accuracy")
                },
                series: names().into_iter().enumerate().map(series).collect(),
            });
        }
    }
    Ok(vec![(
        "fig6".into(),
        chart::panels("", &charts, DATA.len()),
    )])
}

fn tables(results: &Results) -> Result<Tables> {
    let mut rows = vec![vec![
        "data".to_string(),
        "new client".into(),
        "measure".into(),
    ]];
    rows[0].extend((0..=EPOCHS).map(|epoch| format!("epoch {epoch}")));
    for spread in DATA {
        let seeds = by_seed(results, spread)?;
        for (k, line) in names().into_iter().enumerate() {
            for loss in [true, false] {
                let what = if loss { "train loss" } else { "validation" };
                let mut row = vec![name(spread), line.to_string(), what.into()];
                for epoch in 0..=EPOCHS as usize {
                    let value = |paths: &Vec<Path>| {
                        if loss {
                            paths[k].loss[epoch]
                        } else {
                            paths[k].accuracy[epoch]
                        }
                    };
                    let sample = Sample::of(seeds.iter().map(value));
                    row.push(sample.map_or(String::new(), |s| {
                        if loss { s.number() } else { s.percent() }
                    }));
                }
                rows.push(row);
            }
        }
    }
    Ok(vec![("fig6".into(), rows)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_rule_with_fixed_mixing_decides() {
        let judged = METHODS.into_iter().filter(|m| printed(m.1, m.2));
        let judged: Vec<&str> = judged.map(|m| m.0).collect();
        assert_eq!(judged, ["APFL α=0.5, w frozen", "APFL α=0.75, w frozen"]);
    }
}
