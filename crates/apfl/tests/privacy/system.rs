//! Noise from the operating system: every release is entered before it happens, and counts.

use std::ops::ControlFlow;
use std::path::Path;

use apfl::privacy::Mechanism;
use apfl::run::{Ended, Event, Finished, Run};
use apfl::spec::{Plan, Resources};
use tempfile::TempDir;

use super::plan;

/// A run that is ended after some rounds as a kill would: what came after the last checkpoint is
/// lost.
fn killed_after(plan: &Plan, path: &Path, rounds: u64) {
    let run = run(plan, path);
    let checkpoints = path.join("checkpoint");
    let kept = path.with_extension("kept");
    let ended = run.watch(&mut |event| match event {
        Event::Round(record) if record.round == rounds => {
            // What is there now is what a kill leaves; stopping writes one more.
            copy(&checkpoints, &kept);
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(ended.unwrap(), Ended::Stopped(_)));
    let _ = std::fs::remove_dir_all(&checkpoints);
    copy(&kept, &checkpoints);
    let _ = std::fs::remove_dir_all(&kept);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let Ok(files) = std::fs::read_dir(from) else {
        return;
    };
    for file in files {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

fn run(plan: &Plan, path: &Path) -> Run {
    let on = Resources {
        directory: Some(path),
        ..Resources::default()
    };
    let setup = plan.setup_with(plan.data.load().unwrap(), on).unwrap();
    Run::new(plan, setup).resume(path)
}

fn releases(path: &Path) -> usize {
    let text = std::fs::read_to_string(path.join("releases.jsonl")).unwrap();
    text.lines().count()
}

/// A run that was killed and resumed, with its entries, and the directory that holds it.
fn finished(settings: &[&str], killed: &[u64]) -> (Finished, usize, TempDir) {
    let plan = plan(settings);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    for rounds in killed {
        killed_after(&plan, &path, *rounds);
    }
    let finished = run(&plan, &path).train().unwrap();
    (finished, releases(&path), directory)
}

/// Checkpoints after rounds 2, 4 and 6. Killed after 3 and again after 5, the run begins rounds
/// 3 and 5 twice: eight releases of six rounds.
#[test]
fn rounds_that_are_repeated_count_again() {
    let of = |level: &str| {
        format!("federation.privacy={{ level = '{level}', noise = 2.0, noise_seed = 'system' }}")
    };
    let privacy = of("client");
    let half = [
        &privacy,
        "checkpoint.every=2",
        "federation.participation=0.5",
    ];
    let (whole, entered, _) = finished(&half, &[]);
    let whole = whole.summary.privacy.unwrap();
    assert_eq!((entered, whole.steps, whole.lost), (6, 6, 0));
    assert!(!whole.simulation);
    let (resumed, entered, _directory) = finished(&half, &[3, 5]);
    let spent = resumed.summary.privacy.clone().unwrap();
    assert_eq!((entered, spent.steps, spent.lost), (8, 8, 2));
    let cost = Mechanism {
        noise: 2.0,
        sampling: 0.5,
    };
    let epsilon = spent.epsilon.unwrap();
    assert!((epsilon - cost.cost(8, 1e-5).epsilon()).abs() < 1e-3 * epsilon);
    assert_eq!(resumed.rounds().unwrap().len(), 6);

    // By example: everybody who was in rounds 3 and 5 again.
    let privacy = of("example");
    let all = [&privacy, "checkpoint.every=2"];
    let (whole, ..) = finished(&all, &[]);
    let (resumed, entered, _directory) = finished(&all, &[3, 5]);
    let (whole, spent) = (
        whole.summary.privacy.unwrap(),
        resumed.summary.privacy.clone().unwrap(),
    );
    assert_eq!((entered, whole.steps, spent.steps), (8, 6 * 3, 8 * 3));
    assert!(spent.epsilon > whole.epsilon);
    let own = resumed.clients().unwrap();
    let most = own.iter().filter_map(|c| c.epsilon).fold(0.0, f64::max);
    assert_eq!(Some(most), spent.epsilon);
}

/// ε = 2 is enough for six rounds and no more: with two repeated there are four.
#[test]
fn a_run_ends_before_epsilon_is_exceeded_also_where_rounds_were_repeated() {
    let settings = [
        "federation.privacy={ level = 'client', epsilon = 2.0, noise_seed = 'system' }",
        "checkpoint.every=2",
        "federation.participation=0.5",
    ];
    let (resumed, entered, _directory) = finished(&settings, &[3, 3]);
    let spent = resumed.summary.privacy.clone().unwrap();
    assert_eq!((entered, spent.steps, spent.lost), (6, 6, 2));
    assert!(spent.epsilon.unwrap() <= 2.0);
    assert_eq!(resumed.summary.rounds, 4);
    let rounds = resumed.rounds().unwrap();
    assert!(rounds.len() == 4 && rounds[3].scores.is_some());
}

#[test]
fn no_two_runs_are_alike_and_all_of_it_is_said() {
    for level in ["client", "example"] {
        let privacy = format!(
            "federation.privacy={{ level = '{level}', noise = 1.0, noise_seed = 'system' }}"
        );
        let once = || finished(&[&privacy], &[]).0.summary.fingerprint;
        assert_ne!(once(), once());
        let setup = plan(&[&privacy]).setup().unwrap();
        let notes = setup.notes.join("\n");
        assert!(notes.contains("the operating system's"), "{notes}");
        assert!(!notes.contains("simulation"), "{notes}");
    }
}

/// Without its releases nobody knows what a run has cost.
#[test]
fn a_run_whose_releases_are_lost_is_not_resumed() {
    let settings = [
        "federation.privacy={ level = 'client', noise = 1.0, noise_seed = 'system' }",
        "checkpoint.every=2",
    ];
    let plan = plan(&settings);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    killed_after(&plan, &path, 3);
    std::fs::write(path.join("releases.jsonl"), "").unwrap();
    let error = run(&plan, &path).train().unwrap_err().to_string();
    assert!(
        error.contains("releases.jsonl has no entry of round 1"),
        "{error}"
    );
}

/// For a choice w is trained folds + 1 times: ε is that of all of it, whoever makes the noise.
#[test]
fn the_passes_of_a_choice_are_paid_for_together() {
    for (seed, killed) in [("seed", false), ("system", false), ("system", true)] {
        let privacy = format!(
            "federation.privacy={{ level = 'client', noise = 2.0, noise_seed = '{seed}' }}"
        );
        let settings = [
            &privacy,
            "algorithm.mixing={ chosen = [0, 0.5, 1], folds = 2, prior = 0 }",
            "checkpoint.every=2",
            "federation.participation=0.5",
        ];
        let plan = plan(&settings);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        if killed {
            // In the first pass, before its first checkpoint.
            killed_after(&plan, &path, 3);
            std::fs::remove_dir_all(path.join("choice/1/checkpoint")).unwrap();
        }
        let run = run(&plan, &path).train().unwrap();
        let spent = run.summary.privacy.clone().unwrap();
        let repeated = if killed { 3 } else { 0 };
        assert_eq!(
            (spent.steps, spent.lost),
            (18 + repeated, repeated),
            "{seed}"
        );
        let cost = Mechanism {
            noise: 2.0,
            sampling: 0.5,
        };
        let expected = cost.cost(spent.steps, 1e-5).epsilon();
        let epsilon = spent.epsilon.unwrap();
        assert!(
            (epsilon - expected).abs() < 1e-3 * expected,
            "{epsilon} {expected}"
        );
        if seed == "system" {
            assert_eq!(releases(&path) as u64, spent.steps);
            assert!(!path.join("choice/1/releases.jsonl").exists());
        }
    }
}

/// The noise that ε asks for is that of all passes.
#[test]
fn a_choice_has_more_noise_for_the_same_epsilon() {
    let noise = |mixing: &str| {
        let mixing = format!("algorithm.mixing={mixing}");
        let privacy = "federation.privacy={ level = 'client', epsilon = 2.0 }";
        let plan = plan(&[&mixing, privacy, "federation.participation=0.5"]);
        plan.setup().unwrap().privacy.unwrap().noise
    };
    let expected = |rounds| apfl::privacy::noise_for(2.0, 0.5, rounds, 1e-5).unwrap();
    let fixed = noise("{ fixed = 0.5 }");
    assert!((fixed / expected(6) - 1.0).abs() < 1e-3);
    let chosen = noise("{ chosen = [0, 0.5, 1], folds = 2, prior = 0 }");
    assert!((chosen / expected(18) - 1.0).abs() < 1e-3);
    let one = noise("{ chosen = [0, 0.5, 1], folds = 1, refit = false, prior = 0 }");
    assert_eq!(one, fixed);
}
