//! `apfl data inspect`: how a spec's data falls on its clients.

use apfl::data::{Dataset, Task, partition};
use apfl::error::{Error, Result};
use apfl::files::write_atomically;
use apfl::metrics::Spread;
use serde::Serialize;

use super::picture;
use crate::args::{self, read_spec};
use crate::output::{columns, counted, print, print_json, require_free};

/// What a client has.
#[derive(Serialize)]
pub struct Line {
    /// Its name.
    pub client: String,
    /// Training examples.
    pub train: usize,
    /// Validation examples.
    pub valid: usize,
    /// All its examples, by class; empty for regression.
    pub classes: Vec<u64>,
    /// ‖pᵢ − p‖₁: its class shares against those of all; from 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divergence: Option<f64>,
}

/// How the data falls on the clients.
#[derive(Serialize)]
pub struct Falling {
    /// Class names; empty for regression.
    pub classes: Vec<String>,
    /// All examples, by class.
    pub whole: Vec<u64>,
    /// The clients.
    pub clients: Vec<Line>,
    /// The checksum of the partition, where there is one: `environment.json` has it too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// What the data set says about how it was read.
    pub notes: Vec<String>,
}

/// Clients that the table shows.
const SHOWN: usize = 100;

/// Classes that get a column.
const COLUMNS: usize = 20;

/// Prints the table; writes the picture and the partition where asked.
pub fn inspect(args: &args::Inspect) -> Result<()> {
    let plan = read_spec(Some(&args.spec), &args.overrides)?.plan()?;
    if let Some(path) = &args.svg {
        require_free("--svg", path, &["svg"])?;
    }
    let dataset = plan.data.load()?;
    let saved = match &args.save {
        None => None,
        Some(path) => {
            let assignment = dataset.assignment().ok_or_else(|| {
                Error::Request(format!(
                    "--save {}: {} names its clients itself, there is no partition to save",
                    path.display(),
                    plan.data.kind()
                ))
            })?;
            Some((path, partition::to_json(assignment)))
        }
    };
    let falling = look(&*dataset)?;
    if let Some((path, text)) = saved {
        write_atomically(path, text)?;
        crate::output::tell(format!(
            "wrote {}; use it with data.partition = {{ kind = \"file\", path = \"…\" }}",
            path.display()
        ));
    }
    if let Some(path) = &args.svg {
        write_atomically(path, picture::svg(&falling))?;
        crate::output::tell(format!("wrote {}", path.display()));
    }
    if args.json {
        print_json(&falling)
    } else {
        print(&text(&falling))
    }
}

fn look(dataset: &dyn Dataset) -> Result<Falling> {
    let classes = match &dataset.schema().task {
        Task::Classification { classes } => classes.clone(),
        Task::Regression => Vec::new(),
    };
    let mut whole = vec![0; classes.len()];
    let mut clients = Vec::new();
    for client in 0..dataset.clients() {
        let shard = dataset.shard(client)?;
        let mut counts = shard.train.class_counts(classes.len());
        let valid = shard.valid.class_counts(classes.len());
        counts.iter_mut().zip(&valid).for_each(|(sum, n)| *sum += n);
        whole.iter_mut().zip(&counts).for_each(|(sum, n)| *sum += n);
        clients.push(Line {
            client: shard.name.clone(),
            train: shard.train.len(),
            valid: shard.valid.len(),
            classes: counts,
            divergence: None,
        });
    }
    if !classes.is_empty() {
        for line in &mut clients {
            line.divergence = Some(divergence(&line.classes, &whole));
        }
    }
    Ok(Falling {
        classes,
        whole,
        clients,
        partition: dataset.assignment().map(partition::checksum),
        notes: dataset.notes(),
    })
}

/// ‖p − q‖₁ of the shares of two lists of counts.
fn divergence(counts: &[u64], whole: &[u64]) -> f64 {
    let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
    let (mine, all) = (sum(counts), sum(whole));
    let shares = counts.iter().zip(whole);
    shares
        .map(|(n, of)| (*n as f64 / mine - *of as f64 / all).abs())
        .sum()
}

fn text(falling: &Falling) -> String {
    let by_class = (1..=COLUMNS).contains(&falling.classes.len());
    let mut head = vec!["client".to_string(), "train".into(), "valid".into()];
    if by_class {
        head.extend(falling.classes.iter().cloned());
    } else if !falling.classes.is_empty() {
        head.push("classes".into());
    }
    if !falling.classes.is_empty() {
        head.push("‖pᵢ−p‖₁".into());
    }
    let counts = |counts: &[u64]| -> Vec<String> {
        if by_class {
            counts.iter().map(|n| n.to_string()).collect()
        } else if counts.is_empty() {
            Vec::new()
        } else {
            vec![counts.iter().filter(|n| **n > 0).count().to_string()]
        }
    };
    let mut rows = vec![head];
    for line in falling.clients.iter().take(SHOWN) {
        let mut row = vec![
            line.client.clone(),
            line.train.to_string(),
            line.valid.to_string(),
        ];
        row.extend(counts(&line.classes));
        row.extend(line.divergence.map(|d| format!("{d:.2}")));
        rows.push(row);
    }
    let total = |pick: fn(&Line) -> usize| falling.clients.iter().map(pick).sum::<usize>();
    let mut all = vec![
        "all".to_string(),
        total(|l| l.train).to_string(),
        total(|l| l.valid).to_string(),
    ];
    all.extend(counts(&falling.whole));
    rows.push(all);
    let mut text = columns(&rows);
    if falling.clients.len() > SHOWN {
        let more = counted(falling.clients.len() - SHOWN, "more client");
        text.push_str(&format!("({more} not shown; --json lists all)\n"));
    }
    text.push_str(&format!("\n{}\n", counted(falling.clients.len(), "client")));
    let mut spread = |name: &str, values: Vec<f64>, digits: usize| {
        if let Some(s) = Spread::of(&values) {
            text.push_str(&format!(
                "{name:<22} {:.digits$} to {:.digits$}, median {:.digits$}\n",
                s.min, s.max, s.q50
            ));
        }
    };
    let sizes = falling.clients.iter().map(|l| (l.train + l.valid) as f64);
    spread("examples a client", sizes.collect(), 0);
    let divergences = falling.clients.iter().filter_map(|l| l.divergence);
    spread("label divergence", divergences.collect(), 2);
    for note in &falling.notes {
        text.push_str(&format!("\n{note}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergence_runs_from_0_to_2() {
        assert_eq!(divergence(&[3, 3], &[50, 50]), 0.0);
        // (1, 0) against (1/4, 3/4): 3/4 + 3/4.
        assert_eq!(divergence(&[8, 0], &[10, 30]), 1.5);
    }
}
