//! Clients at sites of their own: a [`Courier`] carries letters to them and answers back.
//!
//! A site answers one letter at a time and may be gone in between. So every letter names the
//! memory that the client starts from, by round and digest: a letter that comes twice gives
//! the same answer, and a site that trained but answered too late is as one that was never
//! asked. Answers come in any order and are handed on in the order of the clients. An exchange
//! costs seconds, so the shared model's scores are asked for with the next order.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Engine;
use super::message::{KeepOrder, Order, joined};
use crate::algorithm::Algorithm;
use crate::choice::{Candidate, HeldOut, Pass};
use crate::clients::{Delivered, Keep, Reply, World};
use crate::digest::{digest_of, hex};
use crate::error::{Error, Result, SiteCode};
use crate::metrics::Tallies;
use crate::pack::{Arrays, Field, NumberType, Pack};
use crate::params::{Params, bytes_of};
use crate::store::archive::{MemoryArchive, Written};

mod check;
mod letter;
mod serve;
mod sites;

use check::Sense;
pub use letter::{Answer, Ask, Done, Errand, Fruit, MemoryVersion, ScoreErrand};
pub use serve::{Disclose, Kept, Place, carry_out};
pub use sites::{Courier, Letter, Sites};

/// The engine of the server.
pub struct Remote<A: Algorithm> {
    sites: Sites,
    world: World,
    algorithm: Arc<A>,
    pass: Option<Pass>,
    choices: BTreeMap<usize, Candidate>,
    /// Every client's current memory.
    memories: Vec<MemoryVersion>,
    /// The rounds of those memories that the last two checkpoints need, the older first.
    saved: [Vec<u64>; 2],
    /// Whether there is anything to remember.
    remembers: bool,
    /// Scores that ride on the next order: the round, the shared model, the clients.
    riding: Option<(u64, Params, Vec<usize>)>,
    scored: Vec<(usize, Tallies)>,
}

impl<A: Algorithm> fmt::Debug for Remote<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("sites", &self.sites)
            .field("memories", &self.memories)
            .finish_non_exhaustive()
    }
}

/// What came back of an order, in the order of the clients, and who did not answer it.
struct Came<T> {
    fruits: Vec<(usize, T)>,
    absent: Vec<usize>,
}

impl<A: Algorithm> Remote<A> {
    /// All clients of the world at their sites, none of them drawn yet.
    pub fn new(sites: Sites, world: World, algorithm: Arc<A>, pass: Option<Pass>) -> Self {
        let first = algorithm.join(&world.w0);
        let clients = world.dataset.clients();
        let version = MemoryVersion {
            round: 0,
            digest: digest_of(&first),
        };
        Self {
            sites,
            pass,
            choices: BTreeMap::new(),
            memories: vec![version; clients],
            saved: [vec![0; clients], vec![0; clients]],
            remembers: !first.fields().is_empty(),
            riding: None,
            scored: Vec::new(),
            world,
            algorithm,
        }
    }

    fn name(&self, client: usize) -> String {
        self.world.dataset.name(client)
    }

