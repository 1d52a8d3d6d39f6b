//! Reading of run directories.

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
use crate::run::probe::FoundRate;
use crate::settings::nearest;
use crate::spec::{Plan, Spec};
use crate::training::RoundRecord;

/// The content of the directory of an interrupted or finished run.
#[derive(Clone, Debug)]
pub struct InterruptedRun {
    /// The run directory.
    pub path: PathBuf,
    /// Its resolved spec. A learning rate that a probe found is "auto" again.
    pub spec: Spec,
    /// Its environment; absent if the run was killed before that was written.
    pub environment: Option<Environment>,
    /// Its summary, if it is finished.
    pub summary: Option<Summary>,
}

impl InterruptedRun {
    /// Reads a run directory; `None` if it has no spec, so that no run was begun in it.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let read = |name: &str| {
            let file = path.join(name);
            match fs::read_to_string(&file) {
                Ok(text) => Ok(Some(text)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(at(&file, "read")(e)),
            }
        };
        let invalid = |name: &str, e: serde_json::Error| {
            Error::data(format!("{}/{name}: {e}", path.display()))
        };
        let Some(spec) = read("spec.toml")? else {
            return Ok(None);
        };
        let mut spec = Spec::parse(&spec)?;
        if let Some(found) = FoundRate::read(path)? {
            spec.make_rate_auto(&found.key);
        }
        let environment = read("environment.json")?
            .map(|text| serde_json::from_str(&text).map_err(|e| invalid("environment.json", e)))
            .transpose()?;
        let summary = read("summary.json")?
            .map(|text| serde_json::from_str(&text).map_err(|e| invalid("summary.json", e)))
            .transpose()?;
        Ok(Some(Self {
            path: path.into(),
            spec,
            environment,
            summary,
        }))
    }
}

/// A finished run in a run directory.
#[derive(Clone, Debug)]
pub struct FinishedRun {
    /// The run directory.
    pub path: PathBuf,
    /// Its plan.
    pub plan: Plan,
    /// The schema of its data.
    pub schema: Schema,
    /// The site, if it is the run directory of a site.
    pub site: Option<String>,
}

impl FinishedRun {
    /// Opens the directory of a finished run. For a site's state directory, opens the run
    /// directory in it.
    pub fn open(path: &Path) -> Result<Self> {
        let site_run = path.join("run");
        if path.join("memories").is_dir() && !path.join("spec.toml").exists() {
            if !site_run.exists() {
                let problem = "this site has no finalized models yet; they are there when the federation has finished";
                return Err(Error::in_file(path, problem));
            }
            let mut run = Self::open(&site_run)?;
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
                            format!("not a run directory: {name} is missing")
                        }
                        _ => "the run is not finished; apfl run --resume --out with this \
                              directory trains its remaining rounds, and apfl finish with it \
                              ends it at its last checkpoint"
                            .into(),
                    },
                ),
                _ => at(&file, "read")(source),
            })
        };
        if path.is_file() {
            return Err(Error::in_file(
                path,
                "expected a run directory, found a file",
            ));
        }
        let plan = planned(path, &Spec::parse(&text("spec.toml")?)?)?;
        let schema = text("schema.json")?;
        let damaged = |e: String| Error::data(format!("{}/schema.json: {e}", path.display()));
        let schema: Schema = serde_json::from_str(&schema).map_err(|e| damaged(e.to_string()))?;
        if let Some(problem) = schema.problem() {
            return Err(damaged(format!("it has {problem}")));
        }
        text("summary.json")?;
        Ok(Self {
            path: path.into(),
            plan,
            schema,
            site: None,
        })
    }

    /// Reads a model of the run; `client` is ignored for the shared one.
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

    /// Reads its summary.
    pub fn summary(&self) -> Result<Summary> {
        let file = self.path.join("summary.json");
        let text = fs::read_to_string(&file).map_err(at(&file, "read"))?;
        serde_json::from_str(&text).map_err(|e| Error::in_file(&file, e))
    }

    /// Reads the names of the finalized clients.
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

    /// Returns an error unless the client is one of the finalized clients.
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
            "client '{client}': the run finalized no client of that name{near}; it has {}: \
             {}{more}",
            clients.len(),
            few.join(", ")
        )))
    }
}

/// Returns the plan of a run's spec.
///
/// # Errors
/// If the run has data and a model given in code, which no spec describes.
fn planned(run: &Path, spec: &Spec) -> Result<Plan> {
    let kind = spec.table().get("data").and_then(|data| data.get("kind"));
    match kind.and_then(|kind| kind.as_str()) {
        Some("own") => Err(Error::Request(format!(
            "{}: the run was made through the library, with data and a model given in code; open \
             it with the program that made it",
            run.display()
        ))),
        _ => spec.plan(),
    }
}

/// Reads a model of a finished run, with the tensors of `layout`.
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
                "models/{} is missing; delivery.clients and delivery.keep decide which models are kept{}",
                which.file(),
                match which {
                    WhichModel::Alone =>
                        " (clients also train alone if 1 is among the candidates of mixing = { chosen = … })",
                    _ => "",
                }
            ),
        ));
    }
    tensors::read_one(&file, layout, client)
}

/// Reads `rounds.jsonl` of a run directory.
pub fn read_rounds(run: &Path) -> Result<Vec<RoundRecord>> {
    read_lines(&run.join("rounds.jsonl"))
}

/// Reads `clients.jsonl` of a run directory.
pub fn read_clients(run: &Path) -> Result<Vec<ClientRecord>> {
    read_lines(&run.join("clients.jsonl"))
}

/// Reads `held-out.jsonl` of a pass.
pub fn read_held_out(run: &Path) -> Result<Vec<HeldOutRecord>> {
    read_lines(&run.join(HELD_OUT))
}

fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = fs::read_to_string(path).map_err(at(path, "read"))?;
    let line = |(k, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|e| {
            let (path, k) = (path.display(), k + 1);
            Error::data(format!("{path}: line {k} is not a valid record: {e}"))
        })
    };
    text.lines().enumerate().map(line).collect()
}
