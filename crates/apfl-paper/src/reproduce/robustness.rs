//! Not in the paper: how much the shared and the personal models suffer from clients that
//! attack, under every rule of aggregation.

use apfl::error::Result;
use apfl_report::chart::{self, Axis, Chart};

use super::item::{Item, Pictures, Tables, run};
use super::results::{Measure, Model, Results, Track, banded, track};

const RULES: [&str; 5] = ["mean", "median", "trimmed-mean", "krum", "geometric-median"];
const SHARES: [&str; 5] = ["0", "0.1", "0.2", "0.3", "0.4"];
const DATA: [(&str, &str); 2] = [
    ("IID", "data.partition=iid"),
    (
        "2 classes a client",
        "data.partition={ kind = 'stripe', classes = 2 }",
    ),
];

/// What is run and drawn.
pub fn item() -> Item {
    let mut runs = Vec::new();
    for (data, partition) in DATA {
        for rule in RULES {
            for share in SHARES {
                let attack = format!(
                    "federation.attack={{ kind = 'sign-flip', share = {share}, scale = 4 }}"
                );
                let mut set = vec![
                    partition.to_string(),
                    attack,
                    format!("federation.aggregation={rule}"),
                    "algorithm.mixing={ adaptive = 0.01 }".into(),
                    "training.rounds=50".into(),
                    "evaluation.every=50".into(),
                ];
                match rule {
                    "trimmed-mean" => set.push("federation.trim=0.4".into()),
                    "krum" => set.push("federation.byzantine=0.4".into()),
                    _ => {}
                }
                let set: Vec<&str> = set.iter().map(String::as_str).collect();
                runs.push(run(name(data, rule, share), &set));
            }
        }
    }
    Item {
        name: "robustness",
        title: "Sign-flipping clients against rules of aggregation (MNIST, logistic; not in the paper)",
        preset: include_str!("../../presets/fig2.toml"),
        runs,
        variants: &[],
        claims: |_| Ok(Vec::new()),
        figures,
        tables,
        both: false,
        remarks: &[
            "Scores are those of the honest clients. Unless set otherwise, an attacker sends the shared \
             model less four times its own step, there are 50 rounds, α is learned from 0.01, `trim` and \
             `byzantine` are 0.4.",
        ],
    }
}

fn name(data: &str, rule: &str, share: &str) -> String {
    format!("apfl {rule}, {data}, {share} attack")
}

fn line(data: &str, rule: usize, model: Model) -> impl Fn(&str) -> Track {
    move |share| track(RULES[rule], name(data, RULES[rule], share), model, rule)
}

const MODELS: [(&str, Model); 2] = [("shared", Model::Shared), ("personal", Model::Personal)];

fn figures(results: &Results) -> Result<Pictures> {
    let mut charts = Vec::new();
    for (model_name, model) in MODELS {
        for (data, _) in DATA {
            let series = |rule: usize| {
                let at = line(data, rule, model);
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
                    RULES[rule],
                    rule,
                    SHARES.into_iter().map(point).collect(),
                    false,
                )
            };
            charts.push(Chart {
                title: format!("{model_name}, {data}"),
                x: Axis::percent("attacking clients"),
                y: Axis::percent("validation accuracy").within(0.0, 1.0),
                series: (0..RULES.len()).map(series).collect(),
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
            for (rule, rule_name) in RULES.iter().enumerate() {
                let at = line(data, rule, model);
                let cell = |share: &&str| {
                    results
                        .finalized(&at(share), Measure::ValidAccuracy)
                        .sample()
                        .percent()
                };
                let mut row = [data, model_name, rule_name].map(String::from).to_vec();
                row.extend(SHARES.iter().map(cell));
                rows.push(row);
            }
        }
    }
    Ok(vec![("robustness".into(), rows)])
}
