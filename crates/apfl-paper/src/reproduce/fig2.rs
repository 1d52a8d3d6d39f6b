//! Figure 2: APFL against FedAvg and SCAFFOLD on MNIST with 2 classes, 4 classes and IID.

use apfl::error::Result;

use super::item::{
    Item, LINEAR_VARIANTS, SCAFFOLD_LOCALIZED, SEEDS, last_and_finalized, loss_and_accuracy, run,
};
use super::results::{Measure, Model, Results, Track, track};
use super::verdict::{Check, Claim, Values, all_of, each_below, rising};

const DATA: [(&str, &str); 3] = [
    (
        "2 classes per client",
        "data.partition={ kind = 'stripe', classes = 2 }",
    ),
    (
        "4 classes per client",
        "data.partition={ kind = 'stripe', classes = 4 }",
    ),
    ("IID", "data.partition=iid"),
];

const ALPHAS: [&str; 3] = ["0.25", "0.5", "0.75"];

/// Returns the item: its runs, claims and pictures.
pub fn item() -> Item {
    let mut runs = Vec::new();
    for (name, data) in DATA {
        for alpha in ALPHAS {
            let mixing = format!("algorithm.mixing={{ fixed = {alpha} }}");
            runs.push(run(format!("apfl {alpha}, {name}"), &[data, &mixing]));
        }
        runs.push(run(
            format!("fedavg, {name}"),
            &[data, "algorithm.kind=fedavg"],
        ));
        runs.push(run(
            format!("scaffold, {name}"),
            &[data, "algorithm.kind=scaffold", SCAFFOLD_LOCALIZED],
        ));
    }
    Item {
        name: "fig2",
        title: "APFL with fixed α against FedAvg and SCAFFOLD (MNIST, logistic)",
        preset: include_str!("../../presets/fig2.toml"),
        seeds: SEEDS,
        runs,
        variants: LINEAR_VARIANTS,
        claims,
        figures: |results| {
            let svg = loss_and_accuracy(results, "", &groups());
            Ok(vec![("fig2".into(), svg)])
        },
        tables: |results| {
            Ok(vec![(
                "fig2".into(),
                last_and_finalized(results, &groups()),
            )])
        },
        compare_all_clients: true,
        remarks: &[
            "All clients take part, so online clients are all clients; finalization adds one local round \
             after the last aggregation.",
        ],
    }
}

fn apfl(data: &str) -> Vec<Track> {
    let one = |(k, alpha): (usize, &&str)| {
        track(
            &format!("APFL α={alpha}"),
            format!("apfl {alpha}, {data}"),
            Model::Personal,
            k,
        )
    };
    ALPHAS.iter().enumerate().map(one).collect()
}

fn global(data: &str) -> Vec<Track> {
    vec![
        track("FedAvg global", format!("fedavg, {data}"), Model::Shared, 3),
        track(
            "SCAFFOLD global",
            format!("scaffold, {data}"),
            Model::Shared,
            4,
        ),
    ]
}

fn localized(data: &str) -> Vec<Track> {
    vec![
        track(
            "FedAvg localized",
            format!("fedavg, {data}"),
            Model::Localized,
            3,
        ),
        track(
            "SCAFFOLD localized",
            format!("scaffold, {data}"),
            Model::Localized,
            4,
        ),
    ]
}

fn groups() -> Vec<(String, Vec<Track>)> {
    let group = |(name, _): (&str, &str)| {
        let tracks = [apfl(name), global(name), localized(name)].concat();
        (name.to_string(), tracks)
    };
    DATA.into_iter().map(group).collect()
}

fn claims(results: &Results) -> Result<Vec<Claim>> {
    let of = |tracks: Vec<Track>, measure, data: &str| {
        let named = |v: Values| Values {
            name: format!("{} ({data})", v.name),
            ..v
        };
        results
            .all(&tracks, measure)
            .into_iter()
            .map(named)
            .collect::<Vec<_>>()
    };
    let loss = |tracks, data| of(tracks, Measure::TrainLoss, data);
    let accuracy = |tracks, data| of(tracks, Measure::ValidAccuracy, data);
    let (mut third, mut fourth, mut fifth) = (Vec::new(), Vec::new(), Vec::new());
    for (name, _) in DATA {
        let mut by_alpha = loss(apfl(name), name);
        third.extend(each_below(&by_alpha, &loss(global(name), name)));
        by_alpha.reverse();
        third.extend(rising(&by_alpha));
    }
    for (name, _) in &DATA[..2] {
        let of_apfl = accuracy(apfl(name), name);
        let others = [
            of_apfl[1..].to_vec(),
            accuracy(localized(name), name),
            accuracy(global(name), name),
        ]
        .concat();
        fourth.extend(each_below(&others, &of_apfl[..1]));
        // Not SCAFFOLD's localized model: without drift it is near its global one.
        let fedavg = localized(name).into_iter().take(1).collect();
        let low = [loss(apfl(name), name), loss(fedavg, name)].concat();
        fifth.extend(each_below(&low, &loss(global(name), name)));
    }
    let iid = DATA[2].0;
    let [shared, own] = [global(iid), localized(iid)].map(|tracks| accuracy(tracks, iid));
    let others = [shared.clone(), own.clone()].concat();
    let mut sixth = each_below(&accuracy(apfl(iid), iid), &others);
    // "Local models … preferable": the text does not say to what.
    let above = shared
        .iter()
        .zip(&own)
        .map(|(low, high)| Check::below(low, high));
    sixth.extend(above.map(|check| check.deciding(false)));
    Ok(vec![
        all_of(
            "3: training loss falls as α grows, and every APFL lies below every global model",
            "so on all three data sets",
            third,
        )
        .quoting(
            "taking more proportion of the local model in the personalized model (namely, increasing α) \
             will result in the lower training losses.",
        ),
        all_of(
            "4: with 2 and 4 classes the best validation accuracy is APFL's at α=0.25, above localized and global FedAvg and SCAFFOLD",
            "α=0.25 is best",
            fourth,
        )
        .quoting(
            "the best performance is given by personalized model with α = 0.25 in both (a) and (b) cases, \
             which outperforms the global (FedAvg and SCAFFOLD) and their localized versions.",
        ),
        all_of(
            "5: with 2 and 4 classes global models have high local training loss (above every personal model's and localized FedAvg's)",
            "high",
            fifth,
        )
        .quoting(
            "global models learned from FedAvg and SCAFFOLD have high local training losses.",
        ),
        all_of(
            "6: IID: every model of FedAvg and SCAFFOLD lies above every personal one on validation",
            "personalization does not help",
            sixth,
        )
        .quoting(
            "for IID data, models learned by FedAvg and SCAFFOLD have better generalization capabilities. \
             … When the data are distributed IID, local models of FedAvg or SCAFFOLD is preferable.",
        ),
    ])
}
