//! Runs built from data and a model: refused settings and data, and equality with a spec.

use std::ops::ControlFlow;
use std::sync::Arc;

use apfl::data::{Schema, Task};
use apfl::run::{Ended, Event, Run, RunBuilder};
use apfl::spec::Initial;
use apfl::training::FinalizedClients;
use apfl::{Apfl, Dataset, Error, Examples, FedAvg, InMemory, Loss, Mlp, Model, Spec, Training};
use apfl::{WhichModel, error};

/// Two sites of four rows of two features.
fn sites() -> InMemory {
    let mut data = InMemory::classes(["a", "b"], ["no", "yes"]);
    for name in ["north", "south"] {
        let rows = vec![0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, 0.8];
        let all = Examples::classes(2, rows, vec![0, 1, 1, 0]).unwrap();
        data.add(name, all, 0.25).unwrap();
    }
    data
}

fn linear(width: usize) -> Mlp {
    Mlp::new(width, &[], 2, Loss::Softmax, 0.0)
}

fn run_of(data: InMemory) -> RunBuilder {
    Run::builder(data, linear(2)).rounds(2)
}

fn refused(builder: RunBuilder) -> String {
    builder.build().unwrap_err().to_string()
}

#[test]
fn data_that_cannot_be_trained_on_is_refused_with_client_and_row() {
    let no_clients = InMemory::classes(["a", "b"], ["no", "yes"]);
    assert_eq!(refused(run_of(no_clients)), "the data has no clients");

    let with = |rows: Vec<f32>, labels: Vec<u32>| {
        let mut data = sites();
        let bad = Examples::classes(2, rows, labels).unwrap();
        data.add_split("west", bad, Examples::classes(2, vec![], vec![]).unwrap());
        refused(run_of(data))
    };
    assert_eq!(
        with(vec![], vec![]),
        "client 'west': has no rows; leave it out"
    );
    assert_eq!(
        with(vec![0.0, 1.0, 2.0, f32::NAN], vec![0, 1]),
        "client 'west', training row 2: feature 'b' is NaN; fill it or leave the row out"
    );
    assert_eq!(
        with(vec![0.0; 6], vec![0, 1, 2]),
        "client 'west', training row 3: the label is 2, allowed is 0 to 1 (2 classes)"
    );

    let mut only_held_out = sites();
    let one = || Examples::classes(2, vec![0.0, 0.0], vec![0]).unwrap();
    let none = || Examples::classes(2, vec![], vec![]).unwrap();
    only_held_out.add_split("west", none(), one());
    let message = refused(run_of(only_held_out));
    assert!(
        message.starts_with("client 'west': has no training rows"),
        "{message}"
    );

    let mut one_without = sites();
    one_without.add_split("west", one(), none());
    assert!(run_of(one_without).build().is_ok(), "it has no scores");

    let mut nothing_held_out = InMemory::classes(["a", "b"], ["no", "yes"]);
    nothing_held_out.add_split("north", one(), none());
    let message = refused(run_of(nothing_held_out));
    assert!(
        message.starts_with("no client has validation rows"),
        "{message}"
    );

    let mut twins = sites();
    twins.add("north", one(), 0.0).unwrap();
    assert_eq!(
        refused(run_of(twins)),
        "client 'north': two clients have this name; client names must be unique"
    );

    let mut numbers = sites();
    numbers.schema.task = Task::Regression;
    let builder = Run::builder(numbers, Mlp::new(2, &[], 1, Loss::SquaredError, 0.0));
    let message = refused(builder);
    assert!(message.contains("the label is a class"), "{message}");
}

