//! A federation over sites in one process: a courier that reverses, repeats, loses and delays
//! messages must not be seen in any bit of the results.

mod answers;
mod bytes;
mod hostile;
mod kills;
mod liars;
mod lies;
mod scores;
mod surveys;
mod terms;
mod wire;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use apfl::federation::{Accept, Message, Node, Server, Site, Transport};
use apfl::run::{Ended, Finished, Program, Run};
use apfl::spec::{Plan, Spec};
use apfl::{Error, Result};
use rand::RngExt;

use crate::small::fitting;

/// The sites of all tests.
pub const SITES: [&str; 4] = ["north", "south", "east", "west"];

/// Their tables, which differ in size, in what is missing and in who has which colour.
pub fn tables(directory: &Path) {
    for (k, site) in SITES.iter().enumerate() {
        let mut rng = apfl::rng::stream(5, apfl::rng::Purpose::Synthesis, 0, k as u64);
        let mut text = String::from("age,pressure,colour,smokes,label\n");
        for row in 0..60 + 11 * k {
            let age: f64 = rng.random_range(20.0..80.0);
            let pressure: f64 = rng.random_range(90.0..180.0) + 5.0 * k as f64;
            let colour = ["red", "green", "blue"][(row + k) % (2 + k % 2)];
            let ill = age + 0.3 * pressure > 95.0 + 4.0 * k as f64;
            let age = if row % 17 == k {
                String::new()
            } else {
                format!("{age:.3}")
            };
            let label = if ill { "ill" } else { "well" };
            text += &format!("{age},{pressure:.2},{colour},{},{label}\n", row % 3 == 0);
        }
        std::fs::write(directory.join(format!("{site}.csv")), text).unwrap();
    }
}

/// A spec of those tables, over sites.
pub fn spec(directory: &Path, algorithm: &str, more: &str) -> Spec {
    let path = |site: &&str| format!("'{}'", directory.join(format!("{site}.csv")).display());
    let paths: Vec<String> = SITES.iter().map(path).collect();
    let text = format!(
        "seed = 4
         algorithm = {algorithm}
         model = {{ kind = 'mlp', hidden = [6] }}
         data = {{ kind = 'table', path = [{}], client = {{ file = true }}, standardize = true,
                   test = 0.1 }}
         training = {{ rounds = 5, local_steps = 4, batch = 16, class_weights = 'balanced' }}
         federation = {{ participation = 0.75, sites = ['north', 'south', 'east', 'west'],
                         min_sites = 1, disclose = ['mixing', 'classes', 'scores'] }}
         evaluation = {{ every = 2 }}
         checkpoint = {{ every = 2 }}",
        paths.join(", ")
    );
    let mut spec = Spec::parse(&text).unwrap();
    for assignment in more.lines().map(str::trim).filter(|l| !l.is_empty()) {
        spec.set(assignment).unwrap();
    }
    for remedy in ["federation.min_sites=4", "training.class_weights=none"] {
        let mut spec = fitting(spec.clone());
        if spec.plan().is_ok() {
            break;
        }
        spec.set(remedy).unwrap();
    }
    let mut spec = fitting(spec);
    if spec.plan().is_err() {
        spec.set("federation.min_sites=4").unwrap();
    }
    spec
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// It is answered, and so is a copy of it before.
    Twice,
    /// It is answered when it is too late: the answer comes with the next messages.
    Late,
    /// It does not arrive.
    Lost,
}

/// Changes an answer of an exchange and a client.
pub type Forger = Box<dyn Fn((usize, usize), Vec<u8>) -> Vec<u8> + Send>;

