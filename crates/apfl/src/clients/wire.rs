//! The encoding of requests and responses, for engines whose clients are in other processes.
//!
//! The body of a message holds arrays, one after the other, as [`Pack::to_bytes`] writes them; its
//! tail holds the rest of the message and the positions of the arrays. No message contains examples
//! or client states; a personal model is sent only within one trust domain.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Request, Response};
use crate::algorithm::Algorithm;
use crate::error::{Error, Result};
use crate::pack::{Field, ModelOnly, NumberType, Pack, arrays_from_bytes};
use crate::params::{Params, bytes_of};

/// The position of a value's arrays in the body of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    fields: Vec<Field>,
    start: usize,
}

/// A request whose arrays are in a body.
pub type PackedRequest = Request<Packed, Packed>;

/// A response whose arrays are in a body.
pub type PackedResponse = Response<Packed>;

/// The body of a message that is being encoded.
#[derive(Clone, Debug, Default)]
pub struct Body {
    bytes: Vec<u8>,
    /// The ranges of its arrays, so that equal arrays are sent once.
    arrays: Vec<std::ops::Range<usize>>,
}

impl Body {
    /// Appends the arrays of a value, unless it is a single array that the body already contains.
    fn put(&mut self, fields: Vec<Field>, mut bytes: Vec<u8>) -> Packed {
        if let [_] = fields[..]
            && let Some(start) = self.position_of(&bytes)
        {
            return Packed { fields, start };
        }
        let start = self.bytes.len();
        if start == 0 {
            self.bytes = bytes;
        } else {
            self.bytes.append(&mut bytes);
        }
        let mut end = start;
        for field in &fields {
            self.arrays.push(end..end + field.bytes());
            end += field.bytes();
        }
        Packed { fields, start }
    }

    fn position_of(&self, array: &[u8]) -> Option<usize> {
        let same = |range: &&std::ops::Range<usize>| &self.bytes[(*range).clone()] == array;
        let found = self.arrays.iter().find(same).filter(|_| !array.is_empty());
        found.map(|range| range.start)
    }

    fn pack(&mut self, value: &impl Pack) -> Packed {
        self.put(value.fields(), value.to_bytes())
    }

    /// Packs a request.
    pub fn request<A: Algorithm>(&mut self, request: &Request<A::Broadcast>) -> PackedRequest {
        let broadcast = |body: &mut Self, sent: &A::Broadcast| Ok(body.pack(sent));
        let model = |body: &mut Self, model: &Params| {
            let field = Field {
                name: "model".into(),
                kind: NumberType::F32,
                len: model.len(),
            };
            Ok(body.put(vec![field], bytes_of(model)))
        };
        let packed = request.map(self, broadcast, model);
        packed.expect("packing does not fail")
    }

    /// Packs a response.
    pub fn response<A: Algorithm>(&mut self, response: Response<A::Update>) -> PackedResponse {
        let packed = response.map(|update| Ok(self.pack(&update)));
        packed.expect("packing does not fail")
    }

    /// Returns the bytes of the body.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl Packed {
    /// Decodes the value from an untrusted body.
    ///
    /// # Errors
    /// If the arrays are not in the body or do not make such a value.
    fn unpack<P: Pack>(&self, body: &[u8]) -> Result<P> {
        let sizes = self.fields.iter().map(Field::bytes);
        let length = sizes.fold(0, usize::saturating_add);
        let end = self.start.checked_add(length);
        let bytes = end.and_then(|end| body.get(self.start..end));
        let bytes = bytes.ok_or_else(|| garbled("its body is too short"))?;
        arrays_from_bytes(&self.fields, bytes)
            .and_then(|mut arrays| P::unpack(&mut arrays))
            .map_err(|e| garbled(&e.to_string()))
    }
}