#[test]
fn rows_that_are_no_rows_are_refused() {
    let error = Examples::classes(2, vec![1.0; 5], vec![0, 1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected 2 rows × 2 features = 4 values, found 5"
    );
    let error = sites().add("west", Examples::values(1, vec![], vec![]).unwrap(), 1.5);
    assert!(matches!(
        error,
        Err(Error::Data(error::DataError { place: Some(_), .. }))
    ));
}

#[test]
fn a_model_that_does_not_fit_and_settings_out_of_range_are_refused() {
    let message = refused(Run::builder(sites(), linear(3)));
    assert_eq!(message, "the model expects 3 features, but the data has 2");
    let three = Mlp::new(2, &[], 3, Loss::Softmax, 0.0);
    let message = refused(Run::builder(sites(), three));
    assert!(message.starts_with("the model has 3 outputs"), "{message}");
    // All that is wrong with the settings, at once and by the key of a spec.
    let message = refused(run_of(sites()).rounds(0).participation(1.5));
    assert!(message.contains("training.rounds") && message.contains("federation.participation"));
    let message = refused(run_of(sites()).initial(vec![0.0; 5]));
    assert_eq!(
        message,
        "the initial model has 5 parameters, but the model has 6"
    );
    let message = refused(run_of(sites()).initial(vec![f32::INFINITY; 6]));
    assert!(message.contains("inf"), "{message}");
    assert!(refused(run_of(sites()).resume(true)).contains("directory"));
}

/// The builder and a spec that say the same make the same bits.
#[test]
fn the_front_door_and_a_spec_give_one_fingerprint() {
    let spec = "data = { kind = 'synthetic', clients = 8, max_examples = 100 }
         model = { kind = 'mlp', hidden = [5] }
         algorithm = { kind = 'apfl', mixing = { fixed = 0.5 } }
         federation = { participation = 0.5 }
         training = { rounds = 3, local_steps = 4, batch = 10, learning_rate = 0.2 }";
    let plan = Spec::parse(spec).unwrap().plan().unwrap();
    let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
    while training.next_round().unwrap().is_some() {}

    let model = Mlp::new(60, &[5], 10, Loss::Softmax, 0.0);
    let finished = Run::builder_shared(plan.data.load().unwrap(), Arc::new(model))
        .algorithm(Apfl::fixed(0.5))
        .participation(0.5)
        .rounds(3)
        .local_steps(4)
        .batch(10)
        .learning_rate(0.2)
        .build()
        .unwrap()
        .train()
        .unwrap();
    assert_eq!(
        finished.summary.fingerprint,
        training.fingerprint().unwrap()
    );
}

#[test]
fn a_run_in_memory_leaves_what_one_in_a_directory_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let builder = || run_of(sites()).algorithm(Apfl::fixed(0.5));
    let state = builder().build().unwrap().train().unwrap();
    let files = builder().directory(dir.path().join("run"));
    let files = files.build().unwrap().train().unwrap();
    assert_eq!(state.summary.fingerprint, files.summary.fingerprint);
    assert_eq!(state.summary.models, files.summary.models);
    assert_eq!(state.clients().unwrap(), files.clients().unwrap());
    let all = [
        WhichModel::Shared,
        WhichModel::Localized,
        WhichModel::Local,
        WhichModel::Personal,
    ];
    for which in all {
        let (a, b) = (state.model(which, "south"), files.model(which, "south"));
        assert_eq!(a.unwrap().params(), b.unwrap().params(), "{which:?}");
    }
    // v̄ = αv + (1−α)w of the localized w.
    let of = |which| state.model(which, "south").unwrap().params().to_vec();
    let mixed = of(WhichModel::Local)
        .into_iter()
        .zip(of(WhichModel::Localized))
        .map(|(v, w)| 0.5 * v + 0.5 * w);
    assert_eq!(of(WhichModel::Personal), mixed.collect::<Vec<_>>());
    assert!(state.personal("west").is_err() && files.personal("west").is_err());
}