/// Carries messages to nodes that are opened for each of them, and answers back in reverse.
pub struct Post {
    pub sites: Vec<Site>,
    /// What becomes of messages, by exchange (from 1: survey, 2: agreement, 3: the first round)
    /// and client.
    pub fates: BTreeMap<(usize, usize), Fate>,
    /// What becomes of an answer on its way, by exchange and client.
    pub forge: Option<Forger>,
    /// The exchange in which the server dies.
    pub dies_at: Option<usize>,
    pub exchange: usize,
    pub late: Vec<Message>,
    /// All messages, there and back.
    pub seen: Vec<(Message, Message)>,
    pub notes: Vec<String>,
}

impl Post {
    pub fn new(directory: &Path, states: &Path) -> Self {
        let site = |name: &&str| Site {
            client: (*name).into(),
            data: directory.join(format!("{name}.csv")),
            state: states.join(name),
            accept: Accept::First,
        };
        Self {
            sites: SITES.iter().map(site).collect(),
            fates: BTreeMap::new(),
            forge: None,
            dies_at: None,
            exchange: 0,
            late: Vec::new(),
            seen: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn answer(&self, message: &Message) -> Vec<u8> {
        let site = self.sites[message.client].clone();
        let node = Node::open(site, Program::default()).unwrap();
        node.answer(&message.bytes).0
    }
}

impl Transport for Post {
    fn exchange(&mut self, messages: Vec<Message>) -> Result<Vec<Message>> {
        self.exchange += 1;
        if self.dies_at == Some(self.exchange) {
            return Err(Error::Engine("the server is killed".into()));
        }
        let mut answers = std::mem::take(&mut self.late);
        for message in messages {
            let fate = self.fates.get(&(self.exchange, message.client));
            let fate = fate.copied().unwrap_or(Fate::Twice);
            if fate == Fate::Lost {
                continue;
            }
            let bytes = self.answer(&message);
            let client = message.client;
            let answer = Message { client, bytes };
            match fate {
                Fate::Late => self.late.push(answer.clone()),
                _ => {
                    // Killed after saving: the message comes again and is answered again.
                    let again = self.answer(&message);
                    assert!(again == answer.bytes, "the same message, the same answer");
                    let mut came = answer.clone();
                    if let Some(forge) = &self.forge {
                        came.bytes = forge((self.exchange, client), came.bytes);
                    }
                    answers.push(came.clone());
                    answers.push(came);
                }
            }
            self.seen.push((message, answer));
        }
        answers.reverse();
        Ok(answers)
    }

    fn note(&mut self, words: &str) {
        self.notes.push(words.into());
    }
}

/// A federation's run, to the end.
pub fn over_sites(
    plan: &Plan,
    post: &Arc<Mutex<Post>>,
    run: &Path,
    resumes: bool,
) -> Result<Finished> {
    let server = Server::new(plan.clone(), Program::default(), post.clone(), run, resumes);
    match server.run(&mut |_| ControlFlow::Continue(()))? {
        Ended::Finished(finished) => Ok(*finished),
        Ended::Stopped(_) => unreachable!("nobody said so"),
    }
}

/// The same run in one process.
pub fn one_process(plan: &Plan, run: &Path) -> Finished {
    let setup = plan.setup().unwrap();
    Run::new(plan, setup).directory(run).train().unwrap()
}

/// Everything that a run shows but its wall time.
pub fn shown(run: &Finished) -> String {
    let mut rounds = run.rounds().unwrap();
    rounds.iter_mut().for_each(|round| round.seconds = 0.0);
    let mut summary = run.summary.clone();
    summary.seconds = 0.0;
    let clients = run.clients().unwrap();
    format!("{rounds:#?}\n{clients:#?}\n{summary:#?}")
}

/// A directory with the tables, and room for runs and states.
pub struct Room(pub tempfile::TempDir);

impl Room {
    pub fn new() -> Self {
        let room = Self(tempfile::tempdir().unwrap());
        tables(room.0.path());
        room
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn post(&self, states: &str) -> Arc<Mutex<Post>> {
        Arc::new(Mutex::new(Post::new(self.0.path(), &self.path(states))))
    }
}
