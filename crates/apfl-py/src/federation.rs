//! Federations over sites: Python transports messages as opaque bytes.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use apfl::federation::{Accept, Message, Node, Server, Site, Transport, terms_of};
use apfl::run::{Ended, Event};
use apfl::spec::PlannedSites;
use apfl::{Error, Plan};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::IntoPyErr;
use crate::spec;

/// Returns the plan and the sites of a spec over sites.
fn planned(spec: &Bound<'_, PyAny>) -> PyResult<(Plan, PlannedSites)> {
    let plan = spec::read(spec)?.plan()?;
    match plan.sites.clone() {
        Some(sites) => Ok((plan, sites)),
        None => Err(crate::errors::spec_error(
            "federation.sites: missing".into(),
            vec![(
                "federation.sites".into(),
                "missing; give the names of the sites, such as [\"north\", \"south\"]".into(),
            )],
        )),
    }
}

/// Returns (hash of the terms, names of the sites, deadline in seconds) of a spec.
#[pyfunction]
pub fn terms(spec: &Bound<'_, PyAny>) -> PyResult<(String, Vec<String>, u64)> {
    let (plan, sites) = planned(spec)?;
    let terms = terms_of(&plan, &crate::program()).map_err(|e| e.into_py_err())?;
    Ok((terms.hash(), sites.names, sites.deadline))
}

/// Returns a site's response to a request and the text of an error, if any. Only the response may
/// leave the site. `accept`: "operator", "first", or a file with the expected hash.
#[pyfunction]
pub fn answer<'py>(
    py: Python<'py>,
    client: String,
    data: PathBuf,
    state: PathBuf,
    accept: &str,
    request: Vec<u8>,
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
        Ok(node) => node.answer(&request),
        Err(error) => (Node::refusal(&request, &error), Some(error)),
    });
    (PyBytes::new(py, &bytes), error.map(|e| e.to_string()))
}

/// Returns the response of a site that failed: a code.
#[pyfunction]
pub fn refusal<'py>(py: Python<'py>, request: Vec<u8>) -> Bound<'py, PyBytes> {
    let failed = Error::Panic {
        client: String::new(),
        message: String::new(),
    };
    PyBytes::new(py, &Node::refusal(&request, &failed))
}

/// Trains over sites. `exchange([(site, request), …])` returns the responses in the same form;
/// `note(message)` receives messages for the operator; `watch(event, number, text)` as in `train`.
/// `finish` ends the run in the directory at its last checkpoint. Returns (finished, rounds,
/// fingerprint).
#[pyfunction]
#[allow(clippy::too_many_arguments)] // Python passes them by position
pub fn serve(
    py: Python<'_>,
    spec: &Bound<'_, PyAny>,
    directory: PathBuf,
    resume: bool,
    finish: bool,
    exchange: Py<PyAny>,
    note: Py<PyAny>,
    watch: Py<PyAny>,
) -> PyResult<(bool, u64, String)> {
    let (plan, sites) = planned(spec)?;
    let raised = Arc::new(Mutex::new(None));
    let transport = Arc::new(Mutex::new(PyTransport {
        names: sites.names,
        exchange,
        note,
        raised: raised.clone(),
    }));
    let server = Server::new(plan, crate::program(), transport, directory, resume);
    let server = if finish { server.finish() } else { server };
    let ended = py.detach(|| server.run(&mut |event| see(&watch, event, &raised)));
    if let Some(raised) = raised.lock().map_or(None, |mut raised| raised.take()) {
        return Err(raised);
    }
    match ended.map_err(|e| e.into_py_err())? {
        Ended::Finished(run) => Ok((true, run.summary.rounds, run.summary.fingerprint.clone())),
        Ended::Stopped(round) => Ok((false, round, String::new())),
    }
}

/// An exception of a Python callback, raised again when Rust returns.
type Raised = Arc<Mutex<Option<PyErr>>>;

struct PyTransport {
    names: Vec<String>,
    exchange: Py<PyAny>,
    note: Py<PyAny>,
    raised: Raised,
}

impl Transport for PyTransport {
    fn exchange(&mut self, messages: Vec<Message>) -> apfl::Result<Vec<Message>> {
        let received: PyResult<Vec<(String, Vec<u8>)>> = Python::attach(|py| {
            let messages: Vec<(&str, Bound<'_, PyBytes>)> = (messages.iter())
                .map(|message| {
                    let bytes = PyBytes::new(py, &message.bytes);
                    (self.names[message.client].as_str(), bytes)
                })
                .collect();
            self.exchange.call1(py, (messages,))?.extract(py)
        });
        let received = received.map_err(|error| {
            let message = error.to_string();
            if let Ok(mut raised) = self.raised.lock() {
                *raised = Some(error);
            }
            Error::Engine(format!("the transport of messages failed: {message}"))
        })?;
        let index = |site: &String| self.names.iter().position(|name| name == site);
        let message =
            |(site, bytes): (String, Vec<u8>)| index(&site).map(|client| Message { client, bytes });
        Ok(received.into_iter().filter_map(message).collect())
    }

    fn note(&mut self, message: &str) {
        // A note that fails is lost.
        let _ = Python::attach(|py| self.note.call1(py, (message,)));
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
    let result = Python::attach(|py| watch.call1(py, (name, number, text)).map(drop));
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            if let Ok(mut raised) = raised.lock() {
                *raised = Some(error);
            }
            ControlFlow::Break(())
        }
    }
}
