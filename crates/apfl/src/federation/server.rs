//! The server: makes the sites agree and trains.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::agreement::{Agreement, SiteSurvey, Terms, over_sites};
use crate::clients::wire::{decode, encode, joined};
use crate::data::roster::roster;
use crate::engine::EngineKind;
use crate::engine::remote::{Message, Outcome, SiteRequest, Sites, Transport};
use crate::error::{Error, Result, at};
use crate::files::write_atomically;
use crate::run::{Ended, Program, Run, Watch};
use crate::spec::{Plan, PlannedSites, Resources};
use crate::training::Setup;

/// Returns the terms of a plan over sites.
pub fn terms_of(plan: &Plan, program: &Program) -> Result<Terms> {
    over_sites(plan)?;
    Ok(Terms::new(plan, program))
}

/// The server of a federation.
pub struct Server {
    plan: Plan,
    program: Program,
    transport: Arc<Mutex<dyn Transport>>,
    directory: PathBuf,
    resumes: bool,
    finishes: bool,
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
    /// Creates a server that begins the run directory or, if `resumes`, resumes it.
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
            finishes: false,
        }
    }

    /// Ends the run in the directory at its last checkpoint; see [`Run::finish`].
    pub fn finish(mut self) -> Self {
        (self.resumes, self.finishes) = (true, true);
        self
    }

    /// Trains and finalizes; `watch` may stop the run.
    pub fn run(&self, watch: &mut Watch<'_>) -> Result<Ended> {
        let file = self.directory.join("agreement.json");
        let stored = if self.resumes && file.exists() {
            let text = fs::read_to_string(&file).map_err(at(&file, "read"))?;
            Some(Agreement::from_json(&text)?)
        } else {
            None
        };
        let (agreement, setup) = self.convene(stored)?;
        let run = Run::new(&self.plan, setup).program(self.program.clone());
        let run = if self.finishes {
            run.finish(&self.directory)
        } else if self.resumes {
            run.resume(&self.directory)
        } else {
            run.directory(&self.directory)
        };
        let mut failed = None;
        let mut written = false;
        let ended = run.watch(&mut |event| {
            // The run directory exists by now.
            if !written {
                written = true;
                if let Err(error) = store(&file, &agreement) {
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

    /// Requests the surveys of all sites and has the sites accept the agreement; `stored` is an
    /// earlier agreement.
    pub fn convene(&self, stored: Option<Agreement>) -> Result<(Agreement, Setup)> {
        let terms = terms_of(&self.plan, &self.program)?;
        let (_, sites) = over_sites(&self.plan)?;
        let resumed = stored.is_some();
        let (agreement, notes) = match stored {
            Some(agreement) if agreement.terms == terms => (agreement, Vec::new()),
            Some(agreement) => {
                return Err(Error::Checkpoint(format!(
                    "the sites accepted terms {}, these are {}: the spec or the version of the \
                     program has changed; restore it, or begin a new run",
                    agreement.terms.hash(),
                    terms.hash()
                )));
            }
            None => {
                self.note(&format!("terms {}", terms.hash()));
                let outcomes = self.send_to_all(
                    sites,
                    &SiteRequest::Survey(encode(&terms)),
                    sites.names.len(),
                )?;
                let surveys =
                    (sites.names.iter().zip(outcomes)).map(|(name, outcome)| match outcome {
                        Some(Outcome::Surveyed(survey)) => decode::<SiteSurvey>(&survey),
                        _ => Err(Error::Engine(format!(
                            "the response of site '{name}' does not match the request"
                        ))),
                    });
                Agreement::make(terms, &self.plan, surveys.collect::<Result<_>>()?)?
            }
        };
        let request = SiteRequest::Agree(agreement.to_json().into_bytes());
        // On a resume, sites may be absent for a while.
        let required = if resumed {
            sites.min_sites
        } else {
            sites.names.len()
        };
        self.send_to_all(sites, &request, required)?;
        self.note(&format!(
            "{} accepted agreement {}",
            if resumed { "enough sites" } else { "all sites" },
            agreement.hash()
        ));
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

    /// Sends all sites the same request; at least `required` must respond.
    fn send_to_all(
        &self,
        sites: &PlannedSites,
        request: &SiteRequest,
        required: usize,
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
        let responses = sites.names.len() - absent.len();
        if responses >= required {
            return Ok(outcomes);
        }
        Err(Error::Absent {
            when: match request {
                SiteRequest::Survey(_) => "in the survey",
                _ => "at the agreement",
            }
            .into(),
            responded: responses,
            required,
            absent,
            codes,
        })
    }
}

fn store(file: &Path, agreement: &Agreement) -> Result<()> {
    if file.exists() {
        Ok(())
    } else {
        write_atomically(file, agreement.to_json())
    }
}
