//! Compares runs on the ranks of MPI jobs with runs on threads.
#![cfg(feature = "mpi")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::files::json;
use crate::state::{fingerprint, records};

const APFL: &str = env!("CARGO_BIN_EXE_apfl");

const SMALL: [&str; 11] = [
    "--quiet",
    "--set",
    "data.clients=13",
    "--set",
    "data.max_examples=80",
    "--set",
    "training.rounds=12",
    "--set",
    "evaluation.every=3",
    "--set",
    "engine.threads=2",
];

const MPI: [&str; 2] = ["--set", "engine.kind=mpi"];

/// Returns a command that runs `apfl` on a number of ranks, which may exceed the cores.
fn ranks(ranks: usize, args: &[&str]) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--allow-run-as-root"]);
    command.args(["-n", &ranks.to_string(), APFL]).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ok(mut command: Command) {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", printed(&output));
}

fn threads(args: &[&str]) -> Command {
    let mut command = Command::new(APFL);
    command.args(args);
    command
}

fn run<'a>(args: &[&'a str], more: &[&'a str], out: &'a Path) -> Vec<&'a str> {
    let out = ["--out", out.to_str().unwrap()];
    [&["run"], args, more, &out].concat()
}

/// Checks that the results of two runs are equal: state, records, scores and models of clients.
fn same(a: &Path, b: &Path, what: &str) {
    assert_eq!(fingerprint(a), fingerprint(b), "{what}");
    assert_eq!(records(a), records(b), "{what}");
    for name in [
        "clients.jsonl",
        "models/shared.safetensors",
        "models/personal.safetensors",
        "models/localized.safetensors",
        "models/local.safetensors",
    ] {
        let read = |run: &Path| std::fs::read(run.join(name)).unwrap();
        assert!(read(a) == read(b), "{what}: {name}");
    }
}

/// Returns the process id of a rank of a job of `mpirun`.
fn process_of(mpirun: u32, rank: usize) -> Option<u32> {
    let mark = format!("OMPI_COMM_WORLD_RANK={rank}\0");
    let parent = format!("PPid:\t{mpirun}\n");
    std::fs::read_dir("/proc")
        .ok()?
        .flatten()
        .find_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            let environment = String::from_utf8_lossy(&environment).into_owned();
            (status.contains(&parent) && environment.contains(&mark)).then_some(pid)
        })
}

