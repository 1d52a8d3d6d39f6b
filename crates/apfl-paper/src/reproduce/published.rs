//! Not in the paper: published tables that compare APFL with related algorithms.

use std::path::{Path, PathBuf};

use apfl::data::folder::data_directory;
use apfl::error::Result;

use super::item::{Item, Pictures, SEEDS, Tables, loss_and_accuracy, run};
use super::results::{Measure, Model, Results, Track, track};
use super::verdict::{Claim, Values, all_of, each_below};

/// Represents a row: one model of one run, and the published accuracy in percent.
struct Row {
    track: Track,
    published: f64,
}

fn row(name: &str, run: &str, model: Model, colour: usize, published: f64) -> Row {
    Row {
        track: track(name, run, model, colour),
        published,
    }
}

/// Returns FedRep's table of CIFAR-10 (Collins et al., 2021).
pub fn fedrep() -> Item {
    Item {
        name: "fedrep",
        title: "The CNN on CIFAR-10 with 2 classes per client, as FedRep's table has it (not in the paper)",
        preset: include_str!("../../presets/fedrep.toml"),
        seeds: SEEDS,
        runs: vec![
            run("local", &["algorithm.kind=local"]),
            run("fedavg", &["algorithm.kind=fedavg"]),
            run("apfl", &[]),
            run("ditto", &["algorithm.kind=ditto"]),
            run("fedper", &["algorithm.kind=fedper"]),
            // Ten epochs of the head, one of the base.
            run(
                "fedrep",
                &[
                    "algorithm={ kind = 'fedrep', head_share = 0.909 }",
                    "training.local_epochs=11",
                ],
            ),
        ],
        variants: &[],
        claims: fedrep_claims,
        figures: |results| Ok(figure(results, "fedrep", &fedrep_rows())),
        tables: |results| Ok(table(results, "fedrep", &fedrep_rows())),
        compare_all_clients: false,
        remarks: &[
            "Published: their own CNN (two convolutions, three dense layers), 500 training images a \
             client and CIFAR-10's test images, the mean over the last ten rounds. Here: convolutions \
             of 20 and 50 channels and two dense layers, 400 images to train and 100 to validate, all \
             clients after the last round.",
            "FedRep takes ten epochs of the head and one of the base, the others one epoch; APFL has α \
             = 0.75 and Ditto λ = 1. Training alone has a tenth of the rounds too.",
        ],
    }
}

fn fedrep_rows() -> Vec<Row> {
    let personal = Model::Personal;
    vec![
        row("training alone", "local", personal, 4, 89.8),
        row("FedRep", "fedrep", personal, 5, 87.7),
        row("FedPer", "fedper", personal, 2, 87.1),
        row("Ditto", "ditto", personal, 1, 85.4),
        row("APFL α=0.75", "apfl", personal, 0, 83.8),
        row("FedAvg, shared", "fedavg", Model::Shared, 3, 42.7),
    ]
}

fn fedrep_claims(results: &Results) -> Result<Vec<Claim>> {
    let found = |row: &Row| results.finalized(&row.track, Measure::ValidAccuracy);
    let all: Vec<Values> = fedrep_rows().iter().map(found).collect();
    let above = |claim: &str, paper: &str, high: &[Values], low: &[Values]| {
        all_of(claim, paper, each_below(low, high))
    };
    Ok(vec![
        above(
            "every model of a client's own lies above FedAvg's shared one",
            "83.8–89.8% against 42.7%",
            &all[..5],
            &all[5..],
        ),
        above(
            "training alone lies above the rest",
            "89.8% against 87.7% and less",
            &all[..1],
            &all[1..5],
        ),
        above(
            "FedRep and FedPer, which share the base, lie above Ditto and APFL",
            "87.1% and more against 85.4% and less",
            &all[1..3],
            &all[3..5],
        ),
        above(
            "FedRep lies above FedPer",
            "87.7% against 87.1%",
            &all[1..2],
            &all[2..3],
        ),
        above(
            "Ditto lies above APFL",
            "85.4% against 83.8%",
            &all[3..4],
            &all[4..5],
        ),
    ])
}

