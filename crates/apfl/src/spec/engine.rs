//! `[engine]` and `[checkpoint]`: execution settings, which never change the result.

use std::path::Path;

use super::Plan;
use crate::clients::StateHome;
use crate::settings::{Declaration, Section, Setting, Whole, Words, at_least};

const KIND: Setting<Words<bool>> = Setting::words(
    "kind",
    "threads",
    &[
        ("threads", false, "in this process"),
        (
            "mpi",
            true,
            "on all processes of an MPI job; needs a build with --features mpi",
        ),
    ],
)
.help("where clients live");

const THREADS: Setting<Whole> = Setting::number("threads", 0, at_least(0).to(4096))
    .help("0: all cores; never changes the result");

const MEMORY: Setting<Words<bool>> = Setting::words(
    "memory",
    "ram",
    &[("ram", false, ""), ("disk", true, "with budget_mb in RAM")],
)
.help("where client states live");

const BUDGET: Setting<Whole> = Setting::number("budget_mb", 1000, at_least(1).to(1 << 30))
    .help("megabytes of client states that stay in RAM")
    .with("memory = \"disk\"")
    .seldom();

const EVERY: Setting<Whole> = Setting::number("every", 10, at_least(0).to(i64::MAX as u64))
    .help("rounds between checkpoints; 0: only at the end and on Ctrl-C");

pub(super) const ENGINE: &[&dyn Declaration] = &[&KIND, &THREADS, &MEMORY, &BUDGET];
pub(super) const CHECKPOINT: &[&dyn Declaration] = &[&EVERY];

/// Represents `[engine]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannedEngine {
    /// Whether clients live on the ranks of an MPI job.
    pub mpi: bool,
    /// Threads; 0: one per core.
    pub threads: usize,
    /// Bytes of client states that stay in RAM while the others live on disk; `None`: all stay
    /// in RAM.
    pub memory_budget: Option<usize>,
}

const MEGABYTE: usize = 1_000_000;

impl PlannedEngine {
    fn bind(&mut self, s: &mut Section<'_>) {
        s.field(&KIND, &mut self.mpi);
        s.field(&THREADS, &mut self.threads);
        let mut on_disk = self.memory_budget.is_some();
        s.field(&MEMORY, &mut on_disk);
        let mut megabytes = self.memory_budget.unwrap_or(0) / MEGABYTE;
        self.memory_budget = None;
        if on_disk {
            s.field(&BUDGET, &mut megabytes);
            self.keep_on_disk(megabytes as u64);
        }
    }

    /// Keeps this many megabytes of client states in RAM and the others on disk.
    pub(crate) fn keep_on_disk(&mut self, megabytes: u64) {
        let megabytes = usize::try_from(megabytes).unwrap_or(usize::MAX);
        self.memory_budget = Some(megabytes.saturating_mul(MEGABYTE));
    }

    /// Returns where client states live in a run with this directory.
    pub(super) fn state_home(&self, run: Option<&Path>) -> StateHome {
        match (self.memory_budget, run) {
            (Some(budget), Some(run)) => StateHome::Disk {
                file: run.join("memories.scratch"),
                budget,
            },
            _ => StateHome::Ram,
        }
    }
}

/// Binds both tables.
pub(super) fn bind(plan: &mut Plan, s: &mut Section<'_>) {
    s.section("checkpoint", |s| {
        s.field(&EVERY, &mut plan.checkpoint_every)
    });
    s.section("engine", |s| plan.engine.bind(s));
}
