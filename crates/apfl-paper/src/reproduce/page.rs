//! Writes the verdicts, tables and pictures of an item.

use std::path::Path;

use apfl::error::Result;
use apfl::files::write_atomically;
use apfl_report::chart;
use apfl_report::format::counted;
use apfl_report::table::{csv, markdown};

use super::check::student_t;
use super::item::Item;
use super::results::Results;
use super::verdict::{Claim, Verdict};

/// Writes verdicts, tables and pictures. Returns the tables.
pub fn write(
    item: &Item,
    results: &Results,
    claims: &[Claim],
    seeds: u64,
    deviations: &[String],
    out: &Path,
) -> Result<String> {
    let json = serde_json::to_string_pretty(claims).expect("plain JSON");
    write_atomically(&out.join("verdict.json"), json + "\n")?;
    let mut page = format!("# {}: {}\n\n", item.name, item.title);
    let commits: Vec<String> = results.commits().into_iter().collect();
    page += &format!(
        "apfl {}, runs by {}, {}.\n",
        env!("CARGO_PKG_VERSION"),
        commits.join(" and "),
        counted(seeds as usize, "seed")
    );
    if !claims.is_empty() {
        page += "\n";
        page += &verdicts(claims);
        page += &format!("\n{}\n", rule(seeds));
    }
    for remark in item.remarks {
        page += &format!("\n{remark}\n");
    }
    let mut tables = if deviations.is_empty() {
        String::new()
    } else {
        format!("\n**Not as the preset says:** {}.\n", deviations.join("; "))
    };
    for (name, rows) in (item.tables)(results)? {
        write_atomically(&out.join(format!("{name}.md")), markdown(&rows))?;
        write_atomically(&out.join(format!("{name}.csv")), csv(&rows))?;
        tables += &format!("\n## {name}\n\n{}", markdown(&rows));
    }
    page += &tables;
    for (name, svg) in (item.figures)(results)? {
        write_atomically(&out.join(format!("{name}.png")), chart::png(&svg)?)?;
        write_atomically(&out.join(format!("{name}.svg")), svg)?;
        page += &format!("\n![{name}]({name}.svg)\n");
    }
    write_atomically(&out.join("verdict.md"), page)?;
    Ok(tables)
}

/// Reads the number of seeds from an existing page.
pub fn seeds_of(page: &str) -> Option<u64> {
    let line = page.lines().find(|line| line.starts_with("apfl "))?;
    let words = line.rsplit(", ").next()?;
    words.split(' ').next()?.parse().ok()
}

/// Describes how the verdicts are reached with this number of seeds.
fn rule(seeds: u64) -> String {
    match seeds {
        1 => "One seed: the sign of a margin decides.".into(),
        n => format!(
            "Margins are means over seeds ± their standard errors. A comparison holds if its margin is \
             above {:.2} standard errors (Student's t for {n} seeds, one-sided 95%), fails if it is below \
             minus that, and is within noise otherwise. The worst comparison decides a claim. In tables \
             ± is the standard deviation over seeds.",
            student_t(n as usize)
        ),
    }
}

fn verdicts(claims: &[Claim]) -> String {
    let heads = ["claim", "paper", "ours", "verdict"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    for claim in claims {
        let verdict = match &claim.note {
            Some(note) => format!("**{}** ({note})", verdict_name(claim.verdict)),
            None => format!("**{}**", verdict_name(claim.verdict)),
        };
        let text = match claim.sentence {
            Some(sentence) => format!("{} (“{sentence}”)", claim.claim),
            None => claim.claim.clone(),
        };
        let [paper, ours] = [&claim.paper, &claim.ours].map(String::clone);
        rows.push(vec![text, paper, ours, verdict]);
    }
    markdown(&rows)
}

/// Returns the name of a verdict.
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::WithinNoise => "within-noise",
        Verdict::Fails => "fails",
    }
}

/// Formats the verdicts as text: the claim, then paper, ours and the verdict.
pub fn text(item: &Item, claims: &[Claim]) -> String {
    let mut text = format!("{} · {}\n\n", item.name, item.title);
    for claim in claims {
        let note = claim.note.as_ref();
        let note = note.map_or(String::new(), |note| format!(" ({note})"));
        let sentence = claim.sentence.map_or(String::new(), |sentence| {
            format!("    rests on “{sentence}”\n")
        });
        text += &format!(
            "  {}\n{sentence}    paper    {}\n    ours     {}\n    verdict  {}{note}\n\n",
            claim.claim,
            claim.paper,
            claim.ours,
            verdict_name(claim.verdict)
        );
    }
    text
}
