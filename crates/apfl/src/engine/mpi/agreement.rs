//! Before a run, all ranks check that they have the same program, spec and data.

use serde::{Deserialize, Serialize};

use super::cluster::Cluster;
use super::message::{Envelope, Order};
use crate::clients::wire::{decode, encode};
use crate::error::{Error, Result};

/// Names and values that must be equal on all ranks.
pub type Facts = Vec<(String, String)>;

#[derive(Serialize, Deserialize)]
struct Hello {
    host: String,
    facts: std::result::Result<Facts, String>,
}

impl Cluster {
    /// Compares the facts of all ranks. `mine` is this rank's, or the reason it cannot begin.
    /// Returns the first problem as an error at the leader; at the other ranks, whether there was
    /// none.
    pub fn agree(&self, mine: Result<Facts>) -> Result<bool> {
        if !self.leads() {
            let hello = Hello {
                host: Self::host(),
                facts: mine.map_err(|e| e.to_string()),
            };
            self.send(0, &encode(&hello));
            return decode(&self.receive(0));
        }
        // All ranks are received before any is answered.
        let received: Vec<_> = self
            .others()
            .map(|rank| (rank, self.receive(rank)))
            .collect();
        let result = mine.and_then(|mine| {
            received.iter().try_for_each(|(rank, bytes)| {
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
        let go = encode(&result.is_ok());
        self.others().for_each(|rank| self.send(rank, &go));
        result.map(|()| true)
    }

    /// Leads the other ranks; when it is dropped, they are sent [`Order::End`].
    pub fn lead(&self) -> Leader {
        Leader(*self)
    }
}

/// The leader of a job; see [`Cluster::lead`].
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

/// Describes the first difference between the facts of rank 0 and those of another rank.
fn difference(leader: &Facts, other: &Facts) -> Option<String> {
    let value = |facts: &Facts, name: &String| {
        let found = facts.iter().find(|(n, _)| n == name);
        found.map_or("nothing".into(), |(_, value)| value.clone())
    };
    let names = leader.iter().chain(other).map(|(name, _)| name);
    names
        .map(|name| (name, value(leader, name), value(other, name)))
        .find(|(_, leader, other)| leader != other)
        .map(|(name, leader, other)| format!("{name} differs: {other} there, {leader} on rank 0"))
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
            "a.csv differs: 2 there, 1 on rank 0"
        );
        assert_eq!(
            difference(&facts("1"), &vec![]).unwrap(),
            "a.csv differs: nothing there, 1 on rank 0"
        );
    }
}
