//! Many runs: shared out over the cores, and not run again where they are finished.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use apfl::data::{Dataset, SourceFile};
use apfl::digest::sha256_of_file;
use apfl::error::{Error, Result};
use apfl::run::{Ended, Event, Run};
use apfl::spec::{Plan, Resources, Spec};
use apfl::store::DirectoryLock;
use apfl::store::run_dir::{InterruptedRun, Summary, read_rounds};
use apfl::training::RoundRecord;

use crate::progress::Progress;
use crate::resume::agree;
use apfl_cli::program;

/// One run of a grid.
#[derive(Clone)]
pub struct Cell {
    /// The name of its directory.
    pub name: String,
    /// What it does.
    pub plan: Plan,
}

impl Cell {
    /// The cell of a spec.
    pub fn new(name: &str, spec: &Spec) -> Result<Self> {
        let plan = spec.plan()?;
        crate::cluster::refuse_ranks(&plan)?;
        Ok(Self {
            name: slug(name),
            plan,
        })
    }
}

/// A run that is done.
#[derive(Clone, Debug)]
pub struct Done {
    /// Where it lies.
    pub dir: PathBuf,
    /// Its final numbers.
    pub summary: Summary,
    /// Its seed.
    pub seed: u64,
    /// Its rounds.
    pub rounds: Vec<RoundRecord>,
    /// The commit of the program that made it.
    pub commit: String,
}

/// What became of a cell: a run, or why there is none.
pub type Outcome = std::result::Result<Done, String>;

/// A name that any file system takes: letters, digits, `.`, `=`, `+` and `-`; and no two
/// names alike that were not.
pub fn slug(name: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || ".=+-_,".contains(*c);
    let told = || name.chars().filter(|c| !c.is_whitespace());
    let slug: String = told().filter(plain).take(100).collect();
    match slug.chars().count() == told().count() {
        true => slug,
        false => {
            let digest = apfl::digest::sha256_of(name.as_bytes());
            format!("{slug}-{}", &digest[..6])
        }
    }
}

/// Runs of a grid that go on together.
pub struct Grid<'a> {
    out: &'a Path,
    threads: usize,
    quiet: bool,
    stop: &'a AtomicBool,
    /// Checksums of data files, as far as they were looked at.
    checksums: Mutex<HashMap<String, String>>,
    _lock: DirectoryLock,
}

impl<'a> Grid<'a> {
    /// A grid in a directory that is made, and nobody else's until the grid is gone: on so
    /// many threads (0: all cores), ended by a flag.
    pub fn new(out: &'a Path, threads: usize, quiet: bool, stop: &'a AtomicBool) -> Result<Self> {
        let failed = |source| Error::File {
            path: out.into(),
            action: "create",
            source,
        };
        std::fs::create_dir_all(out).map_err(failed)?;
        Ok(Self {
            out,
            threads,
            quiet,
            stop,
            checksums: Mutex::default(),
            _lock: DirectoryLock::take(out)?,
        })
    }

