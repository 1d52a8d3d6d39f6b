//! Standard normal numbers, many at a time: to the bit those that `rand_distr` draws from the
//! same stream one by one.

use std::convert::Infallible;
use std::sync::LazyLock;

use memchr::memchr;
use pulp::{Arch, Simd, WithSimd};
use rand::{Rng, RngExt, TryRng};
use rand_distr::StandardNormal;

use crate::rng::Stream;

/// Random words that are taken from the stream at once.
const HELD: usize = 512;

/// Standard normal numbers from a stream that nothing else is drawn from.
pub(super) struct Normals {
    stream: Stream,
    words: [u64; HELD],
    /// The number that each of them makes, where a word is enough for one.
    numbers: [f64; HELD],
    enough: [u8; HELD],
    /// The first of them that is not used.
    next: usize,
}

impl Normals {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            words: [0; HELD],
            numbers: [0.0; HELD],
            enough: [0; HELD],
            next: HELD,
        }
    }

    /// The next one.
    pub(super) fn one(&mut self) -> f64 {
        self.sample(StandardNormal)
    }

    /// The next ones.
    pub(super) fn fill(&mut self, out: &mut [f64]) {
        let mut done = 0;
        while done < out.len() {
            self.refill();
            let n = (HELD - self.next).min(out.len() - done);
            let enough = &self.enough[self.next..][..n];
            let quick = memchr(0, enough).unwrap_or(n);
            out[done..][..quick].copy_from_slice(&self.numbers[self.next..][..quick]);
            self.next += quick;
            done += quick;
            if quick < n {
                out[done] = self.one();
                done += 1;
            }
        }
    }

    /// The next ones, each moved by the same.
    pub(super) fn around(&mut self, mean: f64, n: usize) -> Vec<f64> {
        let mut numbers = vec![0.0; n];
        self.fill(&mut numbers);
        numbers.iter_mut().for_each(|x| *x += mean);
        numbers
    }

    fn refill(&mut self) {
        if self.next < HELD {
            return;
        }
        let mut bytes = [0; 8 * HELD];
        self.stream.fill_bytes(&mut bytes);
        for (word, bytes) in self.words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        self.next = 0;
        Arch::new().dispatch(Quick {
            words: &self.words,
            numbers: &mut self.numbers,
            enough: &mut self.enough,
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

/// Its numbers are read off `rand_distr`, which gives u·outer[i] for the word that means layer
/// i and u = −½: a product that is exact.
static ZIGGURAT: LazyLock<Ziggurat> = LazyLock::new(|| {
    let outer: [f64; 256] = std::array::from_fn(|i| {
        // Layer 255 has no part wholly under the density: there a second number decides.
        let words = vec![u64::MAX, 1 << 62 | i as u64];
        -2.0 * Words(words).sample::<f64, _>(StandardNormal)
    });
    let inner = std::array::from_fn(|i| outer.get(i + 1).copied().unwrap_or(0.0));
    Ziggurat { outer, inner }
});

/// Words to be drawn, the last first.
struct Words(Vec<u64>);

impl TryRng for Words {
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

/// What words make of themselves: u·outer[i], where that is less than inner[i], with u in
/// [−1, 1) from the upper 52 bits and i from the lower 8.
struct Quick<'a> {
    words: &'a [u64; HELD],
    numbers: &'a mut [f64; HELD],
    enough: &'a mut [u8; HELD],
    ziggurat: &'a Ziggurat,
}

impl WithSimd for Quick<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Ziggurat { outer, inner } = self.ziggurat;
        for k in 0..HELD {
            let word = self.words[k];
            let i = (word & 255) as usize;
            let u = f64::from_bits(word >> 12 | 1024 << 52) - 3.0;
            let x = u * outer[i];
            self.numbers[k] = x;
            self.enough[k] = u8::from(x.abs() < inner[i]);
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