#[test]
fn a_run_that_was_stopped_goes_on_to_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let builder = || {
        run_of(sites())
            .algorithm(FedAvg)
            .rounds(6)
            .checkpoint_every(2)
    };
    let whole = builder().build().unwrap().train().unwrap();
    let path = dir.path().join("run");
    let mut seen = Vec::new();
    let run = builder().directory(&path).build().unwrap();
    let ended = run.watch(&mut |event| match event {
        Event::Round(record) => {
            seen.push(record.round);
            match record.round {
                3 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(ended, Ok(Ended::Stopped(3))), "{ended:?}");
    assert_eq!(seen, [1, 2, 3]);

    // Without resume it is in the way; another run is named by the key that differs.
    assert!(refused(builder().directory(&path)).contains("not empty"));
    let other = builder().directory(&path).resume(true).learning_rate(0.5);
    let message = other.build().unwrap().train().unwrap_err().to_string();
    assert!(
        message.contains("training.learning_rate: 0.1 in the existing run, 0.5 given"),
        "{message}"
    );
    let other = builder().algorithm(Apfl::fixed(0.5)).directory(&path);
    let message = other.resume(true).build().unwrap().train().unwrap_err();
    assert!(
        message
            .to_string()
            .contains("algorithm.kind: \"fedavg\" in the existing run"),
        "{message}"
    );

    let again = || builder().directory(&path).resume(true).build().unwrap();
    let finished = again().train().unwrap();
    assert_eq!(finished.summary.fingerprint, whole.summary.fingerprint);
    // Once more: it is finished, and nothing is done.
    let same = again().train().unwrap();
    assert_eq!(same.summary.fingerprint, finished.summary.fingerprint);
    assert!((same.summary.seconds - finished.summary.seconds).abs() < 1e-9); // JSON's digits
}

#[test]
fn stopping_between_two_clients_of_delivery_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let builder = || run_of(sites()).directory(dir.path().join("run"));
    let run = builder().build().unwrap();
    let ended = run.watch(&mut |event| match event {
        Event::Finalized(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(ended, Ok(Ended::Stopped(2))), "{ended:?}");
    assert!(!dir.path().join("run/summary.json").exists());
    let finished = builder().resume(true).build().unwrap().train().unwrap();
    assert_eq!(finished.summary.clients, 2);
}

#[test]
fn nobody_is_delivered_to_where_that_is_asked() {
    let builder = run_of(sites()).finalized_clients(FinalizedClients::None);
    let finished = builder.build().unwrap().train().unwrap();
    assert_eq!(
        (finished.summary.clients, finished.clients().unwrap()),
        (0, vec![])
    );
    assert_eq!(finished.shared().unwrap().params().len(), 6);
}

/// A model's answers by hand: z = x·W + b, softmax over two classes.
#[test]
fn a_trained_model_answers_by_hand() {
    let schema: Schema = sites().schema().clone();
    let model = Arc::new(linear(2));
    // W = [[1, 0], [0, 2]], b = [0, −1].
    let params = vec![1.0, 0.0, 0.0, 2.0, 0.0, -1.0];
    let trained = apfl::TrainedModel::new(model.clone(), params, schema.clone()).unwrap();
    // x = (1, 1): z = (1, 1), a tie goes to the first; x = (0, 2): z = (0, 3).
    let answers = trained.predict(&[1.0, 1.0, 0.0, 2.0]).unwrap();
    assert_eq!(answers[0].class(), Some(0));
    let apfl::Prediction::Class { index, scores } = &answers[1] else {
        panic!("classes are predicted")
    };
    assert_eq!((*index, trained.class_name(*index)), (1, Some("yes")));
    let e3 = 3f64.exp();
    assert!((scores[1] - e3 / (1.0 + e3)).abs() < 1e-6);
    assert!(trained.predict(&[1.0]).is_err());
    assert!(apfl::TrainedModel::new(model, vec![0.0; 5], schema).is_err());
}

/// What a spec would be refused for is refused here too, before anything is done.
#[test]
fn settings_that_do_not_go_together_are_refused() {
    use apfl::algorithm::apfl::{Averaged, Mixing};
    use apfl::schedule::Per;
    use apfl::{Aggregation, LocalOnly, Schedule, Weights};
    let median = || run_of(sites()).aggregation(Aggregation::Median);
    assert!(refused(median().weights(Weights::Examples)).contains("counts clients, not examples"));
    assert!(refused(median().algorithm(LocalOnly)).contains("sends no model"));
    let trim = Aggregation::TrimmedMean { trim: 0.6 };
    assert!(refused(run_of(sites()).aggregation(trim)).contains("0.6"));
    let averaged = |apfl, shift| run_of(sites()).algorithm(Averaged { apfl, shift });
    assert!(refused(averaged(Apfl::fixed(0.5), None)).contains("needs the shift a of its weights"));
    assert!(refused(averaged(Apfl::adaptive(0.5), Some(1.0))).contains("fixed α"));
    assert!(averaged(Apfl::fixed(0.5), Some(1.0)).build().is_ok());
    let seven = Apfl::paper(Mixing::Fixed(7.0));
    assert!(
        refused(run_of(sites()).algorithm(seven))
            .contains("algorithm.mixing: found { fixed = 7.0 }")
    );
    let schedule = Schedule::Geometric {
        factor: f64::NAN,
        per: Per::Round,
    };
    assert!(
        refused(run_of(sites()).schedule(schedule)).contains("training.schedule.factor: found nan")
    );
    assert!(refused(run_of(sites()).client_states_on_disk(1)).contains("run directory"));
    // Two losses that are for another task than the data's.
    let two_classes = |loss| Run::builder(sites(), Mlp::new(2, &[], 1, loss, 0.0));
    assert!(two_classes(Loss::Logistic).build().is_ok());
    let mut three = sites();
    let Task::Classification { classes } = &mut three.schema.task else {
        unreachable!("made of classes")
    };
    classes.push("maybe".into());
    let one = Mlp::new(2, &[], 1, Loss::Logistic, 0.0);
    assert!(refused(Run::builder(three, one)).contains("two classes"));
    // The later of two that say the same in other words holds.
    assert!(
        run_of(sites())
            .local_steps(3)
            .local_epochs(2)
            .build()
            .is_ok()
    );
}

const KILLED: &str = "APFL_TEST_KILLED_RUN";

fn slow_run(directory: &std::path::Path) -> RunBuilder {
    run_of(sites())
        .rounds(40)
        .checkpoint_every(3)
        .directory(directory)
        .resume(true)
}

/// Killed at a moment nobody chose, and resumed: the bits of a run that was left alone.
#[test]
fn a_killed_run_goes_on_to_the_same_bits() {
    if let Some(directory) = std::env::var_os(KILLED) {
        let run = slow_run(directory.as_ref()).build().unwrap();
        let ended = run.watch(&mut |_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            ControlFlow::Continue(())
        });
        panic!("it was to be killed, but ended: {ended:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "front_door::a_killed_run_goes_on_to_the_same_bits",
        ])
        .env(KILLED, &path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let lines =
        || std::fs::read_to_string(path.join("rounds.jsonl")).map_or(0, |t| t.lines().count());
    while lines() < 8 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!path.join("summary.json").exists());
    let mut resumed_after = None;
    let ended = slow_run(&path).build().unwrap().watch(&mut |event| {
        if let Event::Begun(round) = event {
            resumed_after = Some(round);
        }
        ControlFlow::Continue(())
    });
    let Ok(Ended::Finished(finished)) = ended else {
        panic!("{ended:?}")
    };
    assert!(
        resumed_after > Some(2),
        "it goes on from a checkpoint, not from {resumed_after:?}"
    );
    let whole = run_of(sites()).rounds(40).build().unwrap().train().unwrap();
    assert_eq!(finished.summary.fingerprint, whole.summary.fingerprint);
}

/// w⁰ by word, by file and by numbers is the same w⁰.
#[test]
fn the_initial_model_may_be_a_word_a_file_or_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("w0.safetensors");
    let model = linear(2);
    let w0 = vec![0.5, -0.5, 0.25, 0.0, 1.0, -1.0];
    apfl::files::tensors::write_one(&file, model.network().layout(), &w0).unwrap();
    let start = |initial: Initial| {
        let builder = run_of(sites()).initial(initial);
        builder.build().unwrap().setup().context.w0.to_vec()
    };
    assert_eq!(start(Initial::Zeros), [0.0; 6]);
    assert_ne!(start(Initial::Uniform), [0.0; 6]);
    assert_eq!(
        start(Initial::Model),
        [0.0; 6],
        "a linear model starts at 0"
    );
    assert_eq!(start(Initial::File(file)), w0);
    assert_eq!(start(w0.clone().into()), w0);
    let absent = Initial::File(dir.path().join("none.safetensors"));
    assert!(refused(run_of(sites()).initial(absent)).contains("none.safetensors"));
}
