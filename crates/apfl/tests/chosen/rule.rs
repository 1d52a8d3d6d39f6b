//! Who decides, and that neither names nor units do: invariants 17 to 19.

use apfl::Mlp;
use apfl::algorithm::Apfl;
use apfl::choice::HeldOut;
use apfl::data::{Examples, InMemory};
use apfl::run::Run;
use apfl::run::choice::choose;

use super::{GRID, alphas, finished};

/// 17: κ → ∞ gives one α for all, the argmin of ℓ̄; κ = 0 each client its own.
#[test]
fn the_prior_decides_who_decides() {
    let run = |prior: &str| {
        let algorithm = format!(
            "{{ kind = 'apfl', mixing = {{ chosen = [0, 0.1, 0.5, 1], folds = 3, prior = {prior} }} }}"
        );
        finished(&algorithm, "training = { rounds = 5 }")
    };
    let everybody = run("1e15");
    let prior = everybody.summary.prior.clone().unwrap();
    assert_eq!((prior.losses.len(), prior.examples), (5, 1e15));
    let best = prior
        .losses
        .iter()
        .min_by(|a, b| a.1.unwrap().total_cmp(&b.1.unwrap()))
        .unwrap();
    assert!(alphas(&everybody).iter().all(|alpha| alpha == best.0));
    assert_eq!(everybody.summary.chosen[best.0], 7);
    // Each its own least loss.
    let own = run("0");
    for client in own.clients().unwrap() {
        let chosen = client.chosen.unwrap();
        let least = chosen.losses.values().map(|loss| loss.unwrap());
        let least = least.fold(f64::INFINITY, f64::min);
        assert_eq!(chosen.losses[&chosen.alpha.name()], Some(least));
        // Every training row was held out once.
        assert_eq!(chosen.rows, client.examples.train as u64);
    }
    let rows: u64 = own
        .clients()
        .unwrap()
        .iter()
        .map(|c| c.chosen.as_ref().unwrap().rows)
        .sum();
    assert_eq!(own.summary.prior.unwrap().rows, rows);
}

/// Clients with the same rows; two kinds of them with opposite answers.
fn opposites(each: usize) -> InMemory {
    let mut data = InMemory::classes(["x", "y"], ["no", "yes"]);
    for client in 0..2 * each {
        let rows: Vec<f32> = (0..80)
            .map(|k| ((k * 37) % 41) as f32 / 20.0 - 1.0)
            .collect();
        let flipped = u32::from(client >= each);
        let labels = rows
            .chunks(2)
            .map(|row| u32::from(row[0] + row[1] > 0.1) ^ flipped);
        let labels = labels.collect();
        let examples = Examples::classes(2, rows, labels).unwrap();
        data.add(format!("c{client}"), examples, 0.2).unwrap();
    }
    data
}

/// 18: identical clients choose identical α.
#[test]
fn identical_clients_choose_alike() {
    let run = |data: InMemory| {
        let model = Mlp::logistic(2, 2, 1e-4);
        Run::builder(data, model)
            .algorithm(Apfl::chosen(GRID))
            .rounds(20)
            .learning_rate(0.5)
            .full_batch()
            .build()
            .unwrap()
            .train()
            .unwrap()
    };
    let alike = alphas(&run(opposites(3)));
    assert!(alike[..3].iter().all(|a| *a == alike[0]), "{alike:?}");
    assert!(alike[3..].iter().all(|a| *a == alike[3]), "{alike:?}");
    // Opposite answers: what the others say is worth nothing.
    assert_eq!((alike[0].as_str(), alike[3].as_str()), ("1", "1"));
}

/// 19: the unit of a loss changes no choice. (A regression label times 1000 that is
/// standardized is the same label; one that is not has 10⁶ times the loss.)
#[test]
fn the_unit_of_the_loss_changes_no_choice() {
    let own = |factor: f64| HeldOut {
        rows: 12,
        sums: [7.0, 6.0, 6.5].map(|sum| factor * sum).to_vec(),
    };
    for prior in [0.0, 3.0, 50.0, 1e6] {
        let curve = [0.5, 0.6, 0.53];
        let of = |factor: f64| choose(&own(factor), &curve.map(|mean| factor * mean), prior);
        assert_eq!(of(1.0), of(1e6));
        assert_eq!(of(1.0), of(1e-6));
    }
}

/// 19 from outside: a label in grams instead of kilograms, standardized as always, changes no
/// choice.
#[test]
fn the_unit_of_a_label_changes_no_choice() {
    let folder = tempfile::tempdir().unwrap();
    let choices = |factor: f64| {
        let mut text = String::from("site,x,y\n");
        for local_client in 0..6 {
            for row in 0..40 {
                // A slope of the site's own beside a common one, and a residual that repeats.
                let x = f64::from(row * 7 % 40) / 10.0 - 2.0;
                let y =
                    x + 0.4 * f64::from(local_client % 3) * x + 0.5 * f64::from(row * row % 5 - 2);
                text += &format!("s{local_client},{x},{}\n", factor * y);
            }
        }
        let file = folder.path().join(format!("{factor}.csv"));
        std::fs::write(&file, text).unwrap();
        let spec = format!(
            "data = {{ kind = 'table', path = '{}', client = 'site', label = 'y', \
                       task = 'regression', standardize = true }}
             algorithm = {{ kind = 'apfl', mixing = {{ chosen = [0, 0.25, 0.5, 1], folds = 3 }} }}
             training = {{ rounds = 8, local_steps = 5, batch = 8 }}",
            file.display()
        );
        let plan = apfl::Spec::parse(&spec).unwrap().plan().unwrap();
        let run = apfl::run::Run::new(&plan, plan.setup().unwrap());
        alphas(&run.train().unwrap())
    };
    let kilograms = choices(1.0);
    assert_eq!(kilograms, choices(1000.0));
    assert!(
        kilograms.iter().any(|a| *a != kilograms[0]),
        "{kilograms:?}"
    );
}
