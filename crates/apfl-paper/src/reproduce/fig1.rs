//! Figure 1: losses against the diversity of the clients' data.

use apfl::error::Result;
use apfl_report::chart::{self, Axis, Chart};

use super::item::{Item, LINEAR_VARIANTS, Pictures, SCAFFOLD_LOCALIZED, SEEDS, Tables, run};
use super::results::{Measure, Model, Results, Track, banded, track};
use super::verdict::{Check, Claim, Values, all_of, each_below, rising};

/// The partitions, by increasing diversity.
const DIVERSITY: [(&str, &str); 6] = [
    ("IID", "data.partition=iid"),
    (
        "8 classes",
        "data.partition={ kind = 'stripe', classes = 8 }",
    ),
    (
        "6 classes",
        "data.partition={ kind = 'stripe', classes = 6 }",
    ),
    (
        "4 classes",
        "data.partition={ kind = 'stripe', classes = 4 }",
    ),
    (
        "2 classes",
        "data.partition={ kind = 'stripe', classes = 2 }",
    ),
    ("1 class", "data.partition={ kind = 'stripe', classes = 1 }"),
];

/// Returns the item: its runs, claims and pictures.
pub fn item() -> Item {
    let mut runs = Vec::new();
    for (name, data) in DIVERSITY {
        for kind in ["apfl", "fedavg"] {
            runs.push(run(
                format!("{kind}, {name}"),
                &[data, &format!("algorithm.kind={kind}")],
            ));
        }
        runs.push(run(
            format!("scaffold, {name}"),
            &[data, "algorithm.kind=scaffold", SCAFFOLD_LOCALIZED],
        ));
    }
    Item {
        name: "fig1",
        title: "Losses against the diversity of the clients' data (MNIST, logistic)",
        preset: include_str!("../../presets/fig1.toml"),
        seeds: SEEDS,
        runs,
        variants: LINEAR_VARIANTS,
        claims,
        figures,
        tables,
        compare_all_clients: false,
        remarks: &["The figure does not say which α APFL has: here it is learned from 0.01."],
    }
}

const KINDS: [(&str, &str, Model); 3] = [
    ("FedAvg global", "fedavg", Model::Shared),
    ("SCAFFOLD global", "scaffold", Model::Shared),
    ("APFL personal", "apfl", Model::Personal),
];

/// Returns a score of one model by diversity.
fn by_diversity(results: &Results, kind: usize, measure: Measure) -> Vec<Values> {
    let (name, algorithm, model) = KINDS[kind];
    let one = |(data, _): (&str, &str)| {
        let track: Track = track(name, format!("{algorithm}, {data}"), model, kind);
        Values {
            name: format!("{name} on {data}"),
            ..results.last(&track, measure)
        }
    };
    DIVERSITY.into_iter().map(one).collect()
}

const LOSSES: [Measure; 2] = [Measure::TrainLoss, Measure::ValidLoss];

fn claims(results: &Results) -> Result<Vec<Claim>> {
    let (mut global, mut falling) = (Vec::new(), Vec::new());
    for measure in LOSSES {
        let of = |kind| by_diversity(results, kind, measure);
        // Compares the ends only: the text claims nothing about the steps between.
        let ends = |values: Vec<Values>| Check::below(&values[0], &values[DIVERSITY.len() - 1]);
        global.extend([ends(of(0)), ends(of(1))]);
        let mut personal = of(2);
        // Except for IID data, about which figure 2's text says the opposite.
        let below = personal.iter().zip(of(0).into_iter().zip(of(1))).skip(1);
        let below: Vec<Check> = below
            .flat_map(|(p, (a, b))| each_below(std::slice::from_ref(p), &[a, b]))
            .collect();
        personal.reverse();
        falling.extend(rising(&personal));
        falling.extend(below);
    }
    Ok(vec![
        all_of(
            "1: training and validation loss of FedAvg's and SCAFFOLD's global model on local data rise with diversity, from IID to one class per client",
            "both rise",
            global,
        )
        .without_apfl()
        .quoting(
            "the generalization and training losses of the global models of the FedAvg and SCAFFOLD on \
             local data diverge when the diversity among different clients' data increases.",
        ),
        all_of(
            "2: APFL's personal losses fall with diversity, and lie below both where data are not IID",
            "they fall, and lie below",
            falling,
        )
        .quoting(
            "by progressively increasing the diversity, the personalized model found by the proposed \
             algorithm demonstrates a better generalization compared to the global models learned by \
             FedAvg and SCAFFOLD.",
        ),
    ])
}

fn figures(results: &Results) -> Result<Pictures> {
    let names: Vec<String> = DIVERSITY.iter().map(|(name, _)| (*name).into()).collect();
    let chart = |measure: Measure, label: &str| Chart {
        title: String::new(),
        x: Axis::names("diversity of the clients' data", &names),
        y: Axis::log(label),
        series: (0..KINDS.len())
            .map(|kind| {
                let values = by_diversity(results, kind, measure);
                let samples = values.iter().enumerate();
                let samples = samples.map(|(k, v)| (k as f64, v.sample())).collect();
                banded(KINDS[kind].0, kind, samples, false)
            })
            .collect(),
    };
    let charts = [
        chart(Measure::TrainLoss, "training loss"),
        chart(Measure::ValidLoss, "validation loss"),
    ];
    Ok(vec![("fig1".into(), chart::panels("", &charts, 2))])
}

fn tables(results: &Results) -> Result<Tables> {
    let mut rows = vec![vec!["loss".to_string(), "model".into()]];
    rows[0].extend(DIVERSITY.iter().map(|(name, _)| (*name).to_owned()));
    for (measure, name) in LOSSES.into_iter().zip(["training", "validation"]) {
        for (kind, (model, ..)) in KINDS.iter().enumerate() {
            let mut row = vec![name.to_string(), (*model).into()];
            let values = by_diversity(results, kind, measure);
            row.extend(values.iter().map(|v| v.sample().number()));
            rows.push(row);
        }
    }
    Ok(vec![("fig1".into(), rows)])
}
