//! Figure 4: learned α on synthetic data.

use apfl::error::Result;
use apfl_report::chart;

use super::item::{Item, LINEAR_VARIANTS, SEEDS, last_and_finalized, rounds, run};
use super::results::{Measure, Model, Results, Track, track};
use super::verdict::{Check, Claim, Values, all_of};

const DATA: [&str; 3] = ["0", "0.5", "1"];

/// Returns the item: its runs, claims and pictures.
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
        seeds: SEEDS,
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
            Ok(vec![("fig4".into(), last_and_finalized(results, &groups))])
        },
        compare_all_clients: false,
        remarks: &[
            "γ adds the same number to every class's score of an example, so that argmax ignores it: \
             the three data sets differ by β alone.",
        ],
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
    // A gap between all curves of both.
    eleventh.push(Check::below(
        &Values::largest("the best of FedAvg's", &local),
        &Values::smallest("the worst of APFL's", &personal),
    ));
    Ok(vec![
        all_of(
            "10: adaptive APFL lies below localized FedAvg in training loss on each of the three data sets",
            "below on each",
            tenth,
        )
        .quoting("in training, APFL outperforms FedAvg in the same datasets."),
        all_of(
            "11: adaptive APFL lies above localized FedAvg in validation accuracy, the worst of its three curves above the best of FedAvg's",
            "above, by a huge gap",
            eleventh,
        )
        .quoting(SAME),
        almost_the_same(&personal, &local),
    ])
}

const SAME: &str = "in generalization of learned APFL personalized models, all datasets achieve almost \
                    the same performance as a result of adaptively updating α values, while the FedAvg \
                    algorithm has a huge gap with them.";

/// Judges whether APFL's accuracies on the three data sets are closer to each other than FedAvg's,
/// and than they are to FedAvg's.
fn almost_the_same(personal: &[Values], local: &[Values]) -> Claim {
    let range = Values::range("APFL's range over the three data sets", personal);
    let gap = |seed: usize| {
        let pairs = personal.iter().zip(local);
        let sum: f64 = pairs.map(|(p, l)| p.by_seed[seed] - l.by_seed[seed]).sum();
        sum / personal.len() as f64
    };
    let gap = Values {
        name: "its mean gap to FedAvg".into(),
        by_seed: (0..range.by_seed.len()).map(gap).collect(),
    };
    let checks = vec![
        Check::below(&range, &Values::range("FedAvg's range", local)),
        Check::below(&range, &gap),
    ];
    let mut claim = all_of(
        "26: adaptive APFL's validation accuracies on the three data sets are closer to each other than FedAvg's are, and than they are to FedAvg's",
        "almost the same",
        checks,
    )
    .quoting(SAME);
    let percent = range.sample().percent();
    let points = percent.trim_end_matches('%');
    claim.remark(format!("APFL's range is {points} points"));
    claim
}