/// Runs on three ranks and kills one of them after the first checkpoint; repeats if the run ended
/// before.
fn kill_a_rank(out: &Path, args: &[&str], rank: usize) -> String {
    for _ in 0..10 {
        let _ = std::fs::remove_dir_all(out);
        let mut job = ranks(3, args).spawn().unwrap();
        let mut killed = false;
        while !killed && job.try_wait().unwrap().is_none() {
            let mut checkpoints = std::fs::read_dir(out.join("checkpoint"))
                .into_iter()
                .flatten();
            let whole = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(".manifest");
            if checkpoints.any(|file| file.is_ok_and(|file| whole(&file.file_name())))
                && let Some(pid) = process_of(job.id(), rank)
            {
                let kill = Command::new("kill").args(["-9", &pid.to_string()]).status();
                killed = kill.unwrap().success();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let output = job.wait_with_output().unwrap();
        if killed && !output.status.success() {
            return printed(&output);
        }
    }
    panic!("the run was always over before it could be killed");
}

#[test]
fn every_algorithm_ends_with_the_bits_of_one_process() {
    let dir = tempfile::tempdir().unwrap();
    for (k, algorithm) in apfl::algorithm::every_algorithm().iter().enumerate() {
        let algorithm = format!("algorithm={algorithm}");
        let whole = dir.path().join(format!("threads-{k}"));
        let with = |share, model| ["--set", share, "--set", model, "--set", &*algorithm];
        // Some want every client in every round, some a model of which they share a part.
        let settings = [
            with("federation.participation=0.6", "model.kind=logistic"),
            with("federation.participation=1.0", "model.kind=logistic"),
            with(
                "federation.participation=0.6",
                "model={ kind = 'mlp', hidden = [7] }",
            ),
        ];
        let settings = settings.map(|settings| [&SMALL[..], &settings].concat());
        let takes = |args: &Vec<&str>| {
            let mut alone = threads(&run(args, &[], &whole));
            alone.output().unwrap().status.success()
        };
        let args = settings.iter().find(|args| takes(args)).expect(&algorithm);
        for n in 1..=4 {
            let out = dir.path().join(format!("ranks-{k}-{n}"));
            ok(ranks(n, &run(args, &MPI, &out)));
            same(&out, &whole, &format!("{n} ranks, {algorithm}"));
        }
        // A rank is killed; another number of ranks, or threads alone, go on.
        let out = dir.path().join(format!("killed-{k}"));
        let often = [&MPI[..], &["--set", "checkpoint.every=1"]].concat();
        let rank = k % 3;
        let message = kill_a_rank(&out, &run(args, &often, &out), rank);
        assert!(message.contains(&format!("rank {rank}")), "{message}");
        assert!(!out.join("summary.json").exists());
        let resume = run(&["--resume", "--quiet"], &[], &out);
        match [2, 4, 0][(k / 3) % 3] {
            0 => ok(threads(
                &[&resume[..], &["--set", "engine.kind=threads"]].concat(),
            )),
            n => ok(ranks(n, &resume)),
        }
        same(&out, &whole, &format!("killed and resumed, {algorithm}"));
    }
}

#[test]
fn states_on_disk_robust_aggregators_and_attackers_are_the_same_on_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("threads");
    let args = [
        &SMALL[..],
        &["--set", "federation.aggregation=median"],
        &[
            "--set",
            "federation.attack={ kind = 'sign-flip', share = 0.3 }",
        ],
    ]
    .concat();
    ok(threads(&run(&args, &[], &whole)));
    let out = dir.path().join("ranks");
    let disk = ["--set", "engine.memory=disk", "--set", "engine.budget_mb=1"];
    ok(ranks(3, &run(&args, &[&MPI[..], &disk].concat(), &out)));
    same(&out, &whole, "median of attacked updates, memories on disk");
    let left = std::fs::read_dir(&out).unwrap().flatten();
    let scratch = |name: String| name.contains("scratch");
    assert!(
        !left
            .map(|f| f.file_name().to_string_lossy().into_owned())
            .any(scratch)
    );
    // Every process wrote its own clients.
    let environment = json(&out.join("environment.json"));
    assert_eq!(
        (&environment["engine"], &environment["ranks"]),
        (&"mpi".into(), &3.into())
    );
    for rank in 0..3 {
        let file = format!("checkpoint/memories-12-rank-{rank}.safetensors");
        assert!(out.join(&file).exists(), "{file}");
    }
}

/// Four clients, one of which has a feature of 1e38.
fn write_table(path: &Path) {
    let mut text = String::from("client,label,a,b\n");
    for client in ["ann", "bob", "eve", "zzz"] {
        for row in 0..20 {
            let (a, b) = ((f64::from(row) * 0.37).sin(), f64::from(row).cos());
            let a = if client == "zzz" { 1e38 } else { a };
            text += &format!("{client},{},{a},{b}\n", u8::from(b > 0.1));
        }
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn errors_are_printed_and_name_the_client() {
    let dir = tempfile::tempdir().unwrap();
    let fails = |command: &mut Command, code: i32, words: &str| {
        let output = command.current_dir(dir.path()).output().unwrap();
        let message = printed(&output);
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(words), "{words}: {message}");
        assert!(!message.contains("panicked"), "{message}");
    };
    write_table(&dir.path().join("t.csv"));
    let table = [
        "run",
        "--set",
        "data={ kind = 'table', path = 't.csv' }",
        "--set",
        "training.learning_rate=0.1",
    ];
    let on_ranks = [&table[..], &MPI, &["--out", "r"]].concat();
    // Of four clients on four ranks the last is the troubled one.
    fails(
        &mut ranks(4, &on_ranks),
        1,
        "the loss of client 'zzz' became",
    );
    assert!(dir.path().join("r/spec.toml").exists());
    let skip = [
        "--set",
        "training.on_nonfinite=skip",
        "--quiet",
        "--out",
        "s",
    ];
    let mut skipping = ranks(4, &[&table[..], &MPI, &skip].concat());
    skipping.current_dir(dir.path());
    ok(skipping);
    let skipped = &records(&dir.path().join("s"))[0]["skipped"];
    assert_eq!(skipped, &serde_json::json!(["zzz"]));
    // A wrong request, data that is not there, many that would each do everything.
    let wrong = [&["run", "--set", "engine.thread=2"], &MPI[..]].concat();
    fails(&mut ranks(2, &wrong), 2, "engine.thread: unknown key");
    let missing = ["run", "--set", "data={ kind = 'table', path = 'no.csv' }"];
    fails(
        &mut ranks(2, &[&missing[..], &MPI].concat()),
        1,
        "no.csv: cannot read",
    );
    fails(
        &mut ranks(2, &["run"]),
        2,
        "2 processes of this program were started together",
    );
}
