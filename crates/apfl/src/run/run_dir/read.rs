//! The directory of a run that was interrupted or is finished, read again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::{ClientRecord, Environment, HELD_OUT, HeldOutRecord, Summary};
use crate::data::Schema;
use crate::error::{Error, Result, at};
use crate::files::tensors;
use crate::model::{Layout, Model};
use crate::params::Params;
use crate::predict::{TrainedModel, WhichModel};
use crate::settings::nearest;
use crate::spec::{Plan, Spec};
use crate::training::RoundRecord;

/// A run that was interrupted, or is finished: what is found in its directory.
#[derive(Clone, Debug)]
pub struct InterruptedRun {
    /// Where it is.
    pub path: PathBuf,
    /// Its resolved spec.
    pub spec: Spec,
    /// Where and by what it was made; absent if it was killed before that was written.
    pub environment: Option<Environment>,
    /// Its final numbers, where it is finished.
    pub summary: Option<Summary>,
}

impl InterruptedRun {
    /// Reads a run directory; `None` where there is no spec in it, so that no run was
    /// ever begun there.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let read = |name: &str| {
            let file = path.join(name);
            match fs::read_to_string(&file) {
                Ok(text) => Ok(Some(text)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(at(&file, "read")(e)),
            }
        };
        let wrong = |name: &str, e: serde_json::Error| {
            Error::data(format!("{}/{name}: {e}", path.display()))
        };
        let Some(spec) = read("spec.toml")? else {
            return Ok(None);
        };
        let environment = read("environment.json")?
            .map(|text| serde_json::from_str(&text).map_err(|e| wrong("environment.json", e)))
            .transpose()?;
        let summary = read("summary.json")?
            .map(|text| serde_json::from_str(&text).map_err(|e| wrong("summary.json", e)))
            .transpose()?;
        Ok(Some(Self {
            path: path.into(),
            spec: Spec::parse(&spec)?,
            environment,
            summary,
        }))
    }
}

/// A finished run that is being read.
#[derive(Clone, Debug)]
pub struct FinishedRun {
    /// Where it is.
    pub path: PathBuf,
    /// Its plan.
    pub plan: Plan,
    /// What its inputs look like.
    pub schema: Schema,
    /// The one client it is of, where it is what delivery left at a site.
    pub site: Option<String>,
}

impl FinishedRun {
    /// Opens a run directory; the run must be finished. A site's state directory is opened as
    /// what delivery left there.
    pub fn open(path: &Path) -> Result<Self> {
        let left = path.join("run");
        if path.join("memories").is_dir() && !path.join("spec.toml").exists() {
            if !left.exists() {
                let problem = "nothing was delivered to this site yet";
                return Err(Error::in_file(path, problem));
            }
            let mut run = Self::open(&left)?;
            run.site = run.clients()?.into_iter().next();
            return Ok(run);
        }
        let text = |name: &str| {
            let file = path.join(name);
            fs::read_to_string(&file).map_err(|source| match source.kind() {
                std::io::ErrorKind::NotFound if path.is_dir() => Error::in_file(
                    path,
                    match (name, path.join("spec.toml").exists()) {
                        ("spec.toml", _) | (_, false) => {
                            format!("there is no {name} in it; is it the directory of a run?")
                        }
                        _ => "the run is not finished; apfl run --resume --out with this \
                              directory finishes it"
                            .into(),
                    },
                ),
                _ => at(&file, "read")(source),
            })
        };
        if path.is_file() {
            return Err(Error::in_file(
                path,
                "is a file, not the directory of a run",
            ));
        }
        let plan = planned(path, &Spec::parse(&text("spec.toml")?)?)?;
        let schema = text("schema.json")?;
        let damaged = |e: String| Error::data(format!("{}/schema.json: {e}", path.display()));
        let schema: Schema = serde_json::from_str(&schema).map_err(|e| damaged(e.to_string()))?;
        if let Some(problem) = schema.problem() {
            return Err(damaged(format!("is damaged: it has {problem}")));
        }
        text("summary.json")?;
        Ok(Self {
            path: path.into(),
            plan,
            schema,
            site: None,
        })
    }

