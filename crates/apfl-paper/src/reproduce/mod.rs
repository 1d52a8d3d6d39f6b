//! The paper's figures and tables, with a verdict for every claim.

use std::path::PathBuf;

use apfl::error::{Error, Result};
use apfl::settings::nearest;
use apfl::spec::Spec;
use apfl_report::words::counted;

use crate::grid::{Cell, CompletedRun, Event, Grid, GridOptions};

mod cells;
mod fig1;
mod fig2;
mod fig3;
mod fig4;
mod fig5;
mod fig6;
mod heart;
mod item;
mod page;
mod privacy;
mod published;
mod results;
mod robustness;
mod table1;
mod table2;
mod verdict;

use item::{Item, items};
use results::Results;

pub use verdict::{Claim, Comparison, Verdict};

/// How figures and tables are reproduced.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seeds 1, 2, …, so many of them; `None`: 3, or 1 of a quick one.
    pub seeds: Option<u64>,
    /// A fifth of the rounds, a tenth of the CNN's.
    pub quick: bool,
    /// Whether APFL's variants are tried where a claim fails.
    pub variants: bool,
    /// Overrides of every spec, such as `training.rounds=5`.
    pub set: Vec<String>,
    /// The directory of all items: each has one of its name in it.
    pub out: PathBuf,
}

/// A figure or table with its runs, before they are made.
#[derive(Debug)]
pub struct Experiment<'a> {
    item: Item,
    settings: &'a Settings,
    cells: Vec<Cell>,
}

/// What became of a figure or table.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Its claims, judged.
    pub claims: Vec<Claim>,
    /// The claims for people, or the tables where there is no claim.
    pub text: String,
}

/// Reads the names of figures and tables, or `all` of the paper's, and plans their runs.
///
/// # Errors
///
/// A name that is none, overrides that make no spec, and results that would be written over by
/// those of fewer rounds or seeds.
pub fn prepare<'a>(names: &[String], settings: &'a Settings) -> Result<Vec<Experiment<'a>>> {
    let prepared = chosen(names)?.into_iter().map(|item| {
        keep_whole(&item, settings)?;
        keep_settings(&item, settings)?;
        let cells = cells(&item, settings, None)?;
        Ok(Experiment {
            item,
            settings,
            cells,
        })
    });
    prepared.collect()
}

impl Settings {
    fn seeds(&self) -> u64 {
        self.seeds.unwrap_or(if self.quick { 1 } else { 3 })
    }
}

impl Experiment<'_> {
    /// Returns the item's name, such as `fig4`.
    pub fn name(&self) -> &'static str {
        self.item.name
    }

    /// Returns the directory that gets its verdicts, pictures, tables and runs.
    pub fn directory(&self) -> PathBuf {
        self.settings.out.join(self.item.name)
    }

    /// Returns the runs that are not finished yet.
    pub fn unfinished(&self) -> impl Iterator<Item = &Cell> {
        let runs = self.directory().join("runs");
        let finished = move |cell: &&Cell| runs.join(&cell.name).join("summary.json").exists();
        self.cells.iter().filter(move |cell| !finished(cell))
    }

    /// Makes the runs, judges the claims, tries what fails again with the known variants, and
    /// writes it all down.
    ///
    /// # Errors
    ///
    /// What [`Grid::run`] says, and a run that failed.
    pub fn run(&self, options: GridOptions<'_>) -> Result<Findings> {
        let (claims, tables) = one(self, options)?;
        let mut text = page::text(&self.item, &claims);
        if claims.is_empty() {
            text += &tables;
        }
        Ok(Findings { claims, text })
    }
}

fn chosen(names: &[String]) -> Result<Vec<Item>> {
    let known = items();
    let list: Vec<&str> = known.iter().map(|item| item.name).collect();
    let find = |name: &String| {
        known
            .iter()
            .find(|item| item.name == name)
            .cloned()
            .ok_or_else(|| {
                let hint = match nearest(name, list.iter().copied()) {
                    Some(near) => format!("; did you mean {near}?"),
                    None => String::new(),
                };
                let list = list.join(", ");
                Error::Request(format!("there is no item '{name}': {list}, all{hint}"))
            })
    };
    let some = names.iter().filter(|name| *name != "all").map(find);
    let some: Vec<Item> = some.collect::<Result<_>>()?;
    if names.iter().any(|name| name == "all") {
        Ok(known
            .into_iter()
            .filter(|item| item.of_the_paper())
            .collect())
    } else {
        Ok(some)
    }
}

/// A quick verdict does not take the place of a whole one, nor one of few seeds that of many.
fn keep_whole(item: &Item, settings: &Settings) -> Result<()> {
    let verdict = settings.out.join(item.name).join("verdict.md");
    let Ok(text) = std::fs::read_to_string(&verdict) else {
        return Ok(());
    };
    let refused = |why: String| {
        let there = verdict.display();
        Err(Error::Request(format!(
            "{there}: {why} and would be written over; give another --out"
        )))
    };
    let quick = text.contains("quick: ");
    match page::seeds_of(&text) {
        _ if settings.quick && !quick => refused("is not of a quick run".into()),
        Some(there) if there > settings.seeds() && quick == settings.quick => {
            refused(format!("is of {}", counted(there as usize, "seed")))
        }
        _ => Ok(()),
    }
}

