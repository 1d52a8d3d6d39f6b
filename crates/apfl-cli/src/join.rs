//! `apfl join`: personalizes the shared model for a client that was never in training.

use std::path::Path;

use apfl::algorithm::AlgorithmSpec;
use apfl::algorithm::apfl::Mixing;
use apfl::choice::Candidate;
use apfl::data::{Shard, Source, new_client};
use apfl::error::{Error, Result};
use apfl::files::{create_private_directory, tensors, write_atomically};
use apfl::join::{Epoch, JoinChoosing, JoinSettings, Joined, choose_mixing, join};
use apfl::metrics::Score;
use apfl::run::RunDir;
use apfl::run::run_dir::{ChosenRecord, Counts, FinishedRun};
use apfl::{TrainedModel, WhichModel};
use serde::Serialize;

use crate::args;
use crate::output::{columns, note_batches, print, print_json, tell};

/// Represents the result: the output of `--json`, and `join.json` with `--out`.
#[derive(Serialize)]
struct Document<'a> {
    client: &'a str,
    examples: Counts,
    mixing: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen: Option<ChosenRecord>,
    running: bool,
    epochs: &'a [Epoch],
}

/// Personalizes a run's shared model for new data and shows every epoch.
pub fn run(args: &args::Join) -> Result<()> {
    let run = FinishedRun::open(&args.run)?;
    if let Some(out) = &args.out
        && RunDir::require_empty(out).is_err()
    {
        return Err(Error::Request(format!(
            "--out {}: the directory is not empty; give another one",
            out.display()
        )));
    }
    note_batches(&run.plan);
    let shared = run.model(WhichModel::Shared, "")?;
    let model = shared.model();
    let shard = data(&run, &args.data)?;
    let chooser = chooser(args.mixing.as_deref(), &run)?;
    let mut joining = JoinSettings {
        mixing: match chooser {
            Some(_) => Mixing::Fixed(0.0),
            None => mixing(args.mixing.as_deref(), &run.plan.algorithm)?,
        },
        epochs: args.epochs,
        running: args.running,
        local_training: run.plan.local_training.for_new_client(),
        seed: run.plan.seed,
        number: 0,
        unit: run.schema.label_scale().map_or(1.0, |s| s.deviation),
    };
    let choice = match &chooser {
        None => None,
        Some(chooser) => {
            let choice = choose_mixing(model, shared.params(), &shard, &joining, chooser)?;
            // The shared model is α = 0 with w frozen.
            joining.mixing = Mixing::Fixed(choice.candidate.mixing().unwrap_or(0.0));
            joining.running &= choice.candidate != Candidate::Shared;
            Some(ChosenRecord::of(&choice, &chooser.choosing.list()))
        }
    };
    let regression = run.schema.task.classes() == 0;
    let joined = join(model, shared.params(), &shard, &joining, regression)?;
    let document = Document {
        client: &shard.name,
        examples: Counts {
            train: shard.train.len(),
            valid: shard.valid.len(),
            test: None,
        },
        mixing: match joining.mixing {
            _ if choice.is_some() => "chosen",
            Mixing::Fixed(_) => "fixed",
            _ => "adaptive",
        },
        chosen: choice,
        running: joining.running,
        epochs: &joined.epochs,
    };
    if let Some(out) = &args.out {
        write(out, &run, &shard, &joined, &document, model.layout())?;
        write_as_run(out, &run, &shard.name, &joined, &shared)?;
    }
    if args.json {
        print_json(&document)
    } else {
        print(&text(&document, regression))
    }
}

/// Reads the client's data: `synthetic:K` is client K of the run's generator, anything else a file.
fn data(run: &FinishedRun, from: &str) -> Result<Shard> {
    if let Some(k) = from.strip_prefix("synthetic:") {
        let Source::Synthetic(settings) = &run.plan.data else {
            return Err(Error::Request(format!(
                "--data {from}: the run's data is not synthetic; give a CSV or Parquet file"
            )));
        };
        let k = k.parse().map_err(|_| {
            Error::Request(format!(
                "--data {from}: expected synthetic:K with a client's number, such as synthetic:{}",
                settings.clients
            ))
        })?;
        return new_client::synthetic(settings, k);
    }
    let table = match &run.plan.data {
        Source::Table(table) => Some(table),
        _ => None,
    };
    let columns = new_client::TableOptions {
        label: table.map_or("label".into(), |table| table.label.clone()),
        split: table.map_or("split".into(), |table| table.split.clone()),
        validation: run.plan.data.validation(),
        seed: run.plan.seed,
    };
    let (shard, notes) = new_client::read_table(Path::new(from), &run.schema, table, &columns)?;
    notes.iter().for_each(tell);
    Ok(shard)
}

/// Returns how the new client chooses α, if the run's clients did and `--mixing` does not say else.
fn chooser(text: Option<&str>, run: &FinishedRun) -> Result<Option<JoinChoosing>> {
    let requested = text == Some("chosen");
    if text.is_some() && !requested {
        return Ok(None);
    }
    let prior = run.summary()?.prior;
    let (Some(choosing), Some(prior)) = (run.plan.algorithm.choosing(), prior) else {
        return if requested {
            Err(Error::Request(format!(
                "--mixing chosen: {} has no choice of α to start from; it needs a run with \
                 algorithm.mixing = {{ chosen = [… ] }}",
                run.path.display()
            )))
        } else {
            Ok(None)
        };
    };
    let list = choosing.list();
    let loss = |c: &Candidate| prior.losses.get(&c.name()).copied().flatten();
    Ok(Some(JoinChoosing {
        choosing: choosing.clone(),
        curve: list.iter().map(|c| loss(c).unwrap_or(0.0)).collect(),
    }))
}

