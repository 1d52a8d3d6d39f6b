//! The server: convenes the sites and trains.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::agreement::{Agreement, Terms, Told, over_sites};
use crate::clients::wire::{decode, encode, joined};
use crate::data::roster::roster;
use crate::engine::EngineKind;
use crate::engine::remote::{Message, Outcome, SiteRequest, Sites, Transport};
use crate::error::{Error, Result, at};
use crate::files::write_atomically;
use crate::run::{Ended, Program, Run, Watch};
use crate::spec::{Plan, PlannedSites, Resources};
use crate::training::Setup;

/// The terms of a plan, as an operator compares them.
pub fn terms_of(plan: &Plan, program: &Program) -> Result<Terms> {
    over_sites(plan)?;
    Ok(Terms::new(plan, program))
}

/// A federation's server.
pub struct Server {
    plan: Plan,
    program: Program,
    transport: Arc<Mutex<dyn Transport>>,
    directory: PathBuf,
    resumes: bool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("directory", &self.directory)
            .field("resumes", &self.resumes)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// The server of a plan, whose run directory is begun there; or, where it `resumes`, goes on.
    pub fn new(
        plan: Plan,
        program: Program,
        transport: Arc<Mutex<dyn Transport>>,
        directory: impl Into<PathBuf>,
        resumes: bool,
    ) -> Self {
        Self {
            plan,
            program,
            transport,
            directory: directory.into(),
            resumes,
        }
    }

    /// Trains to the end and delivers, watched by a caller that may end it.
    pub fn run(&self, watch: &mut Watch<'_>) -> Result<Ended> {
        let file = self.directory.join("agreement.json");
        let kept = if self.resumes && file.exists() {
            let text = fs::read_to_string(&file).map_err(at(&file, "read"))?;
            Some(Agreement::from_json(&text)?)
        } else {
            None
        };
        let (agreement, setup) = self.convene(kept)?;
        let run = Run::new(&self.plan, setup).program(self.program.clone());
        let run = if self.resumes {
            run.resume(&self.directory)
        } else {
            run.directory(&self.directory)
        };
        let mut failed = None;
        let mut written = false;
        let ended = run.watch(&mut |event| {
            // The run directory is there by now.
            if !written {
                written = true;
                if let Err(error) = keep(&file, &agreement) {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            watch(event)
        });
        match failed {
            Some(error) => Err(error),
            None => ended,
        }
    }

    /// Asks all sites what their tables look like, and has them agree; `kept` is what they agreed
    /// on before.
    pub fn convene(&self, kept: Option<Agreement>) -> Result<(Agreement, Setup)> {
        let terms = terms_of(&self.plan, &self.program)?;
        let (_, sites) = over_sites(&self.plan)?;
        let resumed = kept.is_some();
        let (agreement, notes) = match kept {
            Some(agreement) if agreement.terms == terms => (agreement, Vec::new()),
            Some(agreement) => {
                return Err(Error::Checkpoint(format!(
                    "the sites agreed to other terms ({}) than these ({}): another spec, or another \
                     version of the program; put back what was changed, or begin a new run",
                    agreement.terms.hash(),
                    terms.hash()
                )));
            }
            None => {
                self.note(&format!("terms {}", terms.hash()));
                let told = self.ask_all(
                    sites,
                    &SiteRequest::Survey(encode(&terms)),
                    sites.names.len(),
                )?;
                let told = (sites.names.iter().zip(told)).map(|(name, outcome)| match outcome {
                    Some(Outcome::Surveyed(told)) => decode::<Told>(&told),
                    _ => Err(Error::Engine(format!(
                        "site '{name}' answers another request than it got"
                    ))),
                });
                Agreement::make(terms, &self.plan, told.collect::<Result<_>>()?)?
            }
        };
        let request = SiteRequest::Agree(agreement.to_json().into_bytes());
        // Who agreed before may be away for a while.
        let wanted = if resumed {
            sites.min_sites
        } else {
            sites.names.len()
        };
        self.ask_all(sites, &request, wanted)?;
        self.note(&format!("all agreed on {}", agreement.hash()));
        let (schema, classes) = (agreement.schema.clone(), agreement.classes.clone());
        let dataset = roster(&agreement.roster, schema, classes, None);
        let engine = EngineKind::Remote(self.sites(sites, agreement.hash()));
        let on = Resources {
            engine,
            directory: Some(&self.directory),
            ..Resources::default()
        };
        let mut setup = self.plan.setup_with(dataset, on)?;
        setup.notes.extend(notes);
        Ok((agreement, setup))
    }

    fn sites(&self, sites: &PlannedSites, agreement: String) -> Sites {
        Sites::new(
            self.transport.clone(),
            agreement,
            sites.min_sites,
            sites.disclose,
        )
    }

    fn note(&self, text: &str) {
        let transport = self.transport.lock();
        (transport.unwrap_or_else(PoisonError::into_inner)).note(text);
    }

    /// Sends every site the same request; at least `wanted` must respond.
    fn ask_all(
        &self,
        sites: &PlannedSites,
        request: &SiteRequest,
        wanted: usize,
    ) -> Result<Vec<Option<Outcome>>> {
        let bytes = joined(Vec::new(), request);
        let messages = (0..sites.names.len()).map(|client| Message {
            client,
            bytes: bytes.clone(),
        });
        let mut responses = (self.sites(sites, String::new())).exchange(messages.collect())?;
        let (mut outcomes, mut absent, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        for (client, name) in sites.names.iter().enumerate() {
            let result = responses
                .remove(&client)
                .map(|(response, _)| response.result);
            if let Some(Err(code)) = &result {
                codes.push((name.clone(), *code));
            }
            let outcome = result.and_then(|result| result.ok());
            absent.extend(outcome.is_none().then(|| name.clone()));
            outcomes.push(outcome);
        }
        let answered = sites.names.len() - absent.len();
        if answered >= wanted {
            return Ok(outcomes);
        }
        Err(Error::Absent {
            when: match request {
                SiteRequest::Survey(_) => "when they were asked what their tables look like,",
                _ => "when they were asked to agree,",
            }
            .into(),
            responded: answered,
            required: wanted,
            absent,
            codes,
        })
    }
}

fn keep(file: &Path, agreement: &Agreement) -> Result<()> {
    if file.exists() {
        Ok(())
    } else {
        write_atomically(file, agreement.to_json())
    }
}
