//! `apfl reproduce`: the paper's figures and tables, with a verdict for every claim.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use apfl::error::{Error, Result};
use apfl::settings::nearest;
use apfl::spec::Spec;

use crate::args;
use crate::check::expected_seconds;
use crate::grid::{Cell, Done, Grid};
use crate::output::{counted, duration, print, print_json, tell};
use crate::signals::stop_on_signal;

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
use verdict::{Claim, Verdict};

/// Runs the items asked for, one after the other. An item that cannot be run does not keep
/// the others from it.
pub fn run(args: &args::Reproduce) -> Result<ExitCode> {
    let items = chosen(&args.items)?;
    let seeds = args.seeds.unwrap_or(if args.quick { 1 } else { 3 });
    let stop = stop_on_signal()?;
    let mut plans = Vec::new();
    for item in items {
        keep_whole(&item, args, seeds)?;
        keep_settings(&item, args)?;
        let cells = cells(&item, args, seeds, None)?;
        plans.push((item, cells));
    }
    let mut failed = false;
    if !args.quiet {
        failed = estimate(&mut plans, args);
    }
    let mut all = Vec::new();
    for (item, cells) in &plans {
        let started = Instant::now();
        let (claims, tables) = match one(item, cells, args, seeds, &stop) {
            Ok(done) => done,
            Err(error @ Error::Interrupted(_)) => return Err(error),
            Err(error) => {
                tell(format!("{}: {error}", item.name));
                failed = true;
                continue;
            }
        };
        if !args.json && !args.quiet {
            print(&page::text(item, &claims))?;
            if claims.is_empty() {
                print(&tables)?;
            }
            let spent = duration(started.elapsed().as_secs_f64());
            tell(format!(
                "{}: {spent}; {}\n",
                item.name,
                out(item, args).display()
            ));
        }
        all.push((item.name, claims));
    }
    if args.json {
        let all: std::collections::BTreeMap<&str, &Vec<Claim>> =
            all.iter().map(|(name, claims)| (*name, claims)).collect();
        print_json(&all)?;
    }
    Ok(match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
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
    match names.iter().any(|name| name == "all") {
        true => Ok(known
            .into_iter()
            .filter(|item| item.of_the_paper())
            .collect()),
        false => Ok(some),
    }
}

/// Where an item goes.
fn out(item: &Item, args: &args::Reproduce) -> PathBuf {
    args.out.join(item.name)
}

/// A quick verdict does not take the place of a whole one, nor one of few seeds that of many.
fn keep_whole(item: &Item, args: &args::Reproduce, seeds: u64) -> Result<()> {
    let verdict = out(item, args).join("verdict.md");
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
        _ if args.quick && !quick => refused("is not of a quick run".into()),
        Some(there) if there > seeds && quick == args.quick => {
            refused(format!("is of {}", counted(there as usize, "seed")))
        }
        _ => Ok(()),
    }
}

/// An item that is run with and without a preset is not run with another.
fn keep_settings(item: &Item, args: &args::Reproduce) -> Result<()> {
    let preset = |pair: &String| pair.split('=').next().unwrap_or_default().trim() == "preset";
    let both = item.runs.iter().any(|(_, set)| set.iter().any(preset));
    match both && args.overrides.set.iter().any(preset) {
        true => Err(Error::Request(format!(
            "--set preset: {} is run with and without preset = \"authors\" already; leave it out",
            item.name
        ))),
        false => Ok(()),
    }
}

/// The runs of an item, its names in order and for each name all seeds; with a variant, those
/// of APFL alone.
fn cells(
    item: &Item,
    args: &args::Reproduce,
    seeds: u64,
    variant: Option<(&str, &str)>,
) -> Result<Vec<Cell>> {
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
        if args.quick {
            let rounds = quick_rounds(&spec)?;
            spec.set(&format!("training.rounds={rounds}"))?;
            name = format!("{name}, quick");
        }
        let overrides = &args.overrides.set;
        overrides.iter().try_for_each(|pair| spec.set(pair))?;
        let first = spec.plan()?.seed;
        for seed in (first..).take(seeds as usize) {
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

/// Says how many runs there are and how long they should take here. Items whose data is not
/// there are said and left out; then it is true.
fn estimate(plans: &mut Vec<(Item, Vec<Cell>)>, args: &args::Reproduce) -> bool {
    let (mut total, mut runs) = (0.0, 0);
    let before = plans.len();
    plans.retain(|(item, cells)| {
        let mut seconds = 0.0;
        let mut count = 0;
        // One run of every algorithm on every data set stands for all of its kind.
        let mut known: Vec<(String, f64)> = Vec::new();
        for cell in cells {
            let summary = out(item, args)
                .join("runs")
                .join(&cell.name)
                .join("summary.json");
            if summary.exists() {
                continue;
            }
            count += 1;
            let plan = &cell.plan;
            let kind = format!("{} {}", plan.algorithm.kind(), plan.data.kind());
            seconds += match known.iter().find(|(name, _)| *name == kind) {
                Some((_, seconds)) => *seconds,
                None => match plan
                    .setup()
                    .and_then(|setup| expected_seconds(plan, &setup))
                {
                    Ok(seconds) => {
                        known.push((kind, seconds));
                        seconds
                    }
                    Err(error) => {
                        tell(format!("{} is left out: {error}", item.name));
                        return false;
                    }
                },
            };
        }
        total += seconds;
        runs += count;
        true
    });
    let reduced = match args.quick {
        true => " (quick: a fifth of the rounds, a tenth for the CNN)",
        false => "",
    };
    let variants = match args.no_variants {
        true => "",
        false => ", more where a claim fails and variants are tried",
    };
    tell(format!(
        "{} to train{reduced}, about {} on this machine{variants}; Ctrl-C stops, the same command \
         goes on",
        counted(runs, "run"),
        duration(total)
    ));
    plans.len() < before
}

/// Runs an item, judges its claims, tries what fails again with the known variants, and
/// writes it all down. Returns claims and tables.
fn one(
    item: &Item,
    cells: &[Cell],
    args: &args::Reproduce,
    seeds: u64,
    stop: &AtomicBool,
) -> Result<(Vec<Claim>, String)> {
    let out = out(item, args);
    let grid = Grid::new(&out, args.threads, args.quiet, stop)?;
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
        if args.no_variants || !claims.iter().any(fails) {
            break;
        }
        if !args.quiet {
            tell(format!(
                "{}: some claims fail; the same with {called}",
                item.name
            ));
        }
        let mut variant = results.clone();
        let names = item.runs.iter().map(|run| &run.0);
        let names = names.filter(|name| name.starts_with("apfl"));
        let cells = self::cells(item, args, seeds, Some((called, pair)))?;
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
    if args.quick {
        unlike.push(format!("quick: {} rounds", cells[0].plan.rounds));
    }
    if !args.overrides.set.is_empty() {
        unlike.push(format!("with --set {}", args.overrides.set.join(" --set ")));
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
        let runs: std::result::Result<Vec<Done>, String> = outcomes.iter().cloned().collect();
        results.insert(name, runs.map_err(Error::data)?);
    }
    Ok(())
}
