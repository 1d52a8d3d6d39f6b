//! Not in the paper: the accuracy that privacy costs the shared and the personal models.

use apfl::error::Result;
use apfl::spec::Spec;
use apfl_report::chart::{self, Axis, Chart};

use super::item::{Item, Pictures, SEEDS, Tables, run};
use super::results::{Measure, Model, Results, Track, banded, track};

/// ε and its position in the picture; the last has no privacy.
const EPSILONS: [(&str, f64); 6] = [
    ("0.5", 0.5),
    ("1", 1.0),
    ("2", 2.0),
    ("4", 4.0),
    ("8", 8.0),
    ("∞", 16.0),
];

const DATA: [(&str, &[&str]); 2] = [
    (
        "MNIST, 2 classes per client, 100 clients",
        &["training.rounds=50"],
    ),
    (
        "synthetic(1, 1), 1000 clients",
        &[
            "data={ kind = 'synthetic', gamma = 1.0, beta = 1.0, clients = 1000, validation = 0.2 }",
            "federation.participation=0.1",
            "training.rounds=100",
        ],
    ),
];

const FIXED: &str = "algorithm.mixing={ fixed = 0.5 }";
/// Every client chooses alone, as a curve over all clients would need noise of its own. Rows are
/// held out once, as each pass releases a shared model and ε is that of all passes together.
const CHOSEN: &str = "algorithm.mixing={ chosen = [0, 0.25, 0.5, 0.75, 1], folds = 1, prior = 0 }";

/// Returns whether clients can choose α alone.
fn can_choose() -> bool {
    let mut spec = Spec::default();
    spec.set(CHOSEN).is_ok() && spec.plan().is_ok()
}

/// Returns the item: its runs and pictures.
pub fn item() -> Item {
    let mut runs = Vec::new();
    let chosen = can_choose();
    for (data, set) in DATA {
        let set = [set, &["evaluation.every=1000000"]].concat();
        for (epsilon, at) in EPSILONS {
            let privacy = format!(
                "federation.privacy={{ level = 'client', epsilon = {at:?}, delta = 1e-5, clip = 0.5 }}"
            );
            let mut own = set.clone();
            if epsilon != "∞" {
                own.push(&privacy);
            }
            runs.push(run(
                name("fixed", data, epsilon),
                &[&own[..], &[FIXED]].concat(),
            ));
            if chosen {
                runs.push(run(
                    name("chosen", data, epsilon),
                    &[&own[..], &[CHOSEN]].concat(),
                ));
            }
        }
        runs.push(run(
            alone(data),
            &[&set[..], &["algorithm.kind=local"]].concat(),
        ));
    }
    Item {
        name: "privacy",
        title: "ε for clients against shared, localized and personal models (logistic; not in the paper)",
        preset: include_str!("../../presets/fig2.toml"),
        seeds: SEEDS,
        runs,
        variants: &[],
        claims: |_| Ok(Vec::new()),
        figures,
        tables,
        compare_all_clients: false,
        remarks: &[
            "Privacy by client with δ = 1e-5 and updates clipped to 0.5; the noise follows from ε, the \
             rounds and the participation. Nothing was tuned to it. In the picture ∞, no privacy, \
             stands at 16. Training alone sends nothing and has no ε.",
            "To choose α, the shared model is trained twice, with a fifth of the rows held out and on all \
             of them. ε is that of both together, so the noise is larger. Every client chooses by its own \
             rows (prior = 0).",
        ],
    }
}

fn name(mixing: &str, data: &str, epsilon: &str) -> String {
    format!("apfl {mixing}, {data}, epsilon {epsilon}")
}

fn alone(data: &str) -> String {
    format!("local, {data}")
}

/// A curve of the picture: its name, and its track at an ε.
type Curve = (&'static str, Box<dyn Fn(&str) -> Track>);

fn curves(data: &'static str, results: &Results) -> Vec<Curve> {
    let of = |label: &'static str, mixing: &'static str, model: Model, colour: usize| -> Curve {
        let at = move |epsilon: &str| track(label, name(mixing, data, epsilon), model, colour);
        (label, Box::new(at))
    };
    let mut curves = vec![
        of("shared", "fixed", Model::Shared, 1),
        of("localized", "fixed", Model::Localized, 2),
        of("personal, α = 0.5", "fixed", Model::Personal, 0),
    ];
    if !results.runs(&name("chosen", data, "∞")).is_empty() {
        curves.push(of("personal, α chosen", "chosen", Model::Personal, 3));
    }
    let by_itself = move |_: &str| track("alone", alone(data), Model::Personal, 4);
    curves.push(("alone", Box::new(by_itself)));
    curves
}

fn figures(results: &Results) -> Result<Pictures> {
    let mut charts = Vec::new();
    for (data, _) in DATA {
        let mut series = Vec::new();
        for (label, at) in curves(data, results) {
            let point = |(epsilon, x): (&str, f64)| {
                let values = results.finalized(&at(epsilon), Measure::ValidAccuracy);
                (x, values.sample())
            };
            let colour = at("∞").colour;
            let points = EPSILONS.into_iter().map(point).collect();
            series.push(banded(label, colour, points, label == "alone"));
        }
        charts.push(Chart {
            title: data.into(),
            x: Axis::log("ε (16: no privacy)"),
            y: Axis::percent("validation accuracy").within(0.0, 1.0),
            series,
        });
    }
    Ok(vec![(
        "privacy".into(),
        chart::panels("", &charts, DATA.len()),
    )])
}

fn tables(results: &Results) -> Result<Tables> {
    let mut rows = vec![["data", "model"].map(String::from).to_vec()];
    rows[0].extend(EPSILONS.iter().map(|(epsilon, _)| format!("ε = {epsilon}")));
    for (data, _) in DATA {
        for (label, at) in curves(data, results) {
            let cell = |(epsilon, _): &(&str, f64)| {
                let values = results.finalized(&at(epsilon), Measure::ValidAccuracy);
                values.sample().percent()
            };
            let mut row = [data, label].map(String::from).to_vec();
            row.extend(EPSILONS.iter().map(cell));
            rows.push(row);
        }
    }
    Ok(vec![("privacy".into(), rows)])
}
