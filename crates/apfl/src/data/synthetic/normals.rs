//! Samples standard normal numbers in bulk, with the same bits as `rand_distr` one by one.

use std::convert::Infallible;
use std::sync::LazyLock;

use memchr::memchr;
use pulp::{Arch, Simd, WithSimd};
use rand::{Rng, RngExt, TryRng};
use rand_distr::StandardNormal;

use crate::rng::Stream;

/// The number of random words taken from the stream at once.
const BUFFERED: usize = 512;

/// Samples standard normal numbers from a stream that nothing else uses.
pub(super) struct Normals {
    stream: Stream,
    words: [u64; BUFFERED],
    /// The number made from each word, if one word is accepted.
    numbers: [f64; BUFFERED],
    accepted: [u8; BUFFERED],
    /// The index of the first unused word.
    next: usize,
}

impl Normals {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            words: [0; BUFFERED],
            numbers: [0.0; BUFFERED],
            accepted: [0; BUFFERED],
            next: BUFFERED,
        }
    }

    /// Returns the next number.
    pub(super) fn one(&mut self) -> f64 {
        self.sample(StandardNormal)
    }

    /// Fills `out` with the next numbers.
    pub(super) fn fill(&mut self, out: &mut [f64]) {
        let mut done = 0;
        while done < out.len() {
            self.refill();
            let n = (BUFFERED - self.next).min(out.len() - done);
            let accepted = &self.accepted[self.next..][..n];
            let quick = memchr(0, accepted).unwrap_or(n);
            out[done..][..quick].copy_from_slice(&self.numbers[self.next..][..quick]);
            self.next += quick;
            done += quick;
            if quick < n {
                out[done] = self.one();
                done += 1;
            }
        }
    }

    /// Returns the next `n` numbers, shifted by `mean`.
    pub(super) fn around(&mut self, mean: f64, n: usize) -> Vec<f64> {
        let mut numbers = vec![0.0; n];
        self.fill(&mut numbers);
        numbers.iter_mut().for_each(|x| *x += mean);
        numbers
    }

    fn refill(&mut self) {
        if self.next < BUFFERED {
            return;
        }
        let mut bytes = [0; 8 * BUFFERED];
        self.stream.fill_bytes(&mut bytes);
        for (word, bytes) in self.words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        self.next = 0;
        Arch::new().dispatch(FastPath {
            words: &self.words,
            numbers: &mut self.numbers,
            accepted: &mut self.accepted,
            ziggurat: &ZIGGURAT,
        });
    }
}

impl TryRng for Normals {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.next_u64() as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.refill();
        let word = self.words[self.next];
        self.next += 1;
        Ok(word)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for piece in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
        Ok(())
    }
}

/// The ziggurat's 256 layers of equal area: layer i reaches from 0 to `outer[i]`, and up to
/// `inner[i]`, where the next one ends, it lies wholly under the density.
struct Ziggurat {
    outer: [f64; 256],
    inner: [f64; 256],
}

/// Its numbers are obtained from `rand_distr`, which returns u·outer[i], an exact product, for the
/// word of layer i and u = −½.
static ZIGGURAT: LazyLock<Ziggurat> = LazyLock::new(|| {
    let outer: [f64; 256] = std::array::from_fn(|i| {
        // Layer 255 has no part wholly under the density, so a second number decides.
        let words = vec![u64::MAX, 1 << 62 | i as u64];
        -2.0 * FixedWords(words).sample::<f64, _>(StandardNormal)
    });
    let inner = std::array::from_fn(|i| outer.get(i + 1).copied().unwrap_or(0.0));
    Ziggurat { outer, inner }
});

/// Returns fixed words, the last first.
struct FixedWords(Vec<u64>);

impl TryRng for FixedWords {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.next_u64() as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.pop().unwrap_or_default())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill(0);
        Ok(())
    }
}

/// The fast path: u·outer[i], accepted if it is less than inner[i], with u in [−1, 1) from the
/// upper 52 bits of the word and i from the lower 8.
struct FastPath<'a> {
    words: &'a [u64; BUFFERED],
    numbers: &'a mut [f64; BUFFERED],
    accepted: &'a mut [u8; BUFFERED],
    ziggurat: &'a Ziggurat,
}

impl WithSimd for FastPath<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Ziggurat { outer, inner } = self.ziggurat;
        for k in 0..BUFFERED {
            let word = self.words[k];
            let i = (word & 255) as usize;
            let u = f64::from_bits(word >> 12 | 1024 << 52) - 3.0;
            let x = u * outer[i];
            self.numbers[k] = x;
            self.accepted[k] = u8::from(x.abs() < inner[i]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, stream};

    /// A million numbers of several streams, in pieces of many sizes: those of `rand_distr`, one by
    /// one. Twelve thousand of them need more than a word, a few hundred come from the tail.
    #[test]
    fn many_at_a_time_are_the_same_numbers() {
        let mut beyond = 0;
        for client in 0..10 {
            let name = || stream(5, Purpose::Synthesis, 0, client);
            let (mut one_by_one, mut normals) = (name(), Normals::new(name()));
            let mut piece = 1;
            let mut made = 0;
            while made < 100_000 {
                let mut numbers = vec![0.0; piece];
                normals.fill(&mut numbers);
                for x in numbers {
                    assert_eq!(x, one_by_one.sample::<f64, _>(StandardNormal));
                    beyond += usize::from(x.abs() > 3.654);
                }
                assert_eq!(normals.one(), one_by_one.sample::<f64, _>(StandardNormal));
                made += piece + 1;
                piece = piece * 3 % 1009;
            }
        }
        // P(|x| > 3.654) = 2.58e-4.
        assert!((200..320).contains(&beyond), "{beyond}");
    }

    /// Layers of equal area v under the density e^(−x²/2): v = xᵢ(f(xᵢ₊₁) − f(xᵢ)) for every one,
    /// and the first is as wide as the rest of the area with the tail asks for, x₀·f(x₁) = v. The
    /// numbers were made from the first to the last, which has all rounding in it.
    #[test]
    fn the_layers_have_equal_areas() {
        let Ziggurat { outer, inner } = &*ZIGGURAT;
        let f = |x: f64| (-x * x / 2.0).exp();
        let area = outer[0] * f(outer[1]);
        for i in 1..256 {
            let layer = outer[i] * (f(inner[i]) - f(outer[i]));
            assert!((layer - area).abs() < 1e-11, "{i}: {layer} and {area}");
            assert!(inner[i] < outer[i]);
        }
    }
}
