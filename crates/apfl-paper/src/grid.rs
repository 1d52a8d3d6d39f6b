//! Grids of runs: distributed over the cores, without repeating finished runs.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use apfl::data::{Dataset, SourceFile};
use apfl::digest::sha256_of_file;
use apfl::error::{Error, Result};
use apfl::files::DirectoryLock;
use apfl::run::run_dir::{InterruptedRun, Summary, read_rounds};
use apfl::run::{self, Ended, Program, Run};
use apfl::spec::{Plan, Resources, Spec, differences};
use apfl::training::RoundRecord;
use toml::Table;

/// Represents one run of a grid.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The name of its run directory.
    pub name: String,
    /// The plan of the run.
    pub plan: Plan,
}

impl Cell {
    /// Creates the cell of a spec.
    ///
    /// # Errors
    ///
    /// Fails if the spec is invalid or asks for the MPI engine; a grid runs on threads.
    pub fn new(name: &str, spec: &Spec) -> Result<Self> {
        let plan = spec.plan()?;
        refuse_ranks(&plan)?;
        Ok(Self {
            name: slug(name),
            plan,
        })
    }
}

/// Represents a finished run.
#[derive(Clone, Debug)]
pub struct CompletedRun {
    /// The run directory.
    pub dir: PathBuf,
    /// The summary.
    pub summary: Summary,
    /// The seed.
    pub seed: u64,
    /// The records of all rounds.
    pub rounds: Vec<RoundRecord>,
    /// The commit of the program that trained it.
    pub commit: String,
}

/// The outcome of a cell: a finished run, or the reason of its failure.
pub type Outcome = std::result::Result<CompletedRun, String>;

/// Returns a name that any file system accepts (letters, digits and `.=+-_,`), with a hash if
/// characters were dropped, so that different names stay different.
pub fn slug(name: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || ".=+-_,".contains(*c);
    let visible = || name.chars().filter(|c| !c.is_whitespace());
    let slug: String = visible().filter(plain).take(100).collect();
    if slug.chars().count() == visible().count() {
        slug
    } else {
        let digest = apfl::digest::sha256_of(name.as_bytes());
        format!("{slug}-{}", &digest[..6])
    }
}

/// Returns an error if the plan needs the MPI engine.
fn refuse_ranks(plan: &Plan) -> Result<()> {
    if plan.engine.mpi {
        Err(Error::Request(
            "engine.kind: found \"mpi\", which is for apfl run; use \"threads\" here".into(),
        ))
    } else {
        Ok(())
    }
}

/// Checks that a given spec equals that of an existing run, except for keys that never change a
/// result.
///
/// # Errors
///
/// Fails with the first keys that differ and the `remedy`.
pub fn require_same_spec(existing: &Table, given: &Table, out: &Path, remedy: &str) -> Result<()> {
    let differences = differences(existing, given);
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::Request(format!(
        "{}: the given spec is not that of the existing run; it differs in\n  {}\n\
         {remedy}",
        out.display(),
        differences.join("\n  ")
    )))
}

/// Represents the progress of a grid.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The grid starts.
    Started {
        /// The rounds of all unfinished runs.
        rounds: u64,
        /// The number of unfinished runs.
        runs: u64,
    },
    /// The number of rounds done in all runs.
    Rounds(u64),
    /// The number of finished runs.
    Runs(u64),
    /// The grid has ended.
    Finished,
    /// A note for the user.
    Note(&'a str),
}

/// Options for running a grid. None changes a result.
#[derive(Clone, Copy)]
pub struct GridOptions<'a> {
    /// Threads; 0 for all cores.
    pub threads: usize,
    /// The program that trains the runs.
    pub program: &'a Program,
    /// A flag that stops the grid as soon as every run can be resumed.
    pub stop: &'a AtomicBool,
    /// Is called with the progress.
    pub watch: &'a (dyn Fn(Event<'_>) + Sync),
}