    /// Gives an order to some clients, and with it what rides; `order` makes a client's own,
    /// `sent` is what comes with it, `read` makes sense of what comes back. Who answers what
    /// makes none is as absent. At least `min_sites` of them must answer.
    fn order<T>(
        &mut self,
        when: &str,
        clients: &[usize],
        sent: &[u8],
        fields: &[Field],
        order: impl Fn(usize) -> Order,
        read: impl Fn(&Self, usize, Fruit, &[u8]) -> Sense<T>,
    ) -> Result<Came<T>> {
        let riding = self.riding.take();
        let (_, shared, scorers) = riding.clone().unwrap_or_default();
        let mut everybody: Vec<usize> = clients.iter().chain(&scorers).copied().collect();
        everybody.sort_unstable();
        everybody.dedup();
        let shared = bytes_of(&shared);
        let there = letter::place_of(&shared, sent, fields);
        let letter = |client: usize| {
            let ordered = clients.binary_search(&client).is_ok();
            let mut payload = if ordered { sent.to_vec() } else { Vec::new() };
            let score = scorers.binary_search(&client).is_ok().then(|| {
                let start = match there.filter(|_| ordered) {
                    Some(start) => start,
                    None => {
                        payload.extend_from_slice(&shared);
                        payload.len() - shared.len()
                    }
                };
                ScoreErrand {
                    round: riding.as_ref().map_or(0, |(round, ..)| *round),
                    shared: (start, shared.len()),
                }
            });
            let errand = Errand {
                agreement: self.sites.agreement.clone(),
                client,
                pass: self.pass,
                choice: self.choices.get(&client).copied(),
                memory: self.memories[client],
                floor: self.saved[0][client],
                score,
                order: ordered.then(|| order(client)),
            };
            Letter {
                client,
                bytes: joined(payload, &letter::Ask::Work(Box::new(errand))),
            }
        };
        let letters = everybody.iter().map(|client| letter(*client)).collect();
        let mut answers = self.sites.ask(letters)?;
        let mut came = Came {
            fruits: Vec::new(),
            absent: Vec::new(),
        };
        let mut codes = Vec::new();
        for client in everybody {
            let ordered = clients.binary_search(&client).is_ok();
            let (done, body) = match answers.remove(&client) {
                None => (None, Vec::new()),
                Some((answer, body)) => match answer.result {
                    Ok(done) => (Some(done), body),
                    Err(SiteCode::NonFinite) => {
                        return Err(Error::NonFinite {
                            client: self.name(client),
                            place: format!("{when}, as its site tells"),
                            loss: f64::NAN,
                        });
                    }
                    Err(code) => {
                        let name = self.name(client);
                        self.sites
                            .note(&format!("site '{name}' answered {when}: {code}"));
                        codes.push((name, code));
                        (None, Vec::new())
                    }
                },
            };
            let Some(Done {
                shared,
                fruit,
                lost,
            }) = done
            else {
                came.absent.extend(ordered.then_some(client));
                continue;
            };
            let scores = shared.map_or(Ok(()), |tallies| self.sense_of_scores(client, &tallies));
            let read = scores.and_then(|()| {
                let fruit = ordered.then(|| read(self, client, fruit, &body));
                fruit.transpose()
            });
            let fruit = match read {
                Ok(fruit) => fruit,
                Err(why) => {
                    let (name, code) = (self.name(client), SiteCode::Garbled);
                    self.sites
                        .note(&format!("site '{name}' is left out {when}: {why}"));
                    codes.push((name, code));
                    came.absent.extend(ordered.then_some(client));
                    continue;
                }
            };
            if lost {
                self.sites.note(&format!(
                    "site '{}' has lost its memory of round {} and started {when} from w⁰",
                    self.name(client),
                    self.memories[client].round
                ));
            }
            self.scored.extend(shared.map(|tallies| (client, tallies)));
            came.fruits.extend(fruit.map(|fruit| (client, fruit)));
        }
        let wanted = self.sites.min_sites.min(clients.len());
        if came.fruits.len() < wanted {
            return Err(Error::Absent {
                when: when.into(),
                answered: came.fruits.len(),
                wanted,
                absent: came
                    .absent
                    .iter()
                    .map(|client| self.name(*client))
                    .collect(),
                codes,
            });
        }
        Ok(came)
    }
}

impl<A: Algorithm> Engine<A> for Remote<A> {
    fn train(
        &mut self,
        round: u64,
        sent: &A::Broadcast,
        cohort: &[usize],
        score: bool,
        each: &mut (dyn FnMut(usize, Option<Reply<A::Update>>) + Send),
    ) -> Result<Vec<usize>> {
        let (bytes, fields) = (sent.to_bytes(), sent.fields());
        let when = format!("in round {round}");
        let order = |client| Order::Train {
            round,
            sent: fields.clone(),
            cohort: vec![client],
            score,
        };
        let read = |own: &Self, client, fruit, body: &[u8]| own.trained(client, fruit, body, sent);
        let came = self.order(&when, cohort, &bytes, &fields, order, read)?;
        for (client, (reply, digest)) in came.fruits {
            if self.remembers {
                self.memories[client] = MemoryVersion { round, digest };
            }
            each(client, reply);
        }
        Ok(came.absent)
    }

    fn rides(&self) -> bool {
        true
    }

