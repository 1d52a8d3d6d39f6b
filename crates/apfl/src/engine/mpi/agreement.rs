//! Before anything begins, all ranks see that they are about to do the same.

use serde::{Deserialize, Serialize};

use super::cluster::Cluster;
use super::message::{Envelope, Order};
use crate::clients::wire::{decode, encode};
use crate::error::{Error, Result};

/// Names and values of what must be the same everywhere.
pub type Facts = Vec<(String, String)>;

#[derive(Serialize, Deserialize)]
struct Hello {
    host: String,
    facts: std::result::Result<Facts, String>,
}

impl Cluster {
    /// Compares what the ranks have before them; `mine` is this rank's, or why it cannot
    /// begin. The leader gets the first trouble as an error; the others learn whether there
    /// is any.
    pub fn agree(&self, mine: Result<Facts>) -> Result<bool> {
        if !self.leads() {
            let hello = Hello {
                host: Self::host(),
                facts: mine.map_err(|e| e.to_string()),
            };
            self.send(0, &encode(&hello));
            return decode(&self.receive(0));
        }
        // Everybody is heard before anybody is answered.
        let heard: Vec<_> = self
            .others()
            .map(|rank| (rank, self.receive(rank)))
            .collect();
        let verdict = mine.and_then(|mine| {
            heard.iter().try_for_each(|(rank, bytes)| {
                let Hello { host, facts } = decode(bytes)?;
                let problem = match facts {
                    Err(failure) => Some(failure),
                    Ok(facts) => difference(&mine, &facts),
                };
                problem.map_or(Ok(()), |problem| {
                    Err(Error::Engine(format!("rank {rank} on {host}: {problem}")))
                })
            })
        });
        let go = encode(&verdict.is_ok());
        self.others().for_each(|rank| self.send(rank, &go));
        verdict.map(|()| true)
    }

    /// Gives orders from now on; when it is dropped, all others are told that it is over.
    pub fn lead(&self) -> Leader {
        Leader(*self)
    }
}

/// Leadership.
#[derive(Debug)]
pub struct Leader(Cluster);

impl Drop for Leader {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // the whole job is about to end
        }
        let end = encode(&Envelope {
            order: Order::End,
            bytes: 0,
        });
        self.0.others().for_each(|rank| self.0.send(rank, &end));
    }
}

fn difference(here: &Facts, there: &Facts) -> Option<String> {
    let value = |facts: &Facts, name: &String| {
        let found = facts.iter().find(|(n, _)| n == name);
        found.map_or("nothing".into(), |(_, value)| value.clone())
    };
    let names = here.iter().chain(there).map(|(name, _)| name);
    names
        .map(|name| (name, value(here, name), value(there, name)))
        .find(|(_, here, there)| here != there)
        .map(|(name, here, there)| {
            format!("{name} is not the same as on rank 0: {there} there, {here} on rank 0")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        let facts = |sum: &str| vec![("a.csv".to_string(), sum.to_string())];
        assert_eq!(difference(&facts("1"), &facts("1")), None);
        assert_eq!(
            difference(&facts("1"), &facts("2")).unwrap(),
            "a.csv is not the same as on rank 0: 2 there, 1 on rank 0"
        );
        assert_eq!(
            difference(&facts("1"), &vec![]).unwrap(),
            "a.csv is not the same as on rank 0: nothing there, 1 on rank 0"
        );
    }
}
