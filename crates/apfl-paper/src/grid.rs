//! Many runs: shared out over the cores, and not run again where they are finished.

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

/// One run of a grid.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The name of its directory.
    pub name: String,
    /// What it does.
    pub plan: Plan,
}

impl Cell {
    /// The cell of a spec.
    ///
    /// # Errors
    ///
    /// A spec that cannot run, or that wants the MPI engine: a grid runs on threads.
    pub fn new(name: &str, spec: &Spec) -> Result<Self> {
        let plan = spec.plan()?;
        refuse_ranks(&plan)?;
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
    if slug.chars().count() == told().count() {
        slug
    } else {
        let digest = apfl::digest::sha256_of(name.as_bytes());
        format!("{slug}-{}", &digest[..6])
    }
}

/// An error for what runs on threads only.
fn refuse_ranks(plan: &Plan) -> Result<()> {
    if plan.engine.mpi {
        Err(Error::Request(
            "engine.kind: found \"mpi\", which is for apfl run; use \"threads\" here".into(),
        ))
    } else {
        Ok(())
    }
}

/// An error naming the first keys in which two specs differ, but for those that never
/// change a result, and what to do then.
pub fn agree(there: &Table, given: &Table, out: &Path, way_out: &str) -> Result<()> {
    let differences = differences(there, given);
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::Request(format!(
        "{}: the spec given is not that of the run there; it differs in\n  {}\n\
         {way_out}",
        out.display(),
        differences.join("\n  ")
    )))
}

/// What a grid tells whoever watches it.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Training begins.
    Begun {
        /// The rounds of all runs that are not finished.
        rounds: u64,
        /// The runs that are not finished.
        runs: u64,
    },
    /// That many rounds of all runs are done.
    Rounds(u64),
    /// That many runs are done.
    Runs(u64),
    /// Training has ended.
    Ended,
    /// What a person should know.
    Note(&'a str),
}

/// How a grid is run; nothing of it changes a result.
#[derive(Clone, Copy)]
pub struct Conduct<'a> {
    /// Threads; 0 for all cores.
    pub threads: usize,
    /// The program that makes the runs.
    pub program: &'a Program,
    /// A flag that ends the grid where it can be continued.
    pub stop: &'a AtomicBool,
    /// Hears how far it is.
    pub watch: &'a (dyn Fn(Event<'_>) + Sync),
}

impl std::fmt::Debug for Conduct<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conduct")
            .field("threads", &self.threads)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// Runs of a grid that go on together.
#[derive(Debug)]
pub struct Grid<'a> {
    out: &'a Path,
    how: Conduct<'a>,
    /// Checksums of data files, as far as they were looked at.
    checksums: Mutex<HashMap<String, String>>,
    _lock: DirectoryLock,
}

impl<'a> Grid<'a> {
    /// A grid in a directory that is made, and nobody else's until the grid is gone.
    ///
    /// # Errors
    ///
    /// A directory that cannot be made, or that somebody else writes.
    pub fn new(out: &'a Path, how: Conduct<'a>) -> Result<Self> {
        let failed = |source| Error::File {
            path: out.into(),
            action: "create",
            source,
        };
        std::fs::create_dir_all(out).map_err(failed)?;
        Ok(Self {
            out,
            how,
            checksums: Mutex::default(),
            _lock: DirectoryLock::take(out)?,
        })
    }

    /// Runs all cells that are not finished. Many small runs take a thread each, few take
    /// all threads each. A run that fails does not stop the others; a signal does, as soon
    /// as every run can be continued.
    ///
    /// # Errors
    ///
    /// A directory with a run of another spec, data or program; what fails for the machine and not
    /// for a run alone; [`Error::Interrupted`] where the flag was raised.
    pub fn run(&self, cells: &[Cell]) -> Result<Vec<Outcome>> {
        let mut outcomes: Vec<Option<Outcome>> = vec![None; cells.len()];
        let mut waiting = VecDeque::new();
        for (k, cell) in cells.iter().enumerate() {
            match self.finished(cell)? {
                Some(done) => outcomes[k] = Some(Ok(done)),
                None => waiting.push_back(k),
            }
        }
        let all = match self.how.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let (workers, each) = if waiting.len() >= all {
            (all, 1)
        } else {
            (1, all)
        };
        // Every pass of a choice trains all rounds.
        let rounds = |k: &usize| {
            let plan = &cells[*k].plan;
            plan.rounds * plan.algorithm.choosing().map_or(1, |c| c.passes())
        };
        let total: u64 = waiting.iter().map(rounds).sum();
        (self.how.watch)(Event::Begun {
            rounds: total,
            runs: waiting.len() as u64,
        });
        let shared = Shared {
            waiting: Mutex::new(waiting),
            datasets: Mutex::default(),
            rounds: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            watch: self.how.watch,
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
        (self.how.watch)(Event::Ended);
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
        self.how.stop.load(Ordering::Relaxed)
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

    /// Whether a run is begun there; one that another version of the program began is an error.
    fn begun(&self, out: &Path) -> Result<bool> {
        let Some(run) = InterruptedRun::open(out)? else {
            return Ok(false);
        };
        match run.environment {
            Some(there) if there.commit != self.how.program.commit => {
                Err(Error::Checkpoint(format!(
                    "{}: was begun by version {} ({}) of the program and is not finished; finish \
                     it with that one, remove it, or give another --out",
                    out.display(),
                    there.version,
                    there.commit
                )))
            }
            _ => Ok(true),
        }
    }

    /// Runs one cell; an error of its own is an outcome, one of the machine ends the grid.
    fn one(&self, cell: &Cell, threads: usize, shared: &Shared<'_>) -> Result<Outcome> {
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
        let run = Run::new(&cell.plan, setup).program(self.how.program.clone());
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
            Ok(Ended::Finished(finished)) => Ok(Ok(Done {
                seed: cell.plan.seed,
                rounds: read_rounds(&out)?,
                summary: finished.summary.clone(),
                dir: out,
                commit: self.how.program.commit.clone(),
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
struct Shared<'a> {
    waiting: Mutex<VecDeque<usize>>,
    /// Data by its table in the spec: cells that differ in other keys read it once.
    datasets: Mutex<HashMap<String, Arc<dyn Dataset>>>,
    rounds: AtomicU64,
    ended: AtomicU64,
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
        (self.watch)(Event::Rounds(done));
    }

    fn end(&self) {
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        (self.watch)(Event::Runs(ended));
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