    fn scored(&mut self, alone: bool, each: &mut (dyn FnMut(usize, Tallies) + Send)) -> Result<()> {
        if alone && let Some((round, ..)) = &self.riding {
            let when = format!("when the shared model of round {round} was scored");
            let nobody = |_| unreachable!("nobody is ordered");
            self.order(&when, &[], &[], &[], nobody, |_, _, _, _| Ok(()))?;
        }
        let scored = std::mem::take(&mut self.scored).into_iter();
        scored.for_each(|(client, tallies)| each(client, tallies));
        Ok(())
    }

    fn score(
        &mut self,
        round: u64,
        shared: &[f32],
        cohort: &[usize],
        _each: &mut (dyn FnMut(usize, Tallies) + Send),
    ) -> Result<()> {
        self.riding = Some((round, shared.to_vec(), cohort.to_vec()));
        Ok(())
    }

    fn hold_out(
        &mut self,
        round: u64,
        sent: &A::Broadcast,
        clients: &[usize],
        each: &mut (dyn FnMut(usize, HeldOut) + Send),
    ) -> Result<()> {
        let (bytes, fields) = (sent.to_bytes(), sent.fields());
        let when = "before the choice";
        let order = |client| Order::HoldOut {
            round,
            sent: fields.clone(),
            clients: vec![client],
        };
        let read = |own: &Self, _, fruit, _: &[u8]| own.held_out(fruit);
        let came = self.order(when, clients, &bytes, &fields, order, read)?;
        for (client, held_out) in came.fruits {
            if let Some(held_out) = held_out {
                each(client, held_out);
            }
        }
        Ok(())
    }

    fn choose(&mut self, choices: &[(usize, Candidate)]) -> Result<()> {
        self.choices.extend(choices.iter().copied()); // told with the next order
        Ok(())
    }

    fn deliver(
        &mut self,
        round: u64,
        sent: &A::Broadcast,
        shared: &[f32],
        clients: &[usize],
        keep: Keep<'_>,
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()> {
        if !matches!(keep, Keep::Nothing | Keep::There) {
            return Err(Error::Engine(
                "personal models stay at their sites: they cannot be handed over".into(),
            ));
        }
        let (mut bytes, fields) = (sent.to_bytes(), sent.fields());
        bytes.extend(bytes_of(shared));
        let when = "at delivery";
        let order = |client| Order::Deliver {
            round,
            sent: fields.clone(),
            clients: vec![client],
            keep: match keep {
                Keep::There => KeepOrder::There,
                _ => KeepOrder::Nothing,
            },
        };
        let read = |own: &Self, client, fruit, _: &[u8]| own.delivered(client, fruit);
        let came = self.order(when, clients, &bytes, &fields, order, read)?;
        for (client, delivered) in came.fruits {
            if let Some(delivered) = delivered {
                each(Delivered {
                    client,
                    name: self.name(client),
                    models: None,
                    ..*delivered
                })?;
            }
        }
        Ok(())
    }

    fn digests(&mut self, clients: &[usize]) -> Result<Vec<[u8; 32]>> {
        Ok(clients.iter().map(|k| self.memories[*k].digest).collect())
    }

    /// Memories are at their sites: what is saved is which of them are current.
    fn save(
        &mut self,
        archive: &dyn MemoryArchive,
        name: &str,
        clients: &[usize],
    ) -> Result<Vec<(Written, Vec<usize>)>> {
        let part = archive.write(name, &letter::version_fields(), clients, &mut |client| {
            Ok(self.memories[client].to_bytes())
        })?;
        let rounds = self.memories.iter().map(|memory| memory.round).collect();
        self.saved = [std::mem::take(&mut self.saved[1]), rounds];
        Ok(vec![(part, clients.to_vec())])
    }

    fn restore(
        &mut self,
        archive: &dyn MemoryArchive,
        part: &str,
        clients: &[usize],
    ) -> Result<()> {
        let memories = &mut self.memories;
        archive.read(
            part,
            &letter::version_fields(),
            clients,
            &mut |client, mut arrays| {
                let wrong = |e: crate::pack::PackError| Error::Checkpoint(e.to_string());
                memories[client] = MemoryVersion::unpack(&mut arrays).map_err(wrong)?;
                Ok(())
            },
        )
    }
}
