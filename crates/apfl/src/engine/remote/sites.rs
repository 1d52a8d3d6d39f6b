//! The sites of a federation, and whoever carries letters to them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::letter::{Answer, opened};
use super::serve::Disclose;
use crate::digest::digest_of_pieces;
use crate::error::Result;

/// A letter to a client's site, or from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The client's index.
    pub client: usize,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// Whoever carries letters.
pub trait Courier: Send {
    /// Carries letters to sites and returns what came back in time, in any order. A letter may
    /// arrive twice, and a site may not answer.
    fn ask(&mut self, letters: Vec<Letter>) -> Result<Vec<Letter>>;

    /// Is told what an operator should know.
    fn note(&mut self, _words: &str) {}
}

/// The sites of a federation, and how they are reached.
#[derive(Clone)]
pub struct Sites {
    courier: Arc<Mutex<dyn Courier>>,
    /// The hash of what all agreed on.
    pub(super) agreement: String,
    /// How many must answer, of as many as are asked.
    pub(super) min_sites: usize,
    /// Whether they tell their final scores.
    pub(in crate::engine) tells_scores: bool,
}

impl fmt::Debug for Sites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sites")
            .field("agreement", &self.agreement)
            .field("min_sites", &self.min_sites)
            .finish_non_exhaustive()
    }
}

impl Sites {
    /// Sites that agreed on what has that hash.
    pub fn new(
        courier: Arc<Mutex<dyn Courier>>,
        agreement: String,
        min_sites: usize,
        disclose: Disclose,
    ) -> Self {
        Self {
            courier,
            agreement,
            min_sites,
            tells_scores: disclose.scores,
        }
    }

    /// Tells an operator.
    pub(super) fn note(&self, words: &str) {
        let courier = self.courier.lock();
        courier.unwrap_or_else(PoisonError::into_inner).note(words);
    }

    /// Carries letters; returns the first answer of each client to its letter, by client.
    pub(crate) fn ask(&self, letters: Vec<Letter>) -> Result<BTreeMap<usize, (Answer, Vec<u8>)>> {
        let of = |letter: &Letter| (letter.client, digest_of_pieces([&letter.bytes[..]]));
        let asked: BTreeMap<usize, [u8; 32]> = letters.iter().map(of).collect();
        let courier = self.courier.lock();
        let came = courier
            .unwrap_or_else(PoisonError::into_inner)
            .ask(letters)?;
        let mut answers = BTreeMap::new();
        for Letter { client, bytes } in came {
            let Ok((body, answer)) = opened(&bytes) else {
                self.note(&format!("a letter of client {client} cannot be read"));
                continue;
            };
            // Late answers to earlier letters are no answers.
            if asked.get(&client) == Some(&answer.to) {
                answers.entry(client).or_insert((answer, body.to_vec()));
            }
        }
        Ok(answers)
    }
}
