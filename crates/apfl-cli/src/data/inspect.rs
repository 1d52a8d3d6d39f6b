//! `apfl data inspect`: shows how a spec's data is assigned to clients.

use apfl::data::{Dataset, Task, partition};
use apfl::error::{Error, Result};
use apfl::files::write_atomically;
use apfl::metrics::Spread;
use serde::Serialize;

use super::picture;
use crate::args::{self, read_spec};
use crate::output::{columns, counted, print, print_json, require_free};

/// Represents a client's data.
#[derive(Serialize)]
pub struct ClientData {
    /// Its name.
    pub client: String,
    /// Training examples.
    pub train: usize,
    /// Validation examples.
    pub valid: usize,
    /// All its examples, by class; empty for regression.
    pub classes: Vec<u64>,
    /// ‖pᵢ − p‖₁: its class shares against those of all clients, from 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divergence: Option<f64>,
}

/// Represents how the data is assigned to clients.
#[derive(Serialize)]
pub struct Distribution {
    /// Class names; empty for regression.
    pub classes: Vec<String>,
    /// All examples, by class.
    pub whole: Vec<u64>,
    /// The clients.
    pub clients: Vec<ClientData>,
    /// The checksum of the partition if there is one, as in `environment.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Notes on how the data was read.
    pub notes: Vec<String>,
}

/// The most clients that the table shows.
const MAX_ROWS: usize = 100;

/// The most classes with a column each.
const MAX_CLASSES: usize = 20;

/// Prints the table, and writes the picture and the partition if requested.
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
                    "--save {}: {} names its clients itself, so there is no partition to save",
                    path.display(),
                    plan.data.kind()
                ))
            })?;
            Some((path, partition::to_json(assignment)))
        }
    };
    let distribution = read(&*dataset)?;
    if let Some((path, text)) = saved {
        write_atomically(path, text)?;
        crate::output::tell(format!(
            "wrote {}; use it with data.partition = {{ kind = \"file\", path = \"…\" }}",
            path.display()
        ));
    }
    if let Some(path) = &args.svg {
        write_atomically(path, picture::svg(&distribution))?;
        crate::output::tell(format!("wrote {}", path.display()));
    }
    if args.json {
        print_json(&distribution)
    } else {
        print(&text(&distribution))
    }
}

fn read(dataset: &dyn Dataset) -> Result<Distribution> {
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
        clients.push(ClientData {
            client: shard.name.clone(),
            train: shard.train.len(),
            valid: shard.valid.len(),
            classes: counts,
            divergence: None,
        });
    }
    if !classes.is_empty() {
        for client in &mut clients {
            client.divergence = Some(divergence(&client.classes, &whole));
        }
    }
    Ok(Distribution {
        classes,
        whole,
        clients,
        partition: dataset.assignment().map(partition::checksum),
        notes: dataset.notes(),
    })
}

/// Returns ‖p − q‖₁ of the shares of two lists of counts.
fn divergence(counts: &[u64], whole: &[u64]) -> f64 {
    let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
    let (client, all) = (sum(counts), sum(whole));
    let shares = counts.iter().zip(whole);
    shares
        .map(|(n, of)| (*n as f64 / client - *of as f64 / all).abs())
        .sum()
}

fn text(distribution: &Distribution) -> String {
    let by_class = (1..=MAX_CLASSES).contains(&distribution.classes.len());
    let mut head = vec!["client".to_string(), "train".into(), "valid".into()];
    if by_class {
        head.extend(distribution.classes.iter().cloned());
    } else if !distribution.classes.is_empty() {
        head.push("classes".into());
    }
    if !distribution.classes.is_empty() {
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
    for client in distribution.clients.iter().take(MAX_ROWS) {
        let mut row = vec![
            client.client.clone(),
            client.train.to_string(),
            client.valid.to_string(),
        ];
        row.extend(counts(&client.classes));
        row.extend(client.divergence.map(|d| format!("{d:.2}")));
        rows.push(row);
    }
    let total =
        |pick: fn(&ClientData) -> usize| distribution.clients.iter().map(pick).sum::<usize>();
    let mut all = vec![
        "all".to_string(),
        total(|l| l.train).to_string(),
        total(|l| l.valid).to_string(),
    ];
    all.extend(counts(&distribution.whole));
    rows.push(all);
    let mut text = columns(&rows);
    if distribution.clients.len() > MAX_ROWS {
        let more = counted(distribution.clients.len() - MAX_ROWS, "more client");
        text.push_str(&format!("({more} not shown; --json lists all)\n"));
    }
    text.push_str(&format!(
        "\n{}\n",
        counted(distribution.clients.len(), "client")
    ));
    let mut spread = |name: &str, values: Vec<f64>, digits: usize| {
        if let Some(s) = Spread::of(&values) {
            text.push_str(&format!(
                "{name:<22} {:.digits$} to {:.digits$}, median {:.digits$}\n",
                s.min, s.max, s.q50
            ));
        }
    };
    let sizes = distribution
        .clients
        .iter()
        .map(|l| (l.train + l.valid) as f64);
    spread("examples per client", sizes.collect(), 0);
    let divergences = distribution.clients.iter().filter_map(|l| l.divergence);
    spread("label divergence", divergences.collect(), 2);
    for note in &distribution.notes {
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
