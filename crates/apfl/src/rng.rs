//! Random streams by name.
//!
//! No generator is passed along and consumed. A stream is named by (seed, purpose, round, client)
//! and starts anew wherever that name is used: in any thread or process, before or after a resume.

use rand::SeedableRng;
use rand::rngs::SysRng;
use rand_chacha::ChaCha8Rng;

/// Represents a stream of random numbers.
pub type Stream = ChaCha8Rng;

/// Represents the purpose of a stream. Two purposes never share a stream.
///
/// The numbers are part of the reproducibility promise: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The initial parameters.
    Init = 1,
    /// Which clients take part in a round.
    Cohort = 2,
    /// The order of a client's examples in a round.
    Batches = 3,
    /// The order of a client's examples in the last local round of finalization.
    Finalization = 4,
    /// Synthetic data: the clients' sizes.
    Sizes = 5,
    /// Synthetic data: the clients' models and inputs.
    Synthesis = 6,
    /// Which examples a client holds out for validation.
    Split = 7,
    /// The assignment of a data set to clients.
    Partition = 8,
    /// Training of a new client that joins a finished run.
    Join = 9,
    /// Flips and crops of training images.
    Augmentation = 10,
    /// Attacks on the aggregation.
    Attack = 11,
    /// Points, directions and noise of the theory's measurements.
    Theory = 12,
    /// The training rows that are held out for a choice.
    HeldOut = 13,
    /// Which outputs of hidden layers a step drops.
    Dropout = 14,
    /// The order, flips and crops of rows in evaluation.
    Evaluation = 15,
    /// The noise of differential privacy.
    Noise = 20,
    /// L2GD's coin: the local steps of a round.
    Coin = 21,
    /// The first models of HypCluster's clusters.
    Clusters = 22,
}

/// Returns the stream of that name.
pub fn stream(seed: u64, purpose: Purpose, round: u64, client: u64) -> Stream {
    let mut key = [0u8; 32];
    for (slot, word) in key
        .chunks_exact_mut(8)
        .zip([seed, purpose as u64, round, client])
    {
        slot.copy_from_slice(&word.to_le_bytes());
    }
    Stream::from_seed(key)
}

/// Returns a stream with a key of the operating system, which cannot be reproduced: for noise that
/// must stay secret.
pub(crate) fn system_stream() -> Stream {
    Stream::try_from_rng(&mut SysRng).expect("the operating system has random numbers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn a_stream_is_its_name() {
        let first = |s, p, r, c| stream(s, p, r, c).next_u64();
        let here = first(1, Purpose::Batches, 2, 3);
        assert_eq!(here, first(1, Purpose::Batches, 2, 3));
        for other in [
            first(2, Purpose::Batches, 2, 3),
            first(1, Purpose::Finalization, 2, 3),
            first(1, Purpose::Batches, 3, 3),
            first(1, Purpose::Batches, 2, 4),
        ] {
            assert_ne!(here, other);
        }
    }
}
