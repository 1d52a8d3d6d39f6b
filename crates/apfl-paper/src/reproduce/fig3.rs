//! Figure 3: fewer clients per round.

use apfl::error::Result;

use super::item::{Item, LINEAR_VARIANTS, SEEDS, last_and_finalized, loss_and_accuracy, run};
use super::results::{Measure, Model, Results, Track, track};
use super::verdict::{Check, Claim, Values, all_of, each_below, rising};

const SHARES: [&str; 3] = ["0.3", "0.5", "0.7"];
const ALPHAS: [&str; 3] = ["0.25", "0.5", "0.75"];

/// Returns the item: its runs, claims and pictures.
pub fn item() -> Item {
    let mut runs = Vec::new();
    for share in SHARES {
        let sampled = format!("federation.participation={share}");
        for alpha in ALPHAS {
            let mixing = format!("algorithm.mixing={{ fixed = {alpha} }}");
            runs.push(run(
                format!("apfl {alpha}, K={share}"),
                &[&sampled, &mixing],
            ));
        }
        runs.push(run(
            format!("fedavg, K={share}"),
            &[&sampled, "algorithm.kind=fedavg"],
        ));
    }
    Item {
        name: "fig3",
        title: "Sampling a share of the clients each round (MNIST, 2 classes per client, logistic)",
        preset: include_str!("../../presets/fig3.toml"),
        seeds: SEEDS,
        runs,
        variants: LINEAR_VARIANTS,
        claims,
        figures: |results| {
            let svg = loss_and_accuracy(results, "", &groups());
            Ok(vec![("fig3".into(), svg)])
        },
        tables: |results| {
            Ok(vec![(
                "fig3".into(),
                last_and_finalized(results, &groups()),
            )])
        },
        compare_all_clients: true,
        remarks: &[
            "The caption says all clients, the text online clients: the verdicts are on the clients of \
             the last round, with a note where those over all clients differ; the table has both.",
        ],
    }
}

fn apfl(alpha: &str, share: usize) -> Track {
    let sampled = SHARES[share];
    track(
        &format!("APFL α={alpha}, K={sampled}"),
        format!("apfl {alpha}, K={sampled}"),
        Model::Personal,
        share,
    )
}

fn fedavg(share: usize) -> Track {
    let sampled = SHARES[share];
    track(
        &format!("FedAvg localized, K={sampled}"),
        format!("fedavg, K={sampled}"),
        Model::Localized,
        share,
    )
}

fn groups() -> Vec<(String, Vec<Track>)> {
    let group = |alpha: &str| {
        let shares = || 0..SHARES.len();
        let personal = shares().map(|share| Track {
            name: format!("APFL, K={}", SHARES[share]),
            ..apfl(alpha, share)
        });
        (
            format!("α = {alpha}"),
            personal.chain(shares().map(fedavg)).collect(),
        )
    };
    ALPHAS.into_iter().map(group).collect()
}

fn claims(results: &Results) -> Result<Vec<Claim>> {
    let fedavg: Vec<Track> = (0..SHARES.len()).map(fedavg).collect();
    let mut losses = results.all(&fedavg, Measure::TrainLoss);
    losses.reverse();
    let seventh = [
        rising(&losses),
        rising(&results.all(&fedavg, Measure::ValidAccuracy)),
    ];
    let mut eighth = Vec::new();
    for alpha in ALPHAS {
        for (share, local) in fedavg.iter().enumerate() {
            let of = |track: &Track, measure| [results.last(track, measure)];
            let personal = apfl(alpha, share);
            let (loss, accuracy) = (Measure::TrainLoss, Measure::ValidAccuracy);
            eighth.extend(each_below(&of(&personal, loss), &of(local, loss)));
            eighth.extend(each_below(&of(local, accuracy), &of(&personal, accuracy)));
        }
    }
    let ranges = |measure| {
        let range = |alpha: &str| {
            let tracks: Vec<Track> = (0..SHARES.len()).map(|share| apfl(alpha, share)).collect();
            Values::range(
                &format!("range over K at α={alpha}"),
                &results.all(&tracks, measure),
            )
        };
        let mut ranges: Vec<Values> = ALPHAS.into_iter().map(range).collect();
        ranges.reverse();
        rising(&ranges)
    };
    let ninth: Vec<Check> = [ranges(Measure::TrainLoss), ranges(Measure::ValidAccuracy)]
        .into_iter()
        .flatten()
        .collect();
    Ok(vec![
        all_of(
            "7: fewer clients per round worsen localized FedAvg, in training and validation",
            "they do",
            seventh.into_iter().flatten().collect(),
        )
        .without_apfl()
        .quoting(
            "decreasing the sampling ratio has a negative impact on both the training and generalization \
             performance of FedAvg.",
        ),
        all_of(
            "8: APFL beats localized FedAvg at every K and α, in both",
            "at every one",
            eighth,
        )
        .quoting(
            "despite the sampling ratio, APFL is outperforming local model of the FedAvg in both training \
             and generalization.",
        ),
        all_of(
            "9: the spread over K shrinks as α grows",
            "it shrinks",
            ninth,
        )
        .quoting(
            "Increasing α can diminish the negative impacts of sampling on personalized models both in \
             training and generalization.",
        ),
        preferred(results),
    ])
}

/// Judges whether training loss falls and validation accuracy rises with α.
fn preferred(results: &Results) -> Claim {
    let mut checks = Vec::new();
    for share in 0..SHARES.len() {
        let tracks = ALPHAS.map(|alpha| apfl(alpha, share));
        let mut losses = results.all(&tracks, Measure::TrainLoss);
        losses.reverse();
        checks.extend(rising(&losses));
        checks.extend(rising(&results.all(&tracks, Measure::ValidAccuracy)));
    }
    let mut claim = all_of(
        "25: the larger α, the lower the training loss and the higher the validation accuracy, at every K",
        "larger α are preferred",
        checks,
    )
    .quoting(
        "from the results of Figure 2, we know that for this dataset that is highly non-IID, larger α \
         values are preferred.",
    );
    claim.remark(
        "in validation the sentence contradicts claim 4's, by which α = 0.25 is the best there",
    );
    claim
}