    /// A model of the run, for whom it was made; `client` is not asked for the shared one.
    pub fn model(&self, which: WhichModel, client: &str) -> Result<TrainedModel> {
        let model: Arc<dyn Model> = Arc::from(self.plan.architecture.build(&self.schema)?);
        if which != WhichModel::Shared {
            self.require_client(client)?;
        }
        let personal = self.plan.algorithm.properties().personal;
        let form = which.form(personal);
        let params = read_model(&self.path, &form.layout(model.layout()), which, client)?;
        TrainedModel::in_form(form, model, params, self.schema.clone())
    }

    /// Its final numbers.
    pub fn summary(&self) -> Result<Summary> {
        let file = self.path.join("summary.json");
        let text = fs::read_to_string(&file).map_err(at(&file, "read"))?;
        serde_json::from_str(&text).map_err(|e| Error::in_file(&file, e))
    }

    /// The clients that delivery reached.
    pub fn clients(&self) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Named {
            client: String,
        }
        let file = self.path.join("clients.jsonl");
        let text = fs::read_to_string(&file).map_err(at(&file, "read"))?;
        let name = |(k, line): (usize, &str)| {
            serde_json::from_str(line)
                .map(|Named { client }| client)
                .map_err(|e| Error::in_file(&file, format!("line {}: {e}", k + 1)))
        };
        text.lines().enumerate().map(name).collect()
    }

    /// An error where delivery did not reach a client of that name.
    pub fn require_client(&self, client: &str) -> Result<()> {
        let clients = self.clients()?;
        if clients.iter().any(|c| c == client) {
            return Ok(());
        }
        let near = nearest(client, clients.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!(" (did you mean '{near}'?)"));
        let few: Vec<&str> = clients.iter().take(10).map(String::as_str).collect();
        let more = if clients.len() > 10 { ", …" } else { "" };
        Err(Error::Request(format!(
            "client '{client}': the run delivered to no client of that name{near}; there are {} \
             of them: {}{more}",
            clients.len(),
            few.join(", ")
        )))
    }
}

/// The plan of a run's spec; an error where the run is of a program of one's own, whose data
/// and model no spec has.
fn planned(run: &Path, spec: &Spec) -> Result<Plan> {
    let kind = spec.table().get("data").and_then(|data| data.get("kind"));
    match kind.and_then(|kind| kind.as_str()) {
        Some("own") => Err(Error::Request(format!(
            "{}: the run was made through the library, with data and a model of one's own; the \
             program that made it opens it",
            run.display()
        ))),
        _ => spec.plan(),
    }
}

/// Reads a model of a finished run, whose tensors are those of `layout`.
pub(crate) fn read_model(
    run: &Path,
    layout: &Layout,
    which: WhichModel,
    client: &str,
) -> Result<Params> {
    let file = run.join("models").join(which.file());
    let client = match which {
        WhichModel::Shared => "",
        _ => client,
    };
    if which != WhichModel::Shared && !file.exists() {
        return Err(Error::in_file(
            run,
            format!(
                "there is no models/{} in it; are delivery.clients and delivery.keep such that it was kept?{}",
                which.file(),
                match which {
                    WhichModel::Alone =>
                        " (clients also train alone where 1 is among the candidates of mixing = { chosen = … })",
                    _ => "",
                }
            ),
        ));
    }
    tensors::read_one(&file, layout, client)
}

/// The lines of a run directory's `rounds.jsonl`.
pub fn read_rounds(run: &Path) -> Result<Vec<RoundRecord>> {
    read_lines(&run.join("rounds.jsonl"))
}

/// The lines of a run directory's `clients.jsonl`.
pub fn read_clients(run: &Path) -> Result<Vec<ClientRecord>> {
    read_lines(&run.join("clients.jsonl"))
}

/// The lines of a pass's `held-out.jsonl`.
pub fn read_held_out(run: &Path) -> Result<Vec<HeldOutRecord>> {
    read_lines(&run.join(HELD_OUT))
}

fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = fs::read_to_string(path).map_err(at(path, "read"))?;
    let line = |(k, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|e| {
            let (path, k) = (path.display(), k + 1);
            Error::data(format!("{path}: line {k} is not a record of a run: {e}"))
        })
    };
    text.lines().enumerate().map(line).collect()
}