/// An item that is run with and without a preset is not run with another.
fn keep_settings(item: &Item, settings: &Settings) -> Result<()> {
    let preset = |pair: &String| pair.split('=').next().unwrap_or_default().trim() == "preset";
    let both = item.runs.iter().any(|(_, set)| set.iter().any(preset));
    if both && settings.set.iter().any(preset) {
        Err(Error::Request(format!(
            "--set preset: {} is run with and without preset = \"authors\" already; leave it out",
            item.name
        )))
    } else {
        Ok(())
    }
}

/// The runs of an item, its names in order and for each name all seeds; with a variant, those
/// of APFL alone.
fn cells(item: &Item, settings: &Settings, variant: Option<(&str, &str)>) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for (name, set) in &item.runs {
        if variant.is_some() && !name.starts_with("apfl") {
            continue;
        }
        let mut spec = Spec::parse(item.preset)?;
        set.iter().try_for_each(|pair| spec.set(pair))?;
        let mut name = name.clone();
        if let Some((called, pair)) = variant {
            spec.set(pair)?;
            name = format!("{name}, {called}");
        }
        spec.set("delivery.keep=false")?;
        if settings.quick {
            let rounds = quick_rounds(&spec)?;
            spec.set(&format!("training.rounds={rounds}"))?;
            name = format!("{name}, quick");
        }
        settings.set.iter().try_for_each(|pair| spec.set(pair))?;
        let first = spec.plan()?.seed;
        for seed in (first..).take(settings.seeds() as usize) {
            spec.set(&format!("seed={seed}"))?;
            cells.push(Cell::new(&format!("{name}, seed={seed}"), &spec)?);
        }
    }
    Ok(cells)
}

/// A fifth of the rounds, and no more than ten of a CNN's.
fn quick_rounds(spec: &Spec) -> Result<u64> {
    let plan = spec.plan()?;
    let fifth = (plan.rounds / 5).max(1);
    Ok(match plan.architecture.kind() {
        "cnn" => fifth.min(10),
        _ => fifth,
    })
}

/// Runs an item, judges its claims, tries what fails again with the known variants, and
/// writes it all down. Returns claims and tables.
fn one(experiment: &Experiment<'_>, options: GridOptions<'_>) -> Result<(Vec<Claim>, String)> {
    let Experiment {
        item,
        settings,
        cells,
    } = experiment;
    let seeds = settings.seeds();
    let out = experiment.directory();
    let grid = Grid::new(&out, options)?;
    let mut results = Results::default();
    let names = item.runs.iter().map(|run| &run.0);
    collect(&mut results, &grid, names, cells, seeds)?;
    let mut claims = (item.claims)(&results)?;
    if item.both {
        let over_all = (item.claims)(&results.over_all_clients())?;
        for (claim, other) in claims.iter_mut().zip(over_all) {
            if claim.verdict != other.verdict {
                claim.remark(format!("over all clients: {}", page::word(other.verdict)));
            }
        }
    }
    let fails = |claim: &Claim| claim.verdict == Verdict::Fails && claim.about_apfl;
    for (called, pair) in item.variants {
        if !settings.variants || !claims.iter().any(fails) {
            break;
        }
        let note = format!("{}: some claims fail; the same with {called}", item.name);
        (options.watch)(Event::Note(&note));
        let mut variant = results.clone();
        let names = item.runs.iter().map(|run| &run.0);
        let names = names.filter(|name| name.starts_with("apfl"));
        let cells = self::cells(item, settings, Some((called, pair)))?;
        let judged = collect(&mut variant, &grid, names, &cells, seeds)
            .and_then(|()| (item.claims)(&variant));
        match judged {
            Err(error @ Error::Interrupted(_)) => return Err(error),
            Err(error) => claims
                .iter_mut()
                .filter(|claim| fails(claim))
                .for_each(|claim| claim.remark(format!("with {called}: {error}"))),
            Ok(judged) => {
                for (claim, other) in claims.iter_mut().zip(judged) {
                    if fails(claim) {
                        let word = page::word(other.verdict);
                        let count = other.ours.split(';').next().unwrap_or_default();
                        claim.remark(format!("with {called}: {word}, {count}"));
                    }
                }
            }
        }
    }
    let mut unlike = Vec::new();
    if settings.quick {
        unlike.push(format!("quick: {} rounds", cells[0].plan.rounds));
    }
    if !settings.set.is_empty() {
        unlike.push(format!("with --set {}", settings.set.join(" --set ")));
    }
    for claim in &mut claims {
        if seeds == 1 {
            claim.remark("one seed: the sign decides");
        }
        unlike.iter().for_each(|how| claim.remark(how));
    }
    let tables = page::write(item, &results, &claims, seeds, &unlike, &out)?;
    Ok((claims, tables))
}

fn collect<'a>(
    results: &mut Results,
    grid: &Grid<'_>,
    names: impl Iterator<Item = &'a String>,
    cells: &[Cell],
    seeds: u64,
) -> Result<()> {
    let outcomes = grid.run(cells)?;
    for (name, outcomes) in names.zip(outcomes.chunks(seeds as usize)) {
        let runs: std::result::Result<Vec<CompletedRun>, String> =
            outcomes.iter().cloned().collect();
        results.insert(name, runs.map_err(Error::data)?);
    }
    Ok(())
}
