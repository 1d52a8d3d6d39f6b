//! Reproduces the paper's figures and tables, with a verdict for every claim.

use std::path::PathBuf;

use apfl::error::{Error, Result};
use apfl::settings::nearest;
use apfl::spec::Spec;
use apfl_report::format::counted;

use crate::grid::{Cell, CompletedRun, Event, Grid, GridOptions};

mod cells;
mod check;
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
mod values;
mod verdict;

use item::{Item, items};
use results::Results;

pub use verdict::{Claim, Comparison, Verdict};

/// Represents how figures and tables are reproduced.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The number of seeds 1, 2, …; by default the item's, or 1 with `quick`.
    pub seeds: Option<u64>,
    /// Whether to run a fifth of the rounds, a tenth of the CNN's.
    pub quick: bool,
    /// Whether to try APFL's variants if a claim fails.
    pub variants: bool,
    /// Overrides of every spec, such as `training.rounds=5`.
    pub set: Vec<String>,
    /// The output directory, with a subdirectory per item.
    pub out: PathBuf,
}

/// Represents a figure or table with its planned runs.
#[derive(Debug)]
pub struct Experiment<'a> {
    item: Item,
    settings: &'a Settings,
    cells: Vec<Cell>,
}

/// Represents the results of a figure or table.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The judged claims.
    pub claims: Vec<Claim>,
    /// The claims as text, or the tables if there are no claims.
    pub text: String,
}

