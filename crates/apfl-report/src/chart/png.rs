//! Rasterizes charts to PNG.

use apfl::error::{Error, Result};
use resvg::{tiny_skia, usvg};

use super::outlines::outlined;

/// Pixels per unit of the SVG, so that a figure is sharp in print.
const SCALE: f32 = 2.0;

/// Rasterizes an SVG of [`panels`](super::panels).
pub fn png(svg: &str) -> Result<Vec<u8>> {
    let failed = |e: String| Error::data(format!("the picture cannot be rasterized: {e}"));
    let svg = outlined(svg).map_err(failed)?;
    let tree =
        usvg::Tree::from_str(&svg, &Default::default()).map_err(|e| failed(e.to_string()))?;
    let size = tree.size();
    let side = |units: f32| (units * SCALE).ceil().clamp(1.0, 20_000.0) as u32;
    let mut pixels = tiny_skia::Pixmap::new(side(size.width()), side(size.height()))
        .ok_or_else(|| failed("it is too large".into()))?;
    let scale = tiny_skia::Transform::from_scale(SCALE, SCALE);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Chart, Series, panels};

    #[test]
    fn pixels_have_the_lines_colour_and_text() {
        let chart = Chart {
            x: Axis::new("round"),
            y: Axis::new("loss"),
            series: vec![Series::line("", 1, vec![(0.0, 1.0), (10.0, 1.0)])],
            ..Chart::default()
        };
        let bytes = png(&panels("", std::slice::from_ref(&chart), 1)).unwrap();
        let drawn = tiny_skia::Pixmap::decode_png(&bytes).unwrap();
        let count = |map: &tiny_skia::Pixmap, colour: [u8; 3]| {
            let same = |p: &&tiny_skia::PremultipliedColorU8| {
                let p = p.demultiply();
                [p.red(), p.green(), p.blue()] == colour
            };
            map.pixels().iter().filter(same).count()
        };
        // The line is #d55e00, and hundreds of pixels long.
        assert!(count(&drawn, [0xd5, 0x5e, 0x00]) > 300);
        // Without text there are fewer dark pixels, so the font is drawn.
        let dark = count(&drawn, [0x22, 0x22, 0x22]);
        let textless = Chart {
            x: Axis::default(),
            y: Axis::default(),
            ..chart
        };
        let textless = png(&panels("", &[textless], 1)).unwrap();
        let textless = tiny_skia::Pixmap::decode_png(&textless).unwrap();
        assert!(dark > count(&textless, [0x22, 0x22, 0x22]) + 20);
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(png("<svg").is_err());
    }
}
