//! Convolution, ReLU and max-pooling in one pass, forward and backward.
//!
//! Images are stored row by row, pixel by pixel, with the channels of a pixel side by side (height,
//! width, channels). So the k pixels under one row of a filter are a run of k·channels numbers.
//! Only the maximum of each pooling window has a derivative, and only if it is positive; the
//! backward pass visits only those.

use pulp::Arch;

use crate::data::{Batch, FeatureView};

mod backward;
mod forward;

use backward::{Accumulate, Propagate};
use forward::Forward;

/// The lanes of the widest vectors, by which buffers are padded.
const MAX_LANES: usize = 16;

/// A convolution without padding, ReLU, and max-pooling over 2×2. Rows and columns that
/// do not fill a window are left out. Parameters: W (outputs, k, k, inputs), then b.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv {
    /// Height of an image.
    pub height: usize,
    /// Width of an image.
    pub width: usize,
    /// Channels of an image.
    pub inputs: usize,
    /// Output channels.
    pub outputs: usize,
    /// k: the filter's height and width.
    pub kernel: usize,
    /// The offset of W within the flat parameters.
    pub offset: usize,
}

/// Values of a convolution's forward pass that its backward pass needs, and buffers.
#[derive(Clone, Debug, Default)]
pub struct ConvSpace {
    /// The pooled outputs, image by image, then zeros up to a whole vector.
    pub pooled: Vec<f32>,
    /// For every pooled output, the offset in its image of the patch with the maximum.
    argmax: Vec<u32>,
    /// W in the order that the pass needs.
    packed: Vec<f32>,
    /// Σ δ·patch, filter by filter, each filter row padded to whole vectors.
    sums: Vec<f32>,
    /// (place, δ) of the positive maxima of an image, filter by filter or place by place.
    list: Vec<(u32, f32)>,
    counts: Vec<u32>,
}

impl Conv {
    /// Returns the height of the output.
    pub fn pooled_height(&self) -> usize {
        (self.height + 1 - self.kernel) / 2
    }

    /// Returns the width of the output.
    pub fn pooled_width(&self) -> usize {
        (self.width + 1 - self.kernel) / 2
    }

    /// Returns the length of one image.
    pub fn input_len(&self) -> usize {
        self.height * self.width * self.inputs
    }

    /// Returns the length of the output for one image.
    pub fn output_len(&self) -> usize {
        self.pooled_height() * self.pooled_width() * self.outputs
    }

    /// Returns the floating-point operations per image.
    pub fn flops(&self) -> u64 {
        8 * (self.output_len() * self.patch()) as u64
    }

    /// Returns the number of values under one row of a filter.
    fn run(&self) -> usize {
        self.kernel * self.inputs
    }

    /// Returns the number of values under a filter.
    fn patch(&self) -> usize {
        self.kernel * self.run()
    }

    /// Returns the length of one row of an image.
    fn stride(&self) -> usize {
        self.width * self.inputs
    }

    fn weight(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.outputs * self.patch()
    }

    fn bias(&self) -> std::ops::Range<usize> {
        let end = self.weight().end;
        end..end + self.outputs
    }

    /// Returns the range of all parameters.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.bias().end
    }

    /// Returns the length of a buffer for `len` numbers, so that a vector may start at each.
    pub fn padded(len: usize) -> usize {
        len + MAX_LANES
    }

    /// Computes pooled[p, o] ← max over the window of relu(b[o] + Σ W[o, ·]·patch) for `n` images.
    pub fn forward(&self, at: &[f32], x: &[f32], n: usize, space: &mut ConvSpace) {
        assert!(x.len() >= n * self.input_len());
        Arch::new().dispatch(Forward {
            conv: self,
            weight: &at[self.weight()],
            bias: &at[self.bias()],
            x,
            n,
            space,
        });
    }

    /// Sets δ to 0 where the output is not positive, then computes back ← ∂/∂x for `n` images. `back`
    /// is arbitrary after the last image.
    pub fn propagate(
        &self,
        at: &[f32],
        delta: &[f32],
        n: usize,
        space: &mut ConvSpace,
        back: &mut Vec<f32>,
    ) {
        let delta = &delta[..n * self.output_len()];
        back.clear();
        back.resize(Self::padded(n * self.input_len()), 0.0);
        Arch::new().dispatch(Propagate {
            conv: self,
            weight: &at[self.weight()],
            delta,
            space,
            back,
        });
    }

    /// Updates W ← W + scale·Σ δ·patch and b ← b + scale·Σ δ over `n` images. `x` is padded as in
    /// [`Conv::padded`].
    pub fn accumulate(
        &self,
        into: &mut [f32],
        scale: f32,
        x: &[f32],
        delta: &[f32],
        n: usize,
        space: &mut ConvSpace,
    ) {
        assert!(x.len() >= Self::padded(n * self.input_len()));
        let delta = &delta[..n * self.output_len()];
        Arch::new().dispatch(Accumulate {
            conv: self,
            into: &mut into[self.range()],
            scale,
            x,
            delta,
            space,
        });
    }
}

/// Converts the batch's images to numbers, from channel planes to pixel by pixel, padded as in
/// [`Conv::padded`].
pub fn images(batch: &Batch<'_>, channels: usize, out: &mut Vec<f32>) {
    let cells = batch.len() * batch.width;
    let plane = batch.width / channels;
    out.resize(Conv::padded(cells), 0.0);
    let out = out[..cells].chunks_exact_mut(batch.width);
    match batch.rows {
        FeatureView::Floats(x) => {
            for (x, out) in x.chunks_exact(batch.width).zip(out) {
                for (k, x) in x.chunks_exact(plane).enumerate() {
                    let out = out[k..].iter_mut().step_by(channels);
                    out.zip(x).for_each(|(out, x)| *out = *x);
                }
            }
        }
        FeatureView::Bytes(x, scaling) => {
            for (x, out) in x.chunks_exact(batch.width).zip(out) {
                for (k, x) in x.chunks_exact(plane).enumerate() {
                    // One pair per channel, or one for all.
                    let (scale, shift) = scaling.channels[k * scaling.channels.len() / channels];
                    let out = out[k..].iter_mut().step_by(channels);
                    out.zip(x)
                        .for_each(|(out, x)| *out = f32::from(*x) * scale + shift);
                }
            }
        }
    }
}