/// Reads the names of figures and tables, or `all` of the paper's, and plans their runs.
///
/// # Errors
///
/// Fails on an unknown name, on invalid overrides, and if results of fewer rounds or seeds would
/// overwrite existing ones.
pub fn prepare<'a>(names: &[String], settings: &'a Settings) -> Result<Vec<Experiment<'a>>> {
    let prepared = select(names)?.into_iter().map(|item| {
        refuse_overwriting(&item, settings)?;
        refuse_preset(&item, settings)?;
        refuse_foreign_keys(&item, settings)?;
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
    fn seeds(&self, item: &Item) -> u64 {
        self.seeds
            .unwrap_or(if self.quick { 1 } else { item.seeds })
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

    /// Trains the runs, judges the claims, repeats failing ones with the variants of APFL, and
    /// writes the results.
    ///
    /// # Errors
    ///
    /// Fails if [`Grid::run`] or a run fails.
    pub fn run(&self, options: GridOptions<'_>) -> Result<Findings> {
        let (claims, tables) = reproduce(self, options)?;
        let mut text = page::text(&self.item, &claims);
        if claims.is_empty() {
            text += &tables;
        }
        Ok(Findings { claims, text })
    }
}

fn select(names: &[String]) -> Result<Vec<Item>> {
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
                Error::Request(format!(
                    "there is no item '{name}'{hint} (known: {list}, all)"
                ))
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

/// Returns an error if results of fewer rounds or seeds would overwrite existing ones.
fn refuse_overwriting(item: &Item, settings: &Settings) -> Result<()> {
    let verdict = settings.out.join(item.name).join("verdict.md");
    let Ok(text) = std::fs::read_to_string(&verdict) else {
        return Ok(());
    };
    let refused = |why: String| {
        let verdict = verdict.display();
        Err(Error::Request(format!(
            "{verdict}: {why} and would be overwritten; give another --out"
        )))
    };
    let quick = text.contains("quick: ");
    match page::seeds_of(&text) {
        _ if settings.quick && !quick => refused("is not of a quick run".into()),
        Some(seeds) if seeds > settings.seeds(item) && quick == settings.quick => {
            refused(format!("is of {}", counted(seeds as usize, "seed")))
        }
        _ => Ok(()),
    }
}

/// Returns an error if `--set preset` is given for an item that runs with and without a preset.
fn refuse_preset(item: &Item, settings: &Settings) -> Result<()> {
    let preset = |pair: &String| key_of(pair) == "preset";
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

/// Returns an error if `--set` names a setting of an algorithm that no run of the item has. Keys
/// of no algorithm are left to the plan, which knows the nearest one.
fn refuse_foreign_keys(item: &Item, settings: &Settings) -> Result<()> {
    let replaced = |pair: &String| matches!(key_of(pair), "algorithm" | "algorithm.kind");
    if settings.set.iter().any(replaced) {
        return Ok(()); // the plan knows the new algorithm
    }
    for pair in &settings.set {
        let Some(key) = algorithm_key(key_of(pair)) else {
            continue;
        };
        let mut kinds = Vec::new();
        for (_, run) in &item.runs {
            kinds.push(kind_of(item, run)?);
        }
        kinds.sort();
        kinds.dedup();
        let known = any_has(|_| true, key);
        if known && !any_has(|kind| kinds.iter().any(|of| of == kind), key) {
            return Err(Error::Request(format!(
                "--set {pair}: no run of {} has algorithm.{key}; its algorithms are {}",
                item.name,
                kinds.join(" and ")
            )));
        }
    }
    Ok(())
}

/// Plans the runs of an item, by name and seed; with a variant, those of APFL alone.
fn cells(item: &Item, settings: &Settings, variant: Option<(&str, &str)>) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for (name, set) in &item.runs {
        if variant.is_some() && !name.starts_with("apfl") {
            continue;
        }
        let mut spec = Spec::parse(item.preset)?;
        set.iter().try_for_each(|pair| spec.set(pair))?;
        let mut name = name.clone();
        if let Some((label, pair)) = variant {
            spec.set(pair)?;
            name = format!("{name}, {label}");
        }
        spec.set("delivery.keep=false")?;
        if settings.quick {
            let rounds = quick_rounds(&spec)?;
            spec.set(&format!("training.rounds={rounds}"))?;
            name = format!("{name}, quick");
        }
        for pair in &settings.set {
            let meant = || item.runs.iter().map(|(_, set)| has_key(item, set, pair));
            // A key that no run has is a mistake, which the plan reports.
            if has_key(item, set, pair)? || !any(meant())? {
                spec.set(pair)?;
            }
        }
        let first = spec.plan()?.seed;
        for seed in (first..).take(settings.seeds(item) as usize) {
            spec.set(&format!("seed={seed}"))?;
            cells.push(Cell::new(&format!("{name}, seed={seed}"), &spec)?);
        }
    }
    Ok(cells)
}

/// Returns whether the algorithm of a run has the setting of an override: `algorithm.mixing=…` is
/// for APFL's runs. Overrides of other tables, and of the whole algorithm, are for every run.
fn has_key(item: &Item, run: &[String], pair: &str) -> Result<bool> {
    Ok(match algorithm_key(key_of(pair)) {
        Some(key) => {
            let own = kind_of(item, run)?;
            key == "kind" || any_has(|kind| kind == own, key)
        }
        None => true,
    })
}

/// Returns the key of an override.
fn key_of(pair: &str) -> &str {
    pair.split('=').next().unwrap_or_default().trim()
}

/// Returns the setting of an algorithm that a key names, such as `mixing` of
/// `algorithm.mixing.fixed`.
fn algorithm_key(key: &str) -> Option<&str> {
    key.strip_prefix("algorithm.")?.split('.').next()
}

/// Returns the algorithm of a run without the user's overrides.
fn kind_of(item: &Item, run: &[String]) -> Result<String> {
    let mut spec = Spec::parse(item.preset)?;
    run.iter().try_for_each(|pair| spec.set(pair))?;
    Ok(spec.plan()?.algorithm.kind().to_owned())
}

/// Returns whether any of the selected algorithms has a setting.
fn any_has(selected: impl Fn(&str) -> bool, key: &str) -> bool {
    let registries = apfl::spec::registries();
    let algorithms = registries.iter().find(|list| list.table == "algorithm");
    let kinds = algorithms.iter().flat_map(|list| &list.kinds);
    let mut settings = kinds
        .filter(|kind| selected(kind.name))
        .flat_map(|kind| kind.settings);
    settings.any(|setting| setting.describe().key == key)
}

/// Returns whether a variant changes APFL's runs: their algorithm has its key, and no override
/// sets it already.
fn applies(variant: &str, cells: &[Cell], settings: &Settings) -> bool {
    let key = key_of(variant);
    let is_set = |pair: &String| match key_of(pair) {
        "algorithm" | "preset" => true,
        set => set == key,
    };
    let mut cells = cells.iter().filter(|cell| cell.name.starts_with("apfl"));
    let known = |cell: &Cell| {
        let own = cell.plan.algorithm.kind();
        algorithm_key(key).is_none_or(|key| any_has(|kind| kind == own, key))
    };
    !settings.set.iter().any(is_set) && cells.all(known)
}

/// Returns whether any is true.
fn any(mut of: impl Iterator<Item = Result<bool>>) -> Result<bool> {
    of.try_fold(false, |any, one| Ok(any || one?))
}

/// Returns a fifth of the rounds, and at most ten for the CNN.
fn quick_rounds(spec: &Spec) -> Result<u64> {
    let plan = spec.plan()?;
    let fifth = (plan.rounds / 5).max(1);
    Ok(match plan.architecture.kind() {
        "cnn" => fifth.min(10),
        _ => fifth,
    })
}

/// Runs an item, judges its claims, repeats failing ones with the variants of APFL, and writes
/// the results. Returns claims and tables.
fn reproduce(
    experiment: &Experiment<'_>,
    options: GridOptions<'_>,
) -> Result<(Vec<Claim>, String)> {
    let Experiment {
        item,
        settings,
        cells,
    } = experiment;
    let seeds = settings.seeds(item);
    let out = experiment.directory();
    let grid = Grid::new(&out, options)?;
    let mut results = Results::default();
    let names = item.runs.iter().map(|run| &run.0);
    collect(&mut results, &grid, names, cells, seeds)?;
    let mut claims = (item.claims)(&results)?;
    if item.compare_all_clients {
        let over_all = (item.claims)(&results.over_all_clients())?;
        for (claim, other) in claims.iter_mut().zip(over_all) {
            if claim.verdict != other.verdict {
                claim.remark(format!(
                    "over all clients: {}",
                    page::verdict_name(other.verdict)
                ));
            }
        }
    }
    let fails = |claim: &Claim| claim.verdict == Verdict::Fails && claim.about_apfl;
    for (label, pair) in item.variants {
        if !settings.variants || !claims.iter().any(fails) {
            break;
        }
        if !applies(pair, cells, settings) {
            continue;
        }
        let note = format!("{}: some claims fail; repeating with {label}", item.name);
        (options.watch)(Event::Note(&note));
        let mut variant = results.clone();
        let names = item.runs.iter().map(|run| &run.0);
        let names = names.filter(|name| name.starts_with("apfl"));
        let judged = self::cells(item, settings, Some((label, pair)))
            .and_then(|cells| collect(&mut variant, &grid, names, &cells, seeds))
            .and_then(|()| (item.claims)(&variant));
        match judged {
            Err(error @ Error::Interrupted(_)) => return Err(error),
            Err(error) => claims
                .iter_mut()
                .filter(|claim| fails(claim))
                .for_each(|claim| claim.remark(format!("with {label}: {error}"))),
            Ok(judged) => {
                for (claim, other) in claims.iter_mut().zip(judged) {
                    if fails(claim) {
                        let verdict = page::verdict_name(other.verdict);
                        let count = other.ours.split(';').next().unwrap_or_default();
                        claim.remark(format!("with {label}: {verdict}, {count}"));
                    }
                }
            }
        }
    }
    let mut deviations = Vec::new();
    if settings.quick {
        deviations.push(format!("quick: {} rounds", cells[0].plan.rounds));
    }
    if !settings.set.is_empty() {
        deviations.push(format!("with --set {}", settings.set.join(" --set ")));
    }
    for claim in &mut claims {
        if seeds == 1 {
            claim.remark("one seed: the sign decides");
        }
        deviations.iter().for_each(|text| claim.remark(text));
    }
    let tables = page::write(item, &results, &claims, seeds, &deviations, &out)?;
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
