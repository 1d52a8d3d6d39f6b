//! Figure 4: learned α on synthetic data.

use apfl::error::Result;

use super::item::{Item, LINEAR_VARIANTS, last_and_delivered, rounds, run};
use super::results::{Measure, Model, Results, Track, track};
use super::verdict::{Check, Claim, Values, all_of};
use crate::chart;

const DATA: [&str; 3] = ["0", "0.5", "1"];

/// What is run and claimed.
pub fn item() -> Item {
    let mut runs = Vec::new();
    for spread in DATA {
        for kind in ["apfl", "fedavg"] {
            let set = [
                format!("data.gamma={spread}"),
                format!("data.beta={spread}"),
                format!("algorithm.kind={kind}"),
            ];
            let set: Vec<&str> = set.iter().map(String::as_str).collect();
            runs.push(run(format!("{kind}, {}", name(spread)), &set));
        }
    }
    Item {
        name: "fig4",
        title: "Learned α on synthetic data (logistic)",
        preset: include_str!("../../presets/fig4.toml"),
        runs,
        variants: LINEAR_VARIANTS,
        claims,
        figures: |results| {
            let tracks: Vec<Track> = apfl().into_iter().chain(fedavg()).collect();
            let charts = [
                rounds(results, "", &tracks, Measure::TrainLoss),
                rounds(results, "", &tracks, Measure::ValidAccuracy),
            ];
            Ok(vec![("fig4".into(), chart::panels("", &charts, 2))])
        },
        tables: |results| {
            let tracks = apfl().into_iter().chain(fedavg()).collect();
            let groups = [("synthetic".to_string(), tracks)];
            Ok(vec![("fig4".into(), last_and_delivered(results, &groups))])
        },
        both: false,
        remarks: &[],
    }
}

fn name(spread: &str) -> String {
    format!("synthetic({spread}, {spread})")
}

fn apfl() -> Vec<Track> {
    let one = |(k, spread): (usize, &&str)| {
        let data = name(spread);
        track(
            &format!("APFL, {data}"),
            format!("apfl, {data}"),
            Model::Personal,
            k,
        )
    };
    DATA.iter().enumerate().map(one).collect()
}

fn fedavg() -> Vec<Track> {
    let one = |(k, spread): (usize, &&str)| {
        let data = name(spread);
        track(
            &format!("FedAvg localized, {data}"),
            format!("fedavg, {data}"),
            Model::Localized,
            k,
        )
    };
    DATA.iter().enumerate().map(one).collect()
}

fn claims(results: &Results) -> Result<Vec<Claim>> {
    let of = |tracks: Vec<Track>, measure| results.all(&tracks, measure);
    let pairs = |low: Vec<Values>, high: Vec<Values>| {
        let pairs = low.into_iter().zip(high);
        pairs
            .map(|(low, high)| Check::below(&low, &high))
            .collect::<Vec<_>>()
    };
    let tenth = pairs(
        of(apfl(), Measure::TrainLoss),
        of(fedavg(), Measure::TrainLoss),
    );
    let (personal, local) = (
        of(apfl(), Measure::ValidAccuracy),
        of(fedavg(), Measure::ValidAccuracy),
    );
    let mut eleventh = pairs(local.clone(), personal.clone());
    // Close together while the others are not: at most half as far apart.
    let twice = Values::range("twice APFL's range over the three", &personal);
    let twice = Values {
        by_seed: twice.by_seed.iter().map(|range| 2.0 * range).collect(),
        ..twice
    };
    let apart = Values::range("FedAvg's range", &local);
    eleventh.push(Check::below(&twice, &apart));
    Ok(vec![
        all_of(
            "10: adaptive APFL lies below localized FedAvg in training loss on each of the three data sets",
            "below on each",
            tenth,
        ),
        all_of(
            "11: adaptive APFL lies above localized FedAvg in validation accuracy, and its three curves end close together while FedAvg's do not (at most half as far apart)",
            "above, and close together",
            eleventh,
        ),
    ])
}
