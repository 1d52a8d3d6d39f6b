//! Figure 5: digits by their writers.

use apfl::error::Result;

use super::item::{Item, SEEDS, VARIANTS, last_and_finalized, loss_and_accuracy, run};
use super::results::{Measure, Model, Results, Track, track};
use super::verdict::{Check, Claim, Values, all_of};

const DATA: [(&str, &str); 2] = [("FEMNIST digits", "femnist"), ("MNIST by writer", "qmnist")];

/// Returns the item: its runs, claims and pictures.
pub fn item() -> Item {
    let mut runs = Vec::new();
    for (_, data) in DATA {
        for kind in ["apfl", "fedavg"] {
            let set = [
                format!("data.kind={data}"),
                format!("algorithm.kind={kind}"),
            ];
            runs.push(run(format!("{kind}, {data}"), &[&set[0], &set[1]]));
        }
    }
    Item {
        name: "fig5",
        title: "Digits by their writers (MLP, a tenth of the writers sampled each round)",
        preset: include_str!("../../presets/fig5.toml"),
        seeds: SEEDS,
        runs,
        variants: VARIANTS,
        claims,
        figures: |results| {
            let svg = loss_and_accuracy(results, "", &groups());
            Ok(vec![("fig5".into(), svg)])
        },
        tables: |results| {
            Ok(vec![
                ("fig5".into(), last_and_finalized(results, &groups())),
                ("fig5-writers".into(), writers(results)),
            ])
        },
        compare_all_clients: true,
        remarks: &[
            "The paper takes 1,000 writers of EMNIST and does not say which. Here: all writers of \
             FEMNIST's digits with 20 examples or more, and of MNIST by QMNIST's labels. Both are fewer; \
             the second table has their numbers.",
            "Scores of the last round are those of the tenth of the writers sampled then.",
        ],
    }
}

fn apfl(data: usize) -> Track {
    track(
        "APFL adaptive",
        format!("apfl, {}", DATA[data].1),
        Model::Personal,
        0,
    )
}

fn fedavg(data: usize) -> Track {
    track(
        "FedAvg localized",
        format!("fedavg, {}", DATA[data].1),
        Model::Localized,
        3,
    )
}

fn groups() -> Vec<(String, Vec<Track>)> {
    let group = |k: usize| (DATA[k].0.to_string(), vec![apfl(k), fedavg(k)]);
    (0..DATA.len()).map(group).collect()
}

/// Tabulates the number of writers here and in the paper.
fn writers(results: &Results) -> Vec<Vec<String>> {
    let mut rows = vec![
        ["data", "writers here", "writers in the paper"]
            .map(String::from)
            .to_vec(),
    ];
    for (k, (name, _)) in DATA.into_iter().enumerate() {
        let first = results.runs(&apfl(k).run).first();
        let here = first.map_or("–".into(), |run| run.summary.clients.to_string());
        rows.push(vec![name.into(), here, "1000".into()]);
    }
    rows
}

const REACHES: &str = "APFL with adaptive α can reach to the same training loss of the local FedAvg, \
                       while greatly outperforms the local FedAvg model in generalization on local \
                       validation data.";

fn claims(results: &Results) -> Result<Vec<Claim>> {
    let of = |track: Track, measure, k: usize| {
        let values = results.last(&track, measure);
        Values {
            name: format!("{} ({})", values.name, DATA[k].0),
            ..values
        }
    };
    let reaches = |k: usize| {
        let fedavg = of(fedavg(k), Measure::TrainLoss, k);
        let a_twentieth_more = Values {
            name: format!("1.05 × {}", fedavg.name),
            by_seed: fedavg.by_seed.iter().map(|loss| 1.05 * loss).collect(),
        };
        Check::below(&of(apfl(k), Measure::TrainLoss, k), &a_twentieth_more)
    };
    let exceeds = |k: usize| {
        let fedavg = of(fedavg(k), Measure::ValidAccuracy, k);
        Check::below(&fedavg, &of(apfl(k), Measure::ValidAccuracy, k))
    };
    let both = |check: &dyn Fn(usize) -> Check| (0..DATA.len()).map(check).collect();
    Ok(vec![
        all_of(
            "17: adaptive APFL reaches localized FedAvg's training loss (at most a twentieth above it)",
            "the same loss",
            both(&reaches),
        )
        .quoting(REACHES),
        all_of(
            "18: and exceeds its validation accuracy",
            "greatly",
            both(&exceeds),
        )
        .quoting(REACHES),
    ])
}