impl std::fmt::Debug for GridOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GridOptions")
            .field("threads", &self.threads)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// Represents a grid of runs in one directory.
#[derive(Debug)]
pub struct Grid<'a> {
    out: &'a Path,
    options: GridOptions<'a>,
    /// Checksums of the data files read so far.
    checksums: Mutex<HashMap<String, String>>,
    _lock: DirectoryLock,
}

impl<'a> Grid<'a> {
    /// Creates a grid in a directory, which is created and locked for the grid's lifetime.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be created or is locked by another process.
    pub fn new(out: &'a Path, options: GridOptions<'a>) -> Result<Self> {
        let failed = |source| Error::File {
            path: out.into(),
            action: "create",
            source,
        };
        std::fs::create_dir_all(out).map_err(failed)?;
        Ok(Self {
            out,
            options,
            checksums: Mutex::default(),
            _lock: DirectoryLock::take(out)?,
        })
    }

    /// Trains all unfinished cells. If there are at least as many as threads, each gets one thread;
    /// otherwise they run one after the other on all threads. A failed run does not stop the
    /// others.
    ///
    /// # Errors
    ///
    /// Fails on a directory with a run of another spec, data or program; on errors of the machine
    /// rather than of a run; and with [`Error::Interrupted`] if the stop flag is set.
    pub fn run(&self, cells: &[Cell]) -> Result<Vec<Outcome>> {
        let mut outcomes: Vec<Option<Outcome>> = vec![None; cells.len()];
        let mut waiting = VecDeque::new();
        for (k, cell) in cells.iter().enumerate() {
            match self.finished(cell)? {
                Some(done) => outcomes[k] = Some(Ok(done)),
                None => waiting.push_back(k),
            }
        }
        let all = match self.options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let (workers, threads) = if waiting.len() >= all {
            (all, 1)
        } else {
            (1, all)
        };
        // Every pass of a run that chooses α trains all rounds.
        let rounds = |k: &usize| {
            let plan = &cells[*k].plan;
            plan.rounds * plan.algorithm.choosing().map_or(1, |c| c.passes())
        };
        let total: u64 = waiting.iter().map(rounds).sum();
        (self.options.watch)(Event::Started {
            rounds: total,
            runs: waiting.len() as u64,
        });
        let shared = Shared {
            waiting: Mutex::new(waiting),
            datasets: Mutex::default(),
            rounds: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            watch: self.options.watch,
        };
        let results: Mutex<Vec<(usize, Result<Outcome>)>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(k) = shared.next().filter(|_| !self.stopped()) {
                        let result = self.train(&cells[k], threads, &shared);
                        if result.is_err() {
                            // An error of the machine: the next cells would fail too.
                            lock(&shared.waiting).clear();
                        }
                        shared.finish_run();
                        lock(&results).push((k, result));
                    }
                });
            }
        });
        (self.options.watch)(Event::Finished);
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (k, result) in results {
            outcomes[k] = Some(result?);
        }
        if self.stopped() || outcomes.iter().any(Option::is_none) {
            return Err(Error::Interrupted(
                "stopped; run the same command with the same --out to continue".into(),
            ));
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    fn stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }

    fn dir(&self, cell: &Cell) -> PathBuf {
        self.out.join("runs").join(&cell.name)
    }

    /// Returns the cell's run if it is finished, or an error if it has another spec.
    fn finished(&self, cell: &Cell) -> Result<Option<CompletedRun>> {
        let dir = self.dir(cell);
        let Some(run) = InterruptedRun::open(&dir)? else {
            return Ok(None);
        };
        let remedy = "give another --out for other settings";
        require_same_spec(
            &run.spec.plan()?.resolved,
            &cell.plan.resolved,
            &dir,
            remedy,
        )?;
        match run.summary {
            None => Ok(None),
            Some(summary) => {
                let environment = run.environment;
                for file in environment.iter().flat_map(|e| &e.data) {
                    self.require_unchanged(file, &dir)?;
                }
                Ok(Some(CompletedRun {
                    seed: cell.plan.seed,
                    rounds: read_rounds(&dir)?,
                    summary,
                    dir,
                    commit: environment.map_or(String::new(), |e| e.commit),
                }))
            }
        }
    }

    /// Returns an error if a data file has changed since the run.
    fn require_unchanged(&self, then: &SourceFile, dir: &Path) -> Result<()> {
        let mut known = lock(&self.checksums);
        let now = match known.get(&then.path) {
            Some(now) => now.clone(),
            None => {
                let now = sha256_of_file(Path::new(&then.path))?;
                known.insert(then.path.clone(), now.clone());
                now
            }
        };
        if now == then.sha256 {
            Ok(())
        } else {
            Err(Error::data(format!(
                "{}: the file has changed since {} was run; put the old file back, or give another \
                 --out",
                then.path,
                dir.display()
            )))
        }
    }

    /// Returns whether a run was begun, or an error if another version of the program began it.
    fn begun(&self, out: &Path) -> Result<bool> {
        let Some(run) = InterruptedRun::open(out)? else {
            return Ok(false);
        };
        match run.environment {
            Some(existing) if existing.commit != self.options.program.commit => {
                Err(Error::Checkpoint(format!(
                    "{}: was begun by version {} ({}) of the program and is not finished; finish \
                     it with that one, remove it, or give another --out",
                    out.display(),
                    existing.version,
                    existing.commit
                )))
            }
            _ => Ok(true),
        }
    }

    /// Trains one cell. An error of the run is an outcome; an error of the machine ends the grid.
    fn train(&self, cell: &Cell, threads: usize, shared: &Shared<'_>) -> Result<Outcome> {
        let out = self.dir(cell);
        let begun = self.begun(&out)?;
        let resources = Resources {
            threads: Some(threads),
            directory: Some(&out),
            ..Resources::default()
        };
        let dataset = shared.dataset(&cell.plan);
        let setup = match dataset.and_then(|dataset| cell.plan.setup_with(dataset, resources)) {
            Ok(setup) => setup,
            Err(error) => return Ok(Err(format!("{}: {error}", cell.name))),
        };
        let run = Run::new(&cell.plan, setup).program(self.options.program.clone());
        let run = if begun {
            run.resume(&out)
        } else {
            run.directory(&out)
        };
        let ended = run.watch(&mut |event| {
            match event {
                run::Event::Begun(round) => shared.advance(round),
                run::Event::Round(_) => shared.advance(1),
                _ => {}
            }
            if self.stopped() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        match ended {
            Ok(Ended::Finished(finished)) => Ok(Ok(CompletedRun {
                seed: cell.plan.seed,
                rounds: read_rounds(&out)?,
                summary: finished.summary.clone(),
                dir: out,
                commit: self.options.program.commit.clone(),
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

/// Represents the state shared by the threads of a grid.
struct Shared<'a> {
    waiting: Mutex<VecDeque<usize>>,
    /// Data sets by their spec, so that cells with the same data read it once.
    datasets: Mutex<HashMap<String, Arc<dyn Dataset>>>,
    rounds: AtomicU64,
    finished: AtomicU64,
    watch: &'a (dyn Fn(Event<'_>) + Sync),
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared<'_> {
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
        // Seeds may have different data, so only the latest few data sets are kept.
        if datasets.len() >= 4 {
            datasets.clear();
        }
        let dataset = plan.data.load()?;
        datasets.insert(key, dataset.clone());
        Ok(dataset)
    }

    fn advance(&self, rounds: u64) {
        let done = self.rounds.fetch_add(rounds, Ordering::Relaxed) + rounds;
        (self.watch)(Event::Rounds(done));
    }

    fn finish_run(&self) {
        let finished = self.finished.fetch_add(1, Ordering::Relaxed) + 1;
        (self.watch)(Event::Runs(finished));
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
