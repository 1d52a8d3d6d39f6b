//! A federation over sites: Python carries the messages as opaque bytes.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use apfl::federation::{Accept, Message, Node, Server, Site, Transport, terms_of};
use apfl::run::{Ended, Event};
use apfl::spec::PlannedSites;
use apfl::{Error, Plan};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::Told;
use crate::spec;

/// The plan of a spec that is over sites.
fn planned(spec: &Bound<'_, PyAny>) -> PyResult<(Plan, PlannedSites)> {
    let plan = spec::read(spec)?.plan()?;
    match plan.sites.clone() {
        Some(sites) => Ok((plan, sites)),
        None => Err(crate::errors::spec_error(
            "federation.sites: missing".into(),
            vec![(
                "federation.sites".into(),
                "missing: the names of the sites, such as [\"north\", \"south\"]".into(),
            )],
        )),
    }
}

/// What a spec asks of sites: (the hash of its terms, their names, the deadline in seconds).
#[pyfunction]
pub fn terms(spec: &Bound<'_, PyAny>) -> PyResult<(String, Vec<String>, u64)> {
    let (plan, sites) = planned(spec)?;
    let terms = terms_of(&plan, &crate::program()).map_err(|e| e.told())?;
    Ok((terms.hash(), sites.names, sites.deadline))
}

/// A site's answer to a letter, and what went wrong there, if anything: only the answer may
/// leave the site. `accept`: "operator", "first", or a file with the expected hash.
#[pyfunction]
pub fn answer<'py>(
    py: Python<'py>,
    client: String,
    data: PathBuf,
    state: PathBuf,
    accept: &str,
    letter: Vec<u8>,
) -> (Bound<'py, PyBytes>, Option<String>) {
    let site = Site {
        client,
        data,
        state,
        accept: match accept {
            "operator" => Accept::Operator,
            "first" => Accept::First,
            file => Accept::File(file.into()),
        },
    };
    let (bytes, error) = py.detach(|| match Node::open(site, crate::program()) {
        Ok(node) => node.answer(&letter),
        Err(error) => (Node::refusal(&letter, &error), Some(error)),
    });
    (PyBytes::new(py, &bytes), error.map(|e| e.to_string()))
}

/// A site's answer where none could be made: a code.
#[pyfunction]
pub fn refusal<'py>(py: Python<'py>, letter: Vec<u8>) -> Bound<'py, PyBytes> {
    let failed = Error::Panic {
        client: String::new(),
        message: String::new(),
    };
    PyBytes::new(py, &Node::refusal(&letter, &failed))
}

/// Trains over sites. `ask([(site, letter), …])` returns what came back, likewise;
/// `note(words)` is told what an operator should know; `watch(event, number, text)` as in
/// `train`. Returns (finished, rounds, fingerprint).
#[pyfunction]
pub fn serve(
    py: Python<'_>,
    spec: &Bound<'_, PyAny>,
    directory: PathBuf,
    resume: bool,
    ask: Py<PyAny>,
    note: Py<PyAny>,
    watch: Py<PyAny>,
) -> PyResult<(bool, u64, String)> {
    let (plan, sites) = planned(spec)?;
    let raised = Arc::new(Mutex::new(None));
    let transport = Arc::new(Mutex::new(PyTransport {
        names: sites.names,
        ask,
        note,
        raised: raised.clone(),
    }));
    let server = Server::new(plan, crate::program(), transport, directory, resume);
    let ended = py.detach(|| server.run(&mut |event| see(&watch, event, &raised)));
    if let Some(raised) = raised.lock().map_or(None, |mut raised| raised.take()) {
        return Err(raised);
    }
    match ended.map_err(|e| e.told())? {
        Ended::Finished(run) => Ok((true, run.summary.rounds, run.summary.fingerprint.clone())),
        Ended::Stopped(round) => Ok((false, round, String::new())),
    }
}

/// What Python raised, to be raised again when Rust is left.
type Raised = Arc<Mutex<Option<PyErr>>>;

struct PyTransport {
    names: Vec<String>,
    ask: Py<PyAny>,
    note: Py<PyAny>,
    raised: Raised,
}

impl Transport for PyTransport {
    fn exchange(&mut self, messages: Vec<Message>) -> apfl::Result<Vec<Message>> {
        let came: PyResult<Vec<(String, Vec<u8>)>> = Python::attach(|py| {
            let messages: Vec<(&str, Bound<'_, PyBytes>)> = (messages.iter())
                .map(|message| {
                    let bytes = PyBytes::new(py, &message.bytes);
                    (self.names[message.client].as_str(), bytes)
                })
                .collect();
            self.ask.call1(py, (messages,))?.extract(py)
        });
        let came = came.map_err(|error| {
            let words = error.to_string();
            if let Ok(mut raised) = self.raised.lock() {
                *raised = Some(error);
            }
            Error::Engine(format!("the messages could not be carried: {words}"))
        })?;
        let place = |site: &String| self.names.iter().position(|name| name == site);
        let message =
            |(site, bytes): (String, Vec<u8>)| place(&site).map(|client| Message { client, bytes });
        Ok(came.into_iter().filter_map(message).collect())
    }

    fn note(&mut self, words: &str) {
        let told: PyResult<Py<PyAny>> = Python::attach(|py| self.note.call1(py, (words,)));
        drop(told); // who cannot be told is not told
    }
}

fn see(watch: &Py<PyAny>, event: Event<'_>, raised: &Raised) -> ControlFlow<()> {
    let (name, number, text) = match event {
        Event::Begun(round) => ("begun", round, None),
        Event::Round(record) => {
            let text = serde_json::to_string(record).expect("plain JSON");
            ("round", record.round, Some(text))
        }
        Event::Finalizing(clients) => ("delivering", clients, None),
        Event::Finalized(clients) => ("delivered", clients, None),
        _ => return ControlFlow::Continue(()),
    };
    let told = Python::attach(|py| watch.call1(py, (name, number, text)).map(drop));
    match told {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            if let Ok(mut raised) = raised.lock() {
                *raised = Some(error);
            }
            ControlFlow::Break(())
        }
    }
}
