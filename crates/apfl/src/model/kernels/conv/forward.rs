//! The forward pass: filters side by side in a vector, windows in registers.

use pulp::{Simd, WithSimd};

use super::{Conv, ConvSpace, MAX_LANES};

/// Packs W into dst with the filters side by side, in panels of `V` vectors: (patch, lanes·V)
/// each, the last one padded with zeros.
fn pack_panels(weight: &[f32], patch: usize, panel: usize, dst: &mut Vec<f32>) {
    let outputs = weight.len() / patch;
    let panels = outputs.div_ceil(panel);
    dst.clear();
    dst.resize(panels * patch * panel, 0.0);
    let filters = weight.chunks(panel * patch);
    for (filters, dst) in filters.zip(dst.chunks_exact_mut(panel * patch)) {
        for (j, dst) in dst.chunks_exact_mut(panel).enumerate() {
            for (dst, filter) in dst.iter_mut().zip(filters.chunks_exact(patch)) {
                *dst = filter[j];
            }
        }
    }
}

pub(super) struct Forward<'a> {
    pub(super) conv: &'a Conv,
    pub(super) weight: &'a [f32],
    pub(super) bias: &'a [f32],
    pub(super) x: &'a [f32],
    pub(super) n: usize,
    pub(super) space: &'a mut ConvSpace,
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            conv,
            weight,
            bias,
            x,
            n,
            space,
        } = self;
        let lanes = S::F32_LANES;
        let panel = if conv.outputs > lanes { 2 } else { 1 } * lanes;
        pack_panels(weight, conv.patch(), panel, &mut space.packed);
        let len = conv.output_len();
        space.pooled.resize(Conv::padded(n * len), 0.0);
        space.pooled[n * len..].fill(0.0);
        space.argmax.resize(n * len, 0);
        let packed = S::as_simd_f32s(&space.packed).0;
        for (image, (pooled, argmax)) in x
            .chunks_exact(conv.input_len())
            .zip(
                space
                    .pooled
                    .chunks_exact_mut(len)
                    .zip(space.argmax.chunks_exact_mut(len)),
            )
            .take(n)
        {
            // AVX-512 has registers for two windows at a time.
            match (panel / lanes, lanes == MAX_LANES) {
                (2, true) => {
                    image_forward::<S, 2, 8>(simd, conv, packed, bias, image, pooled, argmax)
                }
                (2, false) => {
                    image_forward::<S, 2, 4>(simd, conv, packed, bias, image, pooled, argmax)
                }
                (_, _) => image_forward::<S, 1, 8>(simd, conv, packed, bias, image, pooled, argmax),
            }
        }
    }
}

/// Processes one image: `V` vectors of filters over `P` = 4·windows pixels at a time.
#[inline(always)]
fn image_forward<S: Simd, const V: usize, const P: usize>(
    simd: S,
    conv: &Conv,
    packed: &[S::f32s],
    bias: &[f32],
    image: &[f32],
    pooled: &mut [f32],
    argmax: &mut [u32],
) {
    let (patch, outputs) = (conv.patch(), conv.outputs);
    let windows = P / 4;
    for (k, panel) in packed.chunks_exact(patch * V).enumerate() {
        let first = k * V * S::F32_LANES;
        let bias = &bias[first..];
        let panel = panel.as_chunks::<V>().0;
        for row in 0..conv.pooled_height() {
            let mut column = 0;
            while column < conv.pooled_width() {
                let here = windows.min(conv.pooled_width() - column);
                let corner = 2 * (row * conv.stride() + column * conv.inputs);
                let place = (row * conv.pooled_width() + column) * outputs + first;
                let (pooled, argmax) = (&mut pooled[place..], &mut argmax[place..]);
                if here == windows {
                    tile::<S, V, P>(simd, conv, panel, bias, image, corner, pooled, argmax);
                } else {
                    for w in 0..here {
                        let corner = corner + 2 * w * conv.inputs;
                        let (pooled, argmax) =
                            (&mut pooled[w * outputs..], &mut argmax[w * outputs..]);
                        tile::<S, V, 4>(simd, conv, panel, bias, image, corner, pooled, argmax);
                    }
                }
                column += here;
            }
        }
    }
}

/// Processes the windows that start at `corner`, side by side.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn tile<S: Simd, const V: usize, const P: usize>(
    simd: S,
    conv: &Conv,
    panel: &[[S::f32s; V]],
    bias: &[f32],
    image: &[f32],
    corner: usize,
    pooled: &mut [f32],
    argmax: &mut [u32],
) {
    let (run, stride) = (conv.run(), conv.stride());
    let mut sums = [[simd.splat_f32s(0.0); V]; P];
    let starts: [usize; P] = std::array::from_fn(|p| {
        let (window, below, right) = (p / 4, p / 2 % 2, p % 2);
        corner + below * stride + (2 * window + right) * conv.inputs
    });
    for row in 0..conv.kernel {
        let panel = &panel[row * run..][..run];
        let pixels: [&[f32]; P] =
            std::array::from_fn(|p| &image[starts[p] + row * stride..][..run]);
        for j in 0..run {
            for p in 0..P {
                let x = simd.splat_f32s(pixels[p][j]);
                for v in 0..V {
                    sums[p][v] = simd.mul_add_e_f32s(panel[j][v], x, sums[p][v]);
                }
            }
        }
    }
    for window in 0..P / 4 {
        for v in 0..V {
            let lane = v * S::F32_LANES;
            let mut best = sums[4 * window][v];
            let mut start = simd.splat_u32s(starts[4 * window] as u32);
            for p in 4 * window + 1..4 * window + 4 {
                let better = simd.greater_than_f32s(sums[p][v], best);
                best = simd.select_f32s(better, sums[p][v], best);
                let candidate = simd.splat_u32s(starts[p] as u32);
                start = simd.select_u32s(better, candidate, start);
            }
            // All pixels of a window have the same bias.
            let filters = lane.min(bias.len())..(lane + S::F32_LANES).min(bias.len());
            let y = simd.add_f32s(best, simd.partial_load_f32s(&bias[filters.clone()]));
            let y = simd.max_f32s(y, simd.splat_f32s(0.0));
            let at = window * conv.outputs;
            let filters = at + filters.start..at + filters.end;
            simd.partial_store_f32s(&mut pooled[filters.clone()], y);
            simd.partial_store_u32s(&mut argmax[filters], start);
        }
    }
}