/// Returns PFLlib's table of Fashion-MNIST.
pub fn pfllib() -> Item {
    let folder = fashion_mnist();
    let file = |key: &str, name: &str| format!("data.{key}='{}'", folder.join(name).display());
    let images = file("images", "train-images-idx3-ubyte.gz");
    let labels = file("labels", "train-labels-idx1-ubyte.gz");
    let of = |name: &str, kind: &str| run(name, &[&images, &labels, kind]);
    Item {
        name: "pfllib",
        title: "The CNN on Fashion-MNIST with 2 classes per client, as PFLlib's table has it (not in the paper)",
        preset: include_str!("../../presets/pfllib.toml"),
        seeds: SEEDS,
        runs: vec![
            of("fedavg", "algorithm.kind=fedavg"),
            of("apfl", "algorithm.kind=apfl"),
            of("ditto", "algorithm.kind=ditto"),
        ],
        variants: &[],
        claims: pfllib_claims,
        figures: |results| Ok(figure(results, "pfllib", &pfllib_rows())),
        tables: |results| Ok(table(results, "pfllib", &pfllib_rows())),
        compare_all_clients: false,
        remarks: &[
            "Published: the best of up to 2000 rounds, all 70,000 images in parts of unequal size, 75% \
             of each to train; by default Ditto with λ = 0 and APFL from α = 1. Here: the \
             best of 10 rounds, the 60,000 training images in equal parts; Ditto with λ = 1, APFL's α \
             learned from 0.5.",
            "Fashion-MNIST is looked for in `fashion-mnist` of the data directory and where Debian's \
             dataset-fashion-mnist puts it.",
        ],
    }
}

/// Returns the folder in the data directory, or that of Debian's package.
fn fashion_mnist() -> PathBuf {
    let debian = Path::new("/usr/share/datasets/fashion-mnist");
    let own = data_directory().join("fashion-mnist");
    if !own.exists() && debian.exists() {
        debian.into()
    } else {
        own
    }
}

fn pfllib_rows() -> Vec<Row> {
    vec![
        row("Ditto", "ditto", Model::Personal, 1, 99.44),
        row("APFL adaptive", "apfl", Model::Personal, 0, 99.41),
        row("FedAvg, shared", "fedavg", Model::Shared, 3, 80.41),
    ]
}

fn pfllib_claims(results: &Results) -> Result<Vec<Claim>> {
    let found = |row: &Row| results.best(&row.track, Measure::ValidAccuracy);
    let all: Vec<Values> = pfllib_rows().iter().map(found).collect();
    Ok(vec![
        all_of(
            "Ditto and APFL lie above FedAvg's shared model",
            "99.4% against 80.41%",
            each_below(&all[2..], &all[..2]),
        ),
        all_of(
            "Ditto lies above APFL",
            "99.44% against 99.41%",
            each_below(&all[1..2], &all[..1]),
        ),
    ])
}

fn figure(results: &Results, name: &str, rows: &[Row]) -> Pictures {
    let tracks = rows.iter().map(|row| row.track.clone()).collect();
    let groups = [(String::new(), tracks)];
    vec![(name.into(), loss_and_accuracy(results, "", &groups))]
}

fn table(results: &Results, name: &str, rows: &[Row]) -> Tables {
    let heads = [
        "model",
        "published",
        "ours, best round",
        "ours, last round, all clients",
        "train loss",
    ];
    let mut lines = vec![heads.map(String::from).to_vec()];
    for Row { track, published } in rows {
        lines.push(vec![
            track.name.clone(),
            format!("{published}%"),
            results
                .best(track, Measure::ValidAccuracy)
                .sample()
                .percent(),
            results
                .finalized(track, Measure::ValidAccuracy)
                .sample()
                .percent(),
            results
                .finalized(track, Measure::TrainLoss)
                .sample()
                .number(),
        ]);
    }
    vec![(name.into(), lines)]
}
