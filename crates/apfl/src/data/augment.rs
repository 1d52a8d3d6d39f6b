//! Random flips and crops of training images.

use rand::RngExt;

use super::{Examples, Features};
use crate::rng::Stream;

/// Augments images at random: mirrors them left to right with probability ½ and shifts them by up
/// to an eighth of their height and width (4 pixels of 32), filling with zeros.
#[derive(Clone, Debug)]
pub struct Augmentation {
    shape: [usize; 3],
    rng: Stream,
    floats: Vec<f32>,
    bytes: Vec<u8>,
}

/// The change of one image: pixel (y, x) is taken from (y + down, x + right) of the image, which
/// may be mirrored first.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Change {
    mirrored: bool,
    down: isize,
    right: isize,
}

impl Augmentation {
    /// Creates the augmentation of images of shape [channels, height, width].
    pub fn new(shape: [usize; 3], rng: Stream) -> Self {
        Self {
            shape,
            rng,
            floats: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Changes every example independently.
    pub fn apply(&mut self, examples: &mut Examples) {
        let width = examples.width();
        assert_eq!(
            width,
            self.shape.iter().product::<usize>(),
            "the examples' shape"
        );
        for row in 0..examples.len() {
            let change = self.sample();
            let cells = row * width..(row + 1) * width;
            match &mut examples.features {
                Features::Floats(x) => {
                    transform(&mut x[cells], self.shape, change, &mut self.floats);
                }
                Features::Bytes(x, _) => {
                    transform(&mut x[cells], self.shape, change, &mut self.bytes);
                }
            }
        }
    }

    fn sample(&mut self) -> Change {
        let [_, height, width] = self.shape.map(|side| side as i32 / 8);
        Change {
            mirrored: self.rng.random(),
            down: self.rng.random_range(-height..=height) as isize,
            right: self.rng.random_range(-width..=width) as isize,
        }
    }
}

fn transform<T: Copy + Default>(
    image: &mut [T],
    [_, height, width]: [usize; 3],
    change: Change,
    old: &mut Vec<T>,
) {
    old.clear();
    old.extend_from_slice(image);
    let planes = image.chunks_exact_mut(height * width);
    for (new, old) in planes.zip(old.chunks_exact(height * width)) {
        for (y, new) in new.chunks_exact_mut(width).enumerate() {
            let row = y.checked_add_signed(change.down).filter(|y| *y < height);
            for (x, new) in new.iter_mut().enumerate() {
                let column = x.checked_add_signed(change.right).filter(|x| *x < width);
                *new = match (row, column) {
                    (Some(y), Some(x)) if change.mirrored => old[y * width + width - 1 - x],
                    (Some(y), Some(x)) => old[y * width + x],
                    _ => T::default(),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Targets;
    use crate::rng::{Purpose, stream};

    #[test]
    fn an_image_is_mirrored_and_moved() {
        // Two channels of 2×3.
        let old = [1u8, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16];
        let change = |mirrored, down, right| {
            let mut image = old;
            let change = Change {
                mirrored,
                down,
                right,
            };
            transform(&mut image, [2, 2, 3], change, &mut Vec::new());
            image
        };
        assert_eq!(change(false, 0, 0), old);
        assert_eq!(
            change(true, 0, 0),
            [3, 2, 1, 6, 5, 4, 13, 12, 11, 16, 15, 14]
        );
        assert_eq!(change(false, 1, 0), [4, 5, 6, 0, 0, 0, 14, 15, 16, 0, 0, 0]);
        assert_eq!(change(true, -1, 1), [0, 0, 0, 2, 1, 0, 0, 0, 0, 12, 11, 0]);
    }

    #[test]
    fn every_change_is_sampled_and_none_beyond_an_eighth() {
        // A single bright pixel in the middle of 16×16: where it ends up tells the change.
        let mut image = vec![0.0f32; 256];
        image[8 * 16 + 6] = 1.0;
        let mut seen = std::collections::BTreeSet::new();
        let mut augment = Augmentation::new([1, 16, 16], stream(1, Purpose::Augmentation, 1, 0));
        for _ in 0..2000 {
            let features = Features::Floats(image.clone());
            let mut one = Examples::new(256, features, Targets::Classes(vec![0]));
            augment.apply(&mut one);
            let Features::Floats(x) = one.features() else {
                unreachable!()
            };
            assert_eq!(x.iter().sum::<f32>(), 1.0);
            seen.insert(x.iter().position(|x| *x == 1.0).unwrap());
        }
        // Rows 6 to 10; columns 4 to 8, or 7 to 11 in the mirror: 5·8 places.
        let expected = (6..=10).flat_map(|y| (4..=11).map(move |x| y * 16 + x));
        assert!(seen.into_iter().eq(expected));
    }
}
