//! A finished run: its summary, records and models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::choice::HeldOut;
use crate::clients::ClientModels;
use crate::data::Schema;
use crate::error::{Error, Result};
use crate::local_client::ModelForm;
use crate::model::Model;
use crate::params::Params;
use crate::predict::{TrainedModel, WhichModel};
use crate::run::choice::Choices;
use crate::run::run_dir::{
    ClientRecord, HeldOutRecord, Summary, read_clients, read_held_out, read_model, read_rounds,
};
use crate::training::{RoundRecord, Setup};

/// A finished run, in a run directory or in memory.
pub struct Finished {
    /// Its summary.
    pub summary: Summary,
    model: Arc<dyn Model>,
    schema: Schema,
    /// The form of personal models.
    personal_form: ModelForm,
    storage: Storage,
}

/// Where the records and models of a finished run are.
enum Storage {
    Directory(PathBuf),
    Memory {
        shared: Params,
        rounds: Vec<RoundRecord>,
        clients: Vec<ClientRecord>,
        models: BTreeMap<String, ClientModels>,
        held_out: BTreeMap<usize, HeldOut>,
    },
}

impl Finished {
    fn new(summary: Summary, setup: &Setup, personal_form: ModelForm, storage: Storage) -> Self {
        Self {
            summary,
            model: setup.context.model.clone(),
            schema: setup.context.dataset.schema().clone(),
            personal_form,
            storage,
        }
    }

    pub(super) fn in_directory(
        summary: Summary,
        path: &Path,
        setup: &Setup,
        personal_form: ModelForm,
    ) -> Self {
        Self::new(
            summary,
            setup,
            personal_form,
            Storage::Directory(path.into()),
        )
    }

    pub(super) fn in_memory(
        summary: Summary,
        setup: &Setup,
        personal_form: ModelForm,
        shared: Params,
        rounds: Vec<RoundRecord>,
        choices: Choices,
        (clients, models): (Vec<ClientRecord>, BTreeMap<String, ClientModels>),
    ) -> Self {
        let of = choices.by_client.into_iter();
        let storage = Storage::Memory {
            held_out: of.map(|(k, choice)| (k, choice.held_out)).collect(),
            shared,
            rounds,
            clients,
            models,
        };
        Self::new(summary, setup, personal_form, storage)
    }

    /// Returns the run directory, if it has one.
    pub fn directory(&self) -> Option<&Path> {
        match &self.storage {
            Storage::Directory(path) => Some(path),
            Storage::Memory { .. } => None,
        }
    }

    /// Returns the schema of the data: features and classes in order.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the records of all rounds.
    pub fn rounds(&self) -> Result<Vec<RoundRecord>> {
        match &self.storage {
            Storage::Directory(path) => read_rounds(path),
            Storage::Memory { rounds, .. } => Ok(rounds.clone()),
        }
    }

    /// Returns the records of all finalized clients.
    pub fn clients(&self) -> Result<Vec<ClientRecord>> {
        match &self.storage {
            Storage::Directory(path) => read_clients(path),
            Storage::Memory { clients, .. } => Ok(clients.clone()),
        }
    }

    /// Returns the clients' losses on held-out rows, by client index.
    pub(super) fn held_out(&self, setup: &Setup) -> Result<BTreeMap<usize, HeldOut>> {
        let path = match &self.storage {
            Storage::Memory { held_out, .. } => return Ok(held_out.clone()),
            Storage::Directory(path) => path,
        };
        let dataset = &setup.context.dataset;
        let clients = 0..dataset.clients();
        let places: BTreeMap<String, usize> = clients.map(|k| (dataset.name(k), k)).collect();
        let place = |record: HeldOutRecord| match places.get(&record.client) {
            Some(client) => Ok((*client, record.held_out)),
            None => Err(Error::in_file(
                path,
                format!(
                    "found held-out rows of '{}', which is not a client of the run",
                    record.client
                ),
            )),
        };
        read_held_out(path)?.into_iter().map(place).collect()
    }

    /// Returns the shared model.
    pub fn shared(&self) -> Result<TrainedModel> {
        self.model(WhichModel::Shared, "")
    }

    /// Returns a client's personal model.
    pub fn personal(&self, client: &str) -> Result<TrainedModel> {
        self.model(WhichModel::Personal, client)
    }

    /// Returns any model; `client` is ignored for the shared one.
    pub fn model(&self, which: WhichModel, client: &str) -> Result<TrainedModel> {
        let client = match which {
            WhichModel::Shared => "",
            _ => client,
        };
        let absent = || {
            Error::Request(format!(
                "client '{client}': the run has no such model of this client; see finished.clients() for its clients"
            ))
        };
        let form = which.form(self.personal_form);
        let params = match &self.storage {
            Storage::Directory(path) => {
                if !client.is_empty() && !self.clients()?.iter().any(|c| c.client == client) {
                    return Err(absent());
                }
                read_model(path, &form.layout(self.model.layout()), which, client)?
            }
            Storage::Memory { shared, models, .. } => {
                let of = |pick: fn(&ClientModels) -> &Params| {
                    models.get(client).map(pick).cloned().ok_or_else(absent)
                };
                match which {
                    WhichModel::Shared => shared.clone(),
                    WhichModel::Localized => of(|models| &models.localized)?,
                    WhichModel::Local => of(|models| &models.local)?,
                    WhichModel::Personal => of(|models| &models.personal)?,
                    WhichModel::Alone => {
                        let own = models.get(client).and_then(|models| models.alone.clone());
                        own.ok_or_else(absent)?
                    }
                }
            }
        };
        TrainedModel::in_form(form, self.model.clone(), params, self.schema.clone())
    }
}

impl std::fmt::Debug for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finished")
            .field("summary", &self.summary)
            .field("directory", &self.directory())
            .finish_non_exhaustive()
    }
}
