//! The messages of surveys and agreements, written down a second time, so that a test can be a
//! server or a site that lies.

use apfl::data::table::Survey;
use apfl::error::SiteCode;
use apfl::federation::{Node, Site, Terms};
use apfl::run::Program;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A request of a server.
#[derive(Serialize, Deserialize)]
pub enum Request {
    Survey(Vec<u8>),
    Agree(Vec<u8>),
}

/// The outcome of such a request.
#[derive(Debug, Serialize, Deserialize)]
pub enum Outcome {
    Surveyed(Vec<u8>),
    Agreed,
}

/// A response of a site.
#[derive(Debug, Serialize, Deserialize)]
pub struct Response {
    pub to: [u8; 32],
    pub result: Result<Outcome, SiteCode>,
}

/// A survey.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteSurvey {
    pub columns: Vec<String>,
    pub rows: [usize; 3],
    pub survey: Survey,
    pub lanes: usize,
}

/// A message without a body: a tail and its length.
pub fn sealed(tail: &impl Serialize) -> Vec<u8> {
    let mut bytes = postcard::to_stdvec(tail).unwrap();
    let length = bytes.len() as u32;
    bytes.extend(length.to_le_bytes());
    bytes
}

/// The tail of a message without a body.
pub fn opened<T: DeserializeOwned>(bytes: &[u8]) -> T {
    postcard::from_bytes(&bytes[..bytes.len() - 4]).unwrap()
}

/// Sends a site a request, to a node that is opened for it.
pub fn ask(site: &Site, request: &Request) -> (Vec<u8>, Result<Outcome, SiteCode>) {
    let node = Node::open(site.clone(), Program::default()).unwrap();
    let (bytes, _) = node.answer(&sealed(request));
    let result = opened::<Response>(&bytes).result;
    (bytes, result)
}

/// Asks a site for its survey.
pub fn survey(site: &Site, terms: &Terms) -> (Vec<u8>, Result<SiteSurvey, SiteCode>) {
    let terms = postcard::to_stdvec(terms).unwrap();
    let (bytes, result) = ask(site, &Request::Survey(terms));
    let survey = result.map(|outcome| match outcome {
        Outcome::Surveyed(survey) => postcard::from_bytes(&survey).unwrap(),
        Outcome::Agreed => panic!("a survey was asked for"),
    });
    (bytes, survey)
}
