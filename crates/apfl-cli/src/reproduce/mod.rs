//! `apfl reproduce`: the paper's figures and tables, with a verdict for every claim.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use apfl::error::{Error, Result};
use apfl::settings::nearest;
use apfl::spec::Spec;
use apfl::store::write_atomically;

use crate::args;
use crate::chart;
use crate::check::expected_seconds;
use crate::grid::{Cell, Done, Grid};
use crate::output::{counted, duration, print, print_json, tell};
use crate::run::stop_on_signal;
use crate::sweep::markdown;

mod cells;
mod fig1;
mod fig2;
mod fig3;
mod fig4;
mod fig5;
mod fig6;
mod item;
mod results;
mod table1;
mod table2;
mod verdict;

use item::{Item, items};
use results::Results;
use verdict::{Claim, Verdict};

/// Runs the items asked for, one after the other.
pub fn run(args: &args::Reproduce) -> Result<ExitCode> {
    let items = chosen(&args.items)?;
    let seeds = args.seeds.unwrap_or(if args.quick { 1 } else { 3 });
    let stop = stop_on_signal()?;
    let mut plans = Vec::new();
    for item in items {
        let cells = cells(&item, args, seeds, None)?;
        plans.push((item, cells));
    }
    if !args.quiet {
        estimate(&plans, args)?;
    }
    let mut all = Vec::new();
    for (item, cells) in &plans {
        let started = Instant::now();
        let out = args.out.join(item.name);
        let (results, claims) = one(item, cells, args, seeds, &out, &stop)?;
        write(item, &results, &claims, args, seeds, &out)?;
        if !args.json {
            print(&text(item, &claims))?;
        }
        if !args.quiet {
            let spent = duration(started.elapsed().as_secs_f64());
            tell(format!("{}: {spent}; {}\n", item.name, out.display()));
        }
        all.push((item.name, claims));
    }
    if args.json {
        let all: std::collections::BTreeMap<&str, &Vec<Claim>> =
            all.iter().map(|(name, claims)| (*name, claims)).collect();
        print_json(&all)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn chosen(names: &[String]) -> Result<Vec<Item>> {
    let all = items();
    if names.iter().any(|name| name == "all") {
        return Ok(all);
    }
    let known: Vec<&str> = all.iter().map(|item| item.name).collect();
    let find = |name: &String| {
        all.iter()
            .find(|item| item.name == name)
            .cloned()
            .ok_or_else(|| {
                let hint = match nearest(name, known.iter().copied()) {
                    Some(near) => format!("; did you mean {near}?"),
                    None => String::new(),
                };
                let known = known.join(", ");
                Error::Request(format!("there is no item '{name}': {known}, all{hint}"))
            })
    };
    names.iter().map(find).collect()
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
        for seed in 1..=seeds {
            let mut spec = Spec::parse(item.preset)?;
            set.iter().try_for_each(|pair| spec.set(pair))?;
            let mut name = name.clone();
            if let Some((called, pair)) = variant {
                spec.set(pair)?;
                name = format!("{name}, {called}");
            }
            spec.set(&format!("seed={seed}"))?;
            spec.set("delivery.keep=false")?;
            if args.quick {
                let rounds = quick_rounds(&spec)?;
                spec.set(&format!("training.rounds={rounds}"))?;
                name = format!("{name}, quick");
            }
            args.overrides
                .set
                .iter()
                .try_for_each(|pair| spec.set(pair))?;
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

/// Says how many runs there are and how long they should take here.
fn estimate(plans: &[(Item, Vec<Cell>)], args: &args::Reproduce) -> Result<()> {
    let mut total = 0.0;
    let mut runs = 0;
    for (item, cells) in plans {
        let mut seconds = 0.0;
        // One of every algorithm stands for all of its kind.
        let mut known: Vec<(String, f64)> = Vec::new();
        for cell in cells {
            if args
                .out
                .join(item.name)
                .join("runs")
                .join(&cell.name)
                .join("summary.json")
                .exists()
            {
                continue;
            }
            runs += 1;
            let kind = cell.plan.algorithm.kind().to_string();
            seconds += match known.iter().find(|(name, _)| *name == kind) {
                Some((_, seconds)) => *seconds,
                None => {
                    let seconds = expected_seconds(&cell.plan, &cell.plan.setup()?)?;
                    known.push((kind, seconds));
                    seconds
                }
            };
        }
        total += seconds;
    }
    let reduced = if args.quick {
        " (quick: a fifth of the rounds)"
    } else {
        ""
    };
    tell(format!(
        "{} to train{reduced}, about {} on this machine; Ctrl-C stops, the same command goes on",
        counted(runs, "run"),
        duration(total)
    ));
    Ok(())
}

/// Runs an item and judges its claims; what fails is tried again with the known variants.
fn one(
    item: &Item,
    cells: &[Cell],
    args: &args::Reproduce,
    seeds: u64,
    out: &Path,
    stop: &AtomicBool,
) -> Result<(Results, Vec<Claim>)> {
    let grid = Grid {
        out,
        threads: args.threads,
        quiet: args.quiet,
        stop,
    };
    let mut results = Results::default();
    collect(
        &mut results,
        &grid,
        item.runs.iter().map(|run| &run.0),
        cells,
        seeds,
    )?;
    let mut claims = (item.claims)(&results)?;
    for (called, pair) in item.variants {
        if args.no_variants || claims.iter().all(|claim| claim.verdict != Verdict::Fails) {
            break;
        }
        if !args.quiet {
            tell(format!(
                "{}: some claims fail; the same with {called}",
                item.name
            ));
        }
        let mut variant = results.clone();
        let names = item
            .runs
            .iter()
            .map(|run| &run.0)
            .filter(|n| n.starts_with("apfl"));
        let cells = self::cells(item, args, seeds, Some((called, pair)))?;
        collect(&mut variant, &grid, names, &cells, seeds)?;
        for (claim, other) in claims.iter_mut().zip((item.claims)(&variant)?) {
            if claim.verdict == Verdict::Fails {
                let note = match other.verdict {
                    Verdict::Holds => format!("holds with {called}"),
                    Verdict::WithinNoise => format!("within noise with {called}"),
                    Verdict::Fails => format!("fails with {called} too"),
                };
                claim.note = Some(match claim.note.take() {
                    Some(before) => format!("{before}; {note}"),
                    None => note,
                });
            }
        }
    }
    if args.quick {
        for claim in &mut claims {
            let note = "quick: a fifth of the rounds";
            claim.note = Some(
                claim
                    .note
                    .take()
                    .map_or(note.into(), |n| format!("{n}; {note}")),
            );
        }
    }
    Ok((results, claims))
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
        results.insert(name, runs.map_err(Error::Data)?);
    }
    Ok(())
}

/// Writes verdicts, tables and pictures.
fn write(
    item: &Item,
    results: &Results,
    claims: &[Claim],
    args: &args::Reproduce,
    seeds: u64,
    out: &Path,
) -> Result<()> {
    let json = serde_json::to_string_pretty(claims).expect("plain JSON");
    write_atomically(&out.join("verdict.json"), json + "\n")?;
    let mut page = format!("# {}: {}\n\n", item.name, item.title);
    let quick = if args.quick {
        ", a fifth of the rounds (quick)"
    } else {
        ""
    };
    page += &format!(
        "apfl {} ({}), {}{quick}.\n\n",
        env!("CARGO_PKG_VERSION"),
        env!("APFL_COMMIT"),
        counted(seeds as usize, "seed")
    );
    let heads = ["claim", "paper", "ours", "verdict"]
        .map(String::from)
        .to_vec();
    let row = |claim: &Claim| {
        let verdict = match &claim.note {
            Some(note) => format!("**{}** ({note})", word(claim.verdict)),
            None => format!("**{}**", word(claim.verdict)),
        };
        vec![
            claim.claim.clone(),
            claim.paper.clone(),
            claim.ours.clone(),
            verdict,
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(heads)
        .chain(claims.iter().map(row))
        .collect();
    page += &markdown(&rows);
    for remark in item.remarks {
        page += &format!("\n{remark}\n");
    }
    for (name, rows) in (item.tables)(results)? {
        write_atomically(&out.join(format!("{name}.md")), markdown(&rows))?;
        write_atomically(&out.join(format!("{name}.csv")), csv(&rows))?;
        page += &format!("\n## {name}\n\n{}", markdown(&rows));
    }
    for (name, svg) in (item.figures)(results)? {
        write_atomically(&out.join(format!("{name}.png")), chart::png(&svg)?)?;
        write_atomically(&out.join(format!("{name}.svg")), svg)?;
        page += &format!("\n![{name}]({name}.svg)\n");
    }
    write_atomically(&out.join("verdict.md"), page)
}

fn csv(rows: &[Vec<String>]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).expect("into memory");
    }
    writer.into_inner().expect("into memory")
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::WithinNoise => "within-noise",
        Verdict::Fails => "fails",
    }
}

/// The verdicts for people: the claim, then paper, ours and the verdict under it.
fn text(item: &Item, claims: &[Claim]) -> String {
    let mut text = format!("{} · {}\n\n", item.name, item.title);
    for claim in claims {
        let note = claim
            .note
            .as_ref()
            .map_or(String::new(), |note| format!(" ({note})"));
        text += &format!(
            "  {}\n    paper    {}\n    ours     {}\n    verdict  {}{note}\n\n",
            claim.claim,
            claim.paper,
            claim.ours,
            word(claim.verdict)
        );
    }
    text
}