impl PackedRequest {
    /// Decodes the request with the values of a body.
    ///
    /// # Errors
    /// If the values cannot be read from the body.
    pub fn unpack<A: Algorithm>(&self, body: &[u8]) -> Result<Request<A::Broadcast>> {
        let broadcast = |_: &mut (), sent: &Packed| sent.unpack(body);
        let model = |_: &mut (), model: &Packed| Ok(model.unpack::<ModelOnly>(body)?.model);
        self.map(&mut (), broadcast, model)
    }
}

impl PackedResponse {
    /// Decodes the response with the update of a body.
    ///
    /// # Errors
    /// If the update cannot be read from the body.
    pub fn unpack<A: Algorithm>(self, body: &[u8]) -> Result<Response<A::Update>> {
        self.map(|update| update.unpack(body))
    }
}

/// Encodes a value.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("plain values")
}

/// Decodes a value.
///
/// # Errors
/// If the bytes do not encode such a value.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|e| garbled(&e.to_string()))
}

/// Appends a tail to a body without copying the body.
pub fn joined(mut body: Vec<u8>, tail: &impl Serialize) -> Vec<u8> {
    let tail = encode(tail);
    body.extend_from_slice(&tail);
    body.extend_from_slice(&(tail.len() as u32).to_le_bytes());
    body
}

/// Splits a message of [`joined`] into body and tail.
///
/// # Errors
/// If the bytes are not such a message.
pub fn split<T: DeserializeOwned>(bytes: &[u8]) -> Result<(&[u8], T)> {
    let short = || garbled("it is too short");
    let (rest, length) = bytes.split_last_chunk().ok_or_else(short)?;
    let length = u32::from_le_bytes(*length) as usize;
    let body = rest.len().checked_sub(length).ok_or_else(short)?;
    let (body, tail) = rest.split_at(body);
    Ok((body, decode(tail)?))
}

fn garbled(why: &str) -> Error {
    Error::Engine(format!(
        "cannot read a message of another process ({why}); check that all processes run the same program"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::scaffold::Controlled;
    use crate::algorithm::{FedAvg, Scaffold};
    use crate::clients::Reply;
    use crate::metrics::Tallies;

    #[test]
    fn a_response_comes_back_from_its_bytes() {
        let mut tallies = Tallies::default();
        tallies.valid.loss = 0.1 + 0.2;
        let response = Response::Trained(Some(Reply {
            update: ModelOnly {
                model: vec![1.5, f32::MIN_POSITIVE, -0.0],
            },
            tallies: Some((tallies, Tallies::default())),
            candidates: vec![(0.5, tallies)],
            mixing: Some(0.3),
            steps: 7,
        }));
        let mut body = Body::default();
        let packed = body.response::<FedAvg>(response.clone());
        let bytes = joined(body.into_bytes(), &packed);
        let read = |bytes: &[u8]| {
            let (body, packed) = split::<PackedResponse>(bytes)?;
            packed.unpack::<FedAvg>(body)
        };
        assert_eq!(read(&bytes).unwrap(), response);
        for start in 1..bytes.len() {
            assert!(read(&bytes[start..]).is_err(), "without {start} bytes");
        }
    }

    /// The scored shared model is one of the broadcast's arrays and is sent once.
    #[test]
    fn what_is_in_a_body_is_not_sent_twice() {
        let sent = Controlled {
            model: vec![1.0, 2.0],
            control: vec![3.0, 4.0],
        };
        let train = Request::Train {
            round: 2,
            sent,
            score: true,
        };
        for (shared, bytes) in [([1.0, 2.0], 16), ([3.0, 4.5], 24)] {
            let score = Request::Score {
                round: 1,
                shared: shared.to_vec(),
            };
            let mut body = Body::default();
            let packed = [&train, &score].map(|request| body.request::<Scaffold>(request));
            let body = body.into_bytes();
            assert_eq!(body.len(), bytes);
            assert_eq!(packed[0].unpack::<Scaffold>(&body).unwrap(), train);
            assert_eq!(packed[1].unpack::<Scaffold>(&body).unwrap(), score);
            assert!(packed[1].unpack::<Scaffold>(&body[..7]).is_err());
        }
    }
}