    /// Runs all cells that are not finished. Many small runs take a thread each, few take
    /// all threads each. A run that fails does not stop the others; a signal does, as soon
    /// as every run can be continued.
    pub fn run(&self, cells: &[Cell]) -> Result<Vec<Outcome>> {
        let mut outcomes: Vec<Option<Outcome>> = vec![None; cells.len()];
        let mut waiting = VecDeque::new();
        for (k, cell) in cells.iter().enumerate() {
            match self.finished(cell)? {
                Some(done) => outcomes[k] = Some(Ok(done)),
                None => waiting.push_back(k),
            }
        }
        let all = match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let (workers, each) = match waiting.len() >= all {
            true => (all, 1),
            false => (1, all),
        };
        // Every pass of a choice trains all rounds.
        let rounds = |k: &usize| {
            let plan = &cells[*k].plan;
            plan.rounds * plan.algorithm.choosing().map_or(1, |c| c.passes())
        };
        let total: u64 = waiting.iter().map(rounds).sum();
        let progress = Progress::grid(total, waiting.len() as u64, self.quiet);
        let shared = Shared {
            waiting: Mutex::new(waiting),
            datasets: Mutex::default(),
            rounds: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            progress,
        };
        let results: Mutex<Vec<(usize, Result<Outcome>)>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(k) = shared.next().filter(|_| !self.stopped()) {
                        let result = self.one(&cells[k], each, &shared);
                        if result.is_err() {
                            // The machine, not the cell: whatever comes next would fail too.
                            lock(&shared.waiting).clear();
                        }
                        shared.end();
                        lock(&results).push((k, result));
                    }
                });
            }
        });
        shared.progress.clear();
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (k, result) in results {
            outcomes[k] = Some(result?);
        }
        if self.stopped() || outcomes.iter().any(Option::is_none) {
            return Err(Error::Interrupted(
                "stopped; the same command with the same --out goes on from there".into(),
            ));
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn dir(&self, cell: &Cell) -> PathBuf {
        self.out.join("runs").join(&cell.name)
    }

    /// The run that is there already, where it is finished. One of another spec is an error.
    fn finished(&self, cell: &Cell) -> Result<Option<Done>> {
        let dir = self.dir(cell);
        let Some(run) = InterruptedRun::open(&dir)? else {
            return Ok(None);
        };
        let way_out = "give another --out for other settings";
        agree(
            &run.spec.plan()?.resolved,
            &cell.plan.resolved,
            &dir,
            way_out,
        )?;
        match run.summary {
            None => Ok(None),
            Some(summary) => {
                let environment = run.environment;
                for file in environment.iter().flat_map(|e| &e.data) {
                    self.unchanged(file, &dir)?;
                }
                Ok(Some(Done {
                    seed: cell.plan.seed,
                    rounds: read_rounds(&dir)?,
                    summary,
                    dir,
                    commit: environment.map_or(String::new(), |e| e.commit),
                }))
            }
        }
    }

    /// An error where a file is not what a finished run was made with.
    fn unchanged(&self, then: &SourceFile, dir: &Path) -> Result<()> {
        let mut known = lock(&self.checksums);
        let now = match known.get(&then.path) {
            Some(now) => now.clone(),
            None => {
                let now = sha256_of_file(Path::new(&then.path))?;
                known.insert(then.path.clone(), now.clone());
                now
            }
        };
        match now == then.sha256 {
            true => Ok(()),
            false => Err(Error::data(format!(
                "{}: the file has changed since {} was run; put the old file back, or give another \
                 --out",
                then.path,
                dir.display()
            ))),
        }
    }

    /// Whether a run is begun there; one that another version of the program began is an error.
    fn begun(&self, out: &Path) -> Result<bool> {
        let Some(run) = InterruptedRun::open(out)? else {
            return Ok(false);
        };
        match run.environment {
            Some(there) if there.commit != env!("APFL_COMMIT") => Err(Error::Checkpoint(format!(
                "{}: was begun by version {} ({}) of the program and is not finished; finish \
                     it with that one, remove it, or give another --out",
                out.display(),
                there.version,
                there.commit
            ))),
            _ => Ok(true),
        }
    }

    /// Runs one cell; an error of its own is an outcome, one of the machine ends the grid.
    fn one(&self, cell: &Cell, threads: usize, shared: &Shared) -> Result<Outcome> {
        let out = self.dir(cell);
        let begun = self.begun(&out)?;
        let on = Resources {
            threads: Some(threads),
            directory: Some(&out),
            ..Resources::default()
        };
        let dataset = shared.dataset(&cell.plan);
        let setup = match dataset.and_then(|dataset| cell.plan.setup_with(dataset, on)) {
            Ok(setup) => setup,
            Err(error) => return Ok(Err(format!("{}: {error}", cell.name))),
        };
        let run = Run::new(&cell.plan, setup).program(program());
        let run = match begun {
            false => run.directory(&out),
            true => run.resume(&out),
        };
        let ended = run.watch(&mut |event| {
            match event {
                Event::Begun(round) => shared.advance(round),
                Event::Round(_) => shared.advance(1),
                _ => {}
            }
            match self.stopped() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        match ended {
            Ok(Ended::Finished(finished)) => Ok(Ok(Done {
                seed: cell.plan.seed,
                rounds: read_rounds(&out)?,
                summary: finished.summary.clone(),
                dir: out,
                commit: env!("APFL_COMMIT").into(),
            })),
            Ok(Ended::Stopped(_)) => Ok(Err("stopped".into())),
            Err(
                error @ (Error::NonFinite { .. }
                | Error::Checkpoint(_)
                | Error::OtherProgram { .. }
                | Error::NoData { .. }
                | Error::Data(_)
                | Error::Panic { .. }
                | Error::Request(_)),
            ) => Ok(Err(format!("{}: {error}", cell.name))),
            Err(error) => Err(error),
        }
    }
}

/// What the threads of a grid share.
struct Shared {
    waiting: Mutex<VecDeque<usize>>,
    /// Data by its table in the spec: cells that differ in other keys read it once.
    datasets: Mutex<HashMap<String, Arc<dyn Dataset>>>,
    rounds: AtomicU64,
    ended: AtomicU64,
    progress: Progress,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn next(&self) -> Option<usize> {
        lock(&self.waiting).pop_front()
    }

    fn dataset(&self, plan: &Plan) -> Result<Arc<dyn Dataset>> {
        let key = plan.resolved.get("data").map(ToString::to_string);
        let key = key.unwrap_or_default();
        let mut datasets = lock(&self.datasets);
        if let Some(dataset) = datasets.get(&key) {
            return Ok(dataset.clone());
        }
        // A grid over seeds has other data for each: only the latest few are kept.
        if datasets.len() >= 4 {
            datasets.clear();
        }
        let dataset = plan.data.load()?;
        datasets.insert(key, dataset.clone());
        Ok(dataset)
    }

    fn advance(&self, rounds: u64) {
        let done = self.rounds.fetch_add(rounds, Ordering::Relaxed) + rounds;
        self.progress.grid_rounds(done);
    }

    fn end(&self) {
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        self.progress.grid_runs(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn names_become_directories() {
        assert_eq!(slug("kind=fedavg, seed=1"), "kind=fedavg,seed=1");
        assert!(slug("mixing={ fixed = 0.5 }").starts_with("mixing=fixed=0.5-"));
        assert_ne!(slug("a/b"), slug("a:b"));
        assert!(slug(&"ä/".repeat(300)).len() < 120);
    }
}
