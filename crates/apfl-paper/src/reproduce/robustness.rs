//! Not in the paper: the accuracy of shared and personal models under attack, by aggregator.

use apfl::error::Result;
use apfl_report::chart::{self, Axis, Chart};

use super::item::{Item, Pictures, SEEDS, Tables, run};
use super::results::{Measure, Model, Results, Track, banded, track};

const AGGREGATORS: [&str; 5] = ["mean", "median", "trimmed-mean", "krum", "geometric-median"];
const SHARES: [&str; 5] = ["0", "0.1", "0.2", "0.3", "0.4"];
const DATA: [(&str, &str); 2] = [
    ("IID", "data.partition=iid"),
    (
        "2 classes per client",
        "data.partition={ kind = 'stripe', classes = 2 }",
    ),
];

/// Returns the item: its runs and pictures.
pub fn item() -> Item {
    let mut runs = Vec::new();
    for (data, partition) in DATA {
        for aggregator in AGGREGATORS {
            for share in SHARES {
                let attack = format!(
                    "federation.attack={{ kind = 'sign-flip', share = {share}, scale = 4 }}"
                );
                let mut set = vec![
                    partition.to_string(),
                    attack,
                    format!("federation.aggregation={aggregator}"),
                    "algorithm.mixing={ adaptive = 0.01 }".into(),
                    "training.rounds=50".into(),
                    "evaluation.every=50".into(),
                ];
                match aggregator {
                    "trimmed-mean" => set.push("federation.trim=0.4".into()),
                    "krum" => set.push("federation.byzantine=0.4".into()),
                    _ => {}
                }
                let set: Vec<&str> = set.iter().map(String::as_str).collect();
                runs.push(run(name(data, aggregator, share), &set));
            }
        }
    }
    Item {
        name: "robustness",
        title: "Sign-flipping clients against robust aggregators (MNIST, logistic; not in the paper)",
        preset: include_str!("../../presets/fig2.toml"),
        seeds: SEEDS,
        runs,
        variants: &[],
        claims: |_| Ok(Vec::new()),
        figures,
        tables,
        compare_all_clients: false,
        remarks: &[
            "Scores are those of the honest clients. Unless set otherwise, an attacker sends the shared \
             model less four times its own step, there are 50 rounds, α is learned from 0.01, `trim` and \
             `byzantine` are 0.4.",
        ],
    }
}

fn name(data: &str, aggregator: &str, share: &str) -> String {
    format!("apfl {aggregator}, {data}, {share} attack")
}

fn line(data: &str, aggregator: usize, model: Model) -> impl Fn(&str) -> Track {
    move |share| {
        track(
            AGGREGATORS[aggregator],
            name(data, AGGREGATORS[aggregator], share),
            model,
            aggregator,
        )
    }
}

const MODELS: [(&str, Model); 2] = [("shared", Model::Shared), ("personal", Model::Personal)];

fn figures(results: &Results) -> Result<Pictures> {
    let mut charts = Vec::new();
    for (model_name, model) in MODELS {
        for (data, _) in DATA {
            let series = |aggregator: usize| {
                let at = line(data, aggregator, model);
                let point = |share: &str| {
                    let x: f64 = share.parse().unwrap_or(0.0);
                    (
                        x,
                        results
                            .finalized(&at(share), Measure::ValidAccuracy)
                            .sample(),
                    )
                };
                banded(
                    AGGREGATORS[aggregator],
                    aggregator,
                    SHARES.into_iter().map(point).collect(),
                    false,
                )
            };
            charts.push(Chart {
                title: format!("{model_name}, {data}"),
                x: Axis::percent("attacking clients"),
                y: Axis::percent("validation accuracy").within(0.0, 1.0),
                series: (0..AGGREGATORS.len()).map(series).collect(),
            });
        }
    }
    Ok(vec![(
        "robustness".into(),
        chart::panels("", &charts, DATA.len()),
    )])
}

fn tables(results: &Results) -> Result<Tables> {
    let mut rows = vec![["data", "model", "rule"].map(String::from).to_vec()];
    rows[0].extend(SHARES.iter().map(|share| format!("{share} attack")));
    for (data, _) in DATA {
        for (model_name, model) in MODELS {
            for (aggregator, aggregator_name) in AGGREGATORS.iter().enumerate() {
                let at = line(data, aggregator, model);
                let cell = |share: &&str| {
                    results
                        .finalized(&at(share), Measure::ValidAccuracy)
                        .sample()
                        .percent()
                };
                let mut row = [data, model_name, aggregator_name]
                    .map(String::from)
                    .to_vec();
                row.extend(SHARES.iter().map(cell));
                rows.push(row);
            }
        }
    }
    Ok(vec![("robustness".into(), rows)])
}
