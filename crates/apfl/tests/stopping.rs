//! `training.stop`: where a run stops, and that its models are those of a run of that many rounds.

use std::ops::ControlFlow;
use std::path::Path;

use apfl::algorithm::every_algorithm;
use apfl::clients::EvaluationRows;
use apfl::run::{Ended, Event, Finished, Run, StopReason};
use apfl::spec::{Plan, Resources, Spec};

use crate::small::fitting;

/// A run that overfits within a few rounds: few rows, long rounds, a high rate.
fn spec(algorithm: &str, more: &str) -> Spec {
    let text = format!(
        "algorithm = {algorithm}
         data = {{ kind = 'synthetic', clients = 5, features = 6, classes = 3, max_examples = 60 }}
         training = {{ rounds = 14, local_steps = 3, batch = 8, learning_rate = 0.3 }}
         checkpoint = {{ every = 2 }}"
    );
    let mut spec = Spec::parse(&text).unwrap();
    for assignment in more.lines().map(str::trim).filter(|line| !line.is_empty()) {
        spec.set(assignment).unwrap();
    }
    fitting(spec)
}

fn plan(algorithm: &str, more: &str) -> Plan {
    spec(algorithm, more).plan().unwrap()
}

fn train(plan: &Plan) -> Finished {
    Run::new(plan, plan.setup().unwrap()).train().unwrap()
}