/// Parses `0.5`, `adaptive` or `adaptive:0.1`. The default is the run's mixing, or 0.5.
fn mixing(text: Option<&str>, algorithm: &AlgorithmSpec) -> Result<Mixing> {
    let of_run = algorithm.apfl().map(|apfl| apfl.mixing);
    let Some(text) = text else {
        return Ok(of_run.unwrap_or(Mixing::Fixed(0.5)));
    };
    let wrong = || {
        Error::Request(format!(
            "--mixing {text}: expected a number from 0 to 1, adaptive, adaptive:START (such as \
             adaptive:0.1), or chosen"
        ))
    };
    let alpha = |text: &str| match text.parse::<f32>() {
        Ok(alpha) if (0.0..=1.0).contains(&alpha) => Ok(alpha),
        _ => Err(wrong()),
    };
    match (text.split_once(':'), of_run) {
        (Some(("adaptive", start)), _) => Ok(Mixing::Adaptive(alpha(start)?)),
        (Some(_), _) => Err(wrong()),
        (None, Some(run @ Mixing::Adaptive(_))) if text == "adaptive" => Ok(run),
        (None, _) if text == "adaptive" => Ok(Mixing::Adaptive(0.5)),
        (None, _) => Ok(Mixing::Fixed(alpha(text)?)),
    }
}

fn write(
    out: &Path,
    run: &FinishedRun,
    shard: &Shard,
    joined: &Joined,
    document: &Document<'_>,
    layout: &apfl::model::Layout,
) -> Result<()> {
    create_private_directory(out)?;
    for (name, params) in [
        ("personal.safetensors", &joined.personal),
        ("local.safetensors", &joined.local),
        ("fine-tuned.safetensors", &joined.fine_tuned),
    ] {
        tensors::write_one(&out.join(name), layout, params)?;
    }
    if matches!(run.plan.data, Source::Synthetic(_)) {
        let table = new_client::to_csv(shard, &run.schema);
        write_atomically(&out.join("data.csv"), table)?;
    }
    let mut json = serde_json::to_string_pretty(document).expect("plain JSON");
    json.push('\n');
    write_atomically(&out.join("join.json"), json)
}

/// Writes the files by which `predict`, `evaluate` and `export` take the directory as a run with
/// the new client as its only client; its localized model is the fine-tuned one.
fn write_as_run(
    out: &Path,
    run: &FinishedRun,
    name: &str,
    joined: &Joined,
    shared: &TrainedModel,
) -> Result<()> {
    let failed = |path: &Path, action| {
        let path = path.to_path_buf();
        move |source| Error::File {
            path,
            action,
            source,
        }
    };
    for file in ["spec.toml", "schema.json"] {
        let from = run.path.join(file);
        let text = std::fs::read(&from).map_err(failed(&from, "read"))?;
        write_atomically(&out.join(file), text)?;
    }
    let models = out.join("models");
    create_private_directory(&models)?;
    let layout = shared.model().layout();
    shared.save(&models.join("shared.safetensors"))?;
    for (file, params) in [
        ("personal.safetensors", &joined.personal),
        ("localized.safetensors", &joined.fine_tuned),
        ("local.safetensors", &joined.local),
    ] {
        let file = tensors::ModelsFile::create(&models.join(file), layout, &[name.to_owned()])?;
        file.write(0, params)?;
        file.file.commit()?;
    }
    let line = serde_json::json!({ "client": name }).to_string();
    write_atomically(&out.join("clients.jsonl"), format!("{line}\n"))?;
    let summary = serde_json::json!({
        "rounds": 0, "clients": 1, "fingerprint": "", "seconds": 0.0,
    });
    write_atomically(&out.join("summary.json"), format!("{summary}\n"))
}

fn text(document: &Document<'_>, regression: bool) -> String {
    let measure = if regression { "rmse" } else { "accuracy" };
    let score = |s: &Score| match (s.accuracy, s.rmse) {
        (Some(accuracy), _) => format!("{:.2}%", 100.0 * accuracy),
        (None, Some(rmse)) => format!("{rmse:.4}"),
        (None, None) => "–".into(),
    };
    let mut head = vec!["epoch".to_string()];
    for split in ["train loss", &format!("valid {measure}")] {
        for model in ["shared", "fine-tuned", "personal"] {
            head.push(match model {
                "shared" => format!("{split}: {model}"),
                _ => model.into(),
            });
        }
    }
    head.push("α".into());
    let mut rows = vec![head];
    for epoch in document.epochs {
        let three = [&epoch.shared, &epoch.fine_tuned, &epoch.personal];
        let mut row = vec![epoch.epoch.to_string()];
        row.extend(three.map(|s| format!("{:.4}", s.train.loss)));
        row.extend(three.map(|s| score(&s.valid)));
        row.push(format!("{:.3}", epoch.mixing));
        rows.push(row);
    }
    let chosen = document.chosen.as_ref().map_or(String::new(), |chosen| {
        let alpha = chosen.alpha.name();
        format!(
            " ({alpha}, by {} held-out rows and the run's prior)",
            chosen.rows
        )
    });
    format!(
        "client {}: {} training and {} validation examples; α {}{chosen}, w {}\n\n{}",
        document.client,
        document.examples.train,
        document.examples.valid,
        document.mixing,
        if document.running {
            "running"
        } else {
            "frozen"
        },
        columns(&rows)
    )
}
