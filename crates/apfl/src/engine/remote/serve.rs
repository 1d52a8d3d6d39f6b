//! A site carries out an order for its client.

use super::letter::{Done, Errand, Fruit, MemoryVersion};
use super::*;
use crate::clients::{ClientModels, Clients};
use crate::engine::message::{ReplyTail, params_of, unpacked};
use crate::metrics::Finals;
use crate::site::Scratch;
use crate::store::archive::ArchiveDirectory;

/// What of a client leaves its site beside updates and sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disclose {
    /// αᵢ
    pub mixing: bool,
    /// Its training examples of every class.
    pub classes: bool,
    /// Its final scores and what joining gave it.
    pub scores: bool,
}

/// A client at its site.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Where its memories are kept.
    pub archive: &'a ArchiveDirectory,
    /// What may leave.
    pub disclose: Disclose,
}

/// What delivery leaves at a site: the client with its models, and its shared model.
pub type Kept = (Delivered, Params);

/// Carries out an errand. Returns the bytes of the update, the answer, and what stays here.
pub fn carry_out<A: Algorithm>(
    clients: &Clients<A>,
    place: Place<'_>,
    errand: Errand,
    payload: &[u8],
) -> Result<(Vec<u8>, Done, Option<Kept>)> {
    let client = errand.client;
    let mut scratch = Scratch::default();
    let lost = !restored(clients, place, &errand)?;
    if let Some(choice) = errand.choice {
        clients.choose(&[(client, choice)]);
    }
    let garbled = || Error::Engine("an order is shorter than it says".into());
    let shared = match errand.score {
        None => None,
        Some(score) => {
            let (start, len) = score.shared;
            let bytes = payload.get(start..).and_then(|rest| rest.get(..len));
            let model = params_of(bytes.ok_or_else(garbled)?)?;
            Some(clients.score(client, &model, score.round, &mut scratch)?)
        }
    };
    let sent_of = |fields: &[Field]| {
        let length: usize = fields.iter().map(Field::bytes).sum();
        payload.split_at_checked(length).ok_or_else(garbled)
    };
    let (mut update, mut kept) = (Vec::new(), None);
    let fruit = match errand.order {
        None => Fruit::Nothing,
        Some(Order::Train {
            round, sent, score, ..
        }) => {
            let sent: A::Broadcast = unpacked(&sent, sent_of(&sent)?.0)?;
            let reply = clients.train(client, round, &sent, score, &mut scratch)?;
            let digest = clients.digest(client)?;
            if clients.remembers() {
                // Before the answer leaves: who is killed in between answers again.
                let name = MemoryVersion { round, digest }.name();
                clients.save(place.archive, &name, &[client])?;
            }
            let reply = reply.map(|reply| {
                let (bytes, tail) = ReplyTail::of(reply);
                update = bytes;
                ReplyTail {
                    mixing: tail.mixing.filter(|_| place.disclose.mixing),
                    ..tail
                }
            });
            Fruit::Trained { reply, digest }
        }
        Some(Order::HoldOut { round, sent, .. }) => {
            let sent: A::Broadcast = unpacked(&sent, sent_of(&sent)?.0)?;
            Fruit::HeldOut(clients.hold_out(client, round, &sent, &mut scratch)?)
        }
        Some(Order::Deliver {
            round, sent, keep, ..
        }) => {
            let (broadcast, rest) = sent_of(&sent)?;
            let sent: A::Broadcast = unpacked(&sent, broadcast)?;
            let shared = params_of(rest)?;
            let keep = match keep {
                KeepOrder::There => Keep::HandOver,
                _ => Keep::Nothing,
            };
            let at = (0, client);
            let delivered = clients.deliver(at, round, &sent, &shared, keep, &mut scratch)?;
            let told = delivered.as_ref().map(|own| place.disclose.told(own));
            let shared = clients.shared_of(client, &shared)?;
            kept = delivered.map(|own| (own, shared));
            Fruit::Delivered(told.map(Box::new))
        }
        Some(other) => {
            return Err(Error::Engine(format!("no site carries out {other:?}")));
        }
    };
    let done = Done {
        shared,
        fruit,
        lost,
    };
    Ok((update, done, kept))
}

/// Gives the client the memory that an errand names; whether it was there.
fn restored<A: Algorithm>(clients: &Clients<A>, place: Place<'_>, errand: &Errand) -> Result<bool> {
    if errand.memory.round == 0 || !clients.remembers() {
        return Ok(true);
    }
    let part = format!("{}.safetensors", errand.memory.name());
    if !place.archive.0.join(&part).exists() {
        return Ok(false);
    }
    clients.restore_all(place.archive, &part, &[errand.client])?;
    match clients.digest(errand.client)? == errand.memory.digest {
        true => Ok(true),
        false => Err(Error::Checkpoint(format!(
            "{part}: its content is not what was written"
        ))),
    }
}

impl Disclose {
    /// What a site tells of what delivery left there: sums, and what may be disclosed.
    fn told(&self, own: &Delivered) -> Delivered {
        let sums = |finals: &Finals| match self.scores {
            true => finals.clone(),
            false => Finals {
                tallies: finals.tallies,
                tested: finals.tested,
                ..Finals::default()
            },
        };
        let scores = self.scores;
        Delivered {
            client: own.client,
            name: String::new(), // the server knows
            examples: own.examples,
            test_examples: own.test_examples,
            classes: match self.classes {
                true => own.classes.clone(),
                false => Vec::new(),
            },
            mixing: own.mixing.filter(|_| self.mixing),
            majority: own.majority.filter(|_| scores),
            finals: own.finals.map(sums),
            alone: own.alone.as_ref().filter(|_| scores).cloned(),
            gain: own.gain.filter(|_| scores),
            models: None::<ClientModels>,
        }
    }
}