/// Trains in a directory, interrupted after every third round and resumed.
fn interrupted(plan: &Plan, path: &Path) -> Finished {
    loop {
        let on = Resources {
            directory: Some(path),
            ..Resources::default()
        };
        let setup = plan.setup_with(plan.data.load().unwrap(), on).unwrap();
        let mut rounds = 0;
        let ended = Run::new(plan, setup).resume(path).watch(&mut |event| {
            rounds += u32::from(matches!(event, Event::Round(_)));
            match (rounds, event) {
                (3, Event::Round(_) | Event::Finalizing(_)) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        if let Ended::Finished(finished) = ended.unwrap() {
            return *finished;
        }
    }
}

/// Every algorithm, with all clients or a part of them in a round: the run that stops has the
/// models of a run of as many rounds as it serves, and so has one that is interrupted.
fn serves_the_best_round(remainder: usize) {
    let mut converged = 0;
    for (k, algorithm) in every_algorithm()
        .iter()
        .enumerate()
        .skip(remainder)
        .step_by(2)
    {
        let share = if k % 4 < 2 { "1.0" } else { "0.6" };
        let more = format!(
            "federation.participation={share}
             training.stop={{ patience = 2, min_delta = 0.1 }}"
        );
        let plan = plan(algorithm, &more);
        if plan.algorithm.choosing().is_some() {
            continue; // below
        }
        let stopped = train(&plan);
        let stop = stopped.summary.stopped.unwrap();
        converged += u32::from(stop.reason == StopReason::Converged);
        assert_eq!(stop.rows, Some(EvaluationRows::Valid));
        assert!(
            (1..=stopped.summary.rounds).contains(&stop.served),
            "{algorithm}"
        );
        assert_eq!(
            stopped.rounds().unwrap().len() as u64,
            stopped.summary.rounds
        );

        let directory = tempfile::tempdir().unwrap();
        let mut on_disk = plan.clone();
        on_disk.engine.memory_budget = Some(1 << 20);
        let resumed = interrupted(&on_disk, &directory.path().join("run"));
        assert_eq!(resumed.summary.stopped, Some(stop), "{algorithm}");
        assert_eq!(resumed.summary.rounds, stopped.summary.rounds);
        assert_eq!(resumed.summary.fingerprint, stopped.summary.fingerprint);

        let mut short = plan.clone();
        (short.rounds, short.stop) = (stop.served, None);
        if plan.theory().is_none() {
            let short = train(&short);
            assert_eq!(
                short.summary.fingerprint, stopped.summary.fingerprint,
                "{algorithm}"
            );
            assert_eq!(short.clients().unwrap(), stopped.clients().unwrap());
        }
    }
    assert!(converged >= 3, "{converged} stopped by themselves");
}

#[test]
fn every_other_algorithm_serves_its_best_round() {
    serves_the_best_round(0);
}

#[test]
fn the_other_algorithms_serve_their_best_round() {
    serves_the_best_round(1);
}

/// Losses read from the records, and the rule applied by hand: with patience 1 and a least
/// improvement of a fifth the run stops at the first loss above four fifths of the one before.
#[test]
fn the_records_show_where_it_stops() {
    let more = "training.stop={ patience = 1, min_delta = 0.2 }";
    let run = train(&plan("{ kind = 'fedavg' }", more));
    let rounds = run.rounds().unwrap();
    let loss = |k: usize| rounds[k].scores.unwrap().personal.valid.loss;
    let losses: Vec<f64> = (0..rounds.len()).map(loss).collect();
    let mut pairs = losses.windows(2);
    let first = pairs.position(|pair| pair[1] >= 0.8 * pair[0]).unwrap();
    assert_eq!(rounds.len(), first + 2);
    let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let best = losses.iter().position(|loss| *loss == least).unwrap();
    let stopped = run.summary.stopped.unwrap();
    assert_eq!(stopped.served, best as u64 + 1);
    assert_eq!(stopped.loss, Some(least));
}

/// With sampling, the loss is that which a fixed three of the five clients have after a last
/// local round from the state that is served: what finalization gives them.
#[test]
fn with_sampling_a_fixed_cohort_decides() {
    let more = "federation.participation=0.6
                training.stop={ patience = 2, min_delta = 0.01 }";
    let run = train(&plan("{ kind = 'apfl', mixing = { fixed = 0.5 } }", more));
    let loss = run.summary.stopped.unwrap().loss.unwrap();
    let clients = run.clients().unwrap();
    let of = |client: &apfl::run::ClientRecord| {
        let n = client.examples.valid as f64;
        (n * client.scores.personal.valid.loss, n)
    };
    let sums: Vec<(f64, f64)> = clients.iter().map(of).collect();
    let subsets = (0u32..32).filter(|subset| subset.count_ones() == 3);
    let matches = subsets.filter(|subset| {
        let chosen = (0..5).filter(|k| subset >> k & 1 == 1).map(|k| sums[k]);
        let (sum, n) = chosen.fold((0.0, 0.0), |(s, m), (sum, n)| (s + sum, m + n));
        (sum / n - loss).abs() < 1e-9
    });
    assert_eq!(matches.count(), 1);
}

/// Passes of a choice stop by their held-out rows; the last one ends at the median of the rounds
/// they serve.
#[test]
fn a_choice_ends_at_the_median_of_its_passes() {
    let more = "training.stop={ patience = 2, min_delta = 0.01 }";
    let chosen = "{ kind = 'apfl', mixing = { chosen = [0, 0.5, 1], folds = 3, prior = 5 } }";
    let plan = plan(chosen, more);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let run = interrupted(&plan, &path);
    let mut served = Vec::new();
    for pass in 1..=3 {
        let text = std::fs::read_to_string(path.join(format!("choice/{pass}/summary.json")));
        let summary: apfl::run::Summary = serde_json::from_str(&text.unwrap()).unwrap();
        let stopped = summary.stopped.unwrap();
        assert_eq!(stopped.rows, Some(EvaluationRows::HeldOut));
        served.push(stopped.served);
    }
    served.sort_unstable();
    let stopped = run.summary.stopped.unwrap();
    assert_eq!(stopped.reason, StopReason::Median);
    assert_eq!((run.summary.rounds, stopped.served), (served[1], served[1]));
    let in_memory = train(&plan);
    assert_eq!(run.summary.fingerprint, in_memory.summary.fingerprint);
    assert_eq!(run.clients().unwrap(), in_memory.clients().unwrap());
}

/// A run that has not converged by its last round says so, a run that stops does not.
#[test]
fn a_run_that_still_improves_says_so() {
    let slow = "training.learning_rate=0.001";
    let fall = train(&plan("{ kind = 'fedavg' }", slow))
        .summary
        .not_converged;
    let slow = plan("{ kind = 'fedavg' }", slow);
    let loss = |k: usize| {
        let rounds = train(&slow).rounds().unwrap();
        rounds[k].scores.unwrap().personal.valid.loss
    };
    // Fourteen evaluations: a tenth is one.
    let expected = 1.0 - loss(13) / loss(12);
    assert_eq!(fall.is_some(), expected > 0.01);
    assert!(fall.is_none_or(|fall| (fall - expected).abs() < 1e-12));
    let converged = plan(
        "{ kind = 'fedavg' }",
        "training.stop={ patience = 1, min_delta = 0.5 }",
    );
    assert_eq!(train(&converged).summary.not_converged, None);
}

#[test]
fn what_a_spec_may_say() {
    let problem = |more: &str| {
        let error = spec("{ kind = 'fedavg' }", more)
            .plan()
            .unwrap_err()
            .to_string();
        error.lines().last().unwrap().trim().to_string()
    };
    assert!(
        problem("training.stop=on").starts_with("training.stop: found \"on\", allowed is \"off\"")
    );
    assert!(problem("training.stop.patience=0").contains("training.stop.patience: found 0"));
    assert!(problem("training.stop.min_delta=1").contains("training.stop.min_delta: found 1"));
    assert!(problem("training.stop.patients=1").contains("did you mean \"patience\""));
    let private = "training.stop.patience=3
                   federation.privacy={ level = 'client', noise = 1.0, delta = 1e-5, clip = 1.0 }";
    assert!(problem(private).contains("losses without noise"));
    let off = plan(
        "{ kind = 'fedavg' }",
        "training.stop.patience=3\ntraining.stop=off",
    );
    assert_eq!(off.stop, None);
    assert!(
        !off.to_toml().contains("[training.stop]"),
        "off is not written"
    );
    let on = plan("{ kind = 'fedavg' }", "training.stop.patience=3");
    assert_eq!(on.stop.unwrap().min_delta, 1e-4);
    assert_eq!(
        Spec::parse(&on.to_toml()).unwrap().plan().unwrap().stop,
        on.stop
    );
}
