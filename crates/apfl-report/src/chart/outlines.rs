//! Text as outlines, for a renderer without fonts.

use std::fmt::Write;

use resvg::usvg::roxmltree::{Document, Node};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use super::escaped;
use super::style::font_size;

/// Replaces every text by its outline in the built-in DejaVu Sans, so that the picture does not
/// depend on installed fonts.
pub fn outlined(svg: &str) -> Result<String, String> {
    let document = Document::parse(svg).map_err(|e| e.to_string())?;
    let face = Face::parse(dejavu::sans::regular(), 0).map_err(|e| e.to_string())?;
    let mut out = String::with_capacity(4 * svg.len());
    let mut copied = 0;
    for text in document.descendants().filter(|n| n.has_tag_name("text")) {
        let range = text.range();
        out.push_str(&svg[copied..range.start]);
        draw(&face, text, &mut out);
        copied = range.end;
    }
    out.push_str(&svg[copied..]);
    Ok(out)
}

/// Writes a text of this crate's charts as a path of the same class and size.
fn draw(face: &Face<'_>, text: Node<'_, '_>, out: &mut String) {
    let attribute = |name| text.attribute(name).unwrap_or_default();
    let number = |name| attribute(name).parse::<f32>().unwrap_or_default();
    let class = attribute("class");
    let scale = font_size(class) as f32 / f32::from(face.units_per_em());
    let (glyphs, width) = layout(face, text.text().unwrap_or_default());
    let share = match attribute("text-anchor") {
        "middle" => 0.5,
        "end" => 1.0,
        _ => 0.0,
    };
    let start = number("x") - share * width * scale;
    let mut pen = Pen {
        path: String::new(),
        scale,
        at: (0.0, number("y")),
    };
    for (glyph, x) in glyphs {
        pen.at.0 = start + x * scale;
        face.outline_glyph(glyph, &mut pen);
    }
    let (class, transform) = (escaped(class), escaped(attribute("transform")));
    write!(
        out,
        "<path class=\"{class}\" transform=\"{transform}\" d=\"{}\"/>",
        pen.path
    )
    .expect("writing to memory");
}

/// Returns each character's glyph and position, and the total width, in units of the font.
fn layout(face: &Face<'_>, text: &str) -> (Vec<(GlyphId, f32)>, f32) {
    let kerning = |left, right| {
        let tables = face
            .tables()
            .kern
            .into_iter()
            .flat_map(|kern| kern.subtables);
        let mut pairs = tables.filter(|table| table.horizontal && !table.variable);
        pairs.find_map(|table| table.glyphs_kerning(left, right))
    };
    let mut glyphs: Vec<(GlyphId, f32)> = Vec::new();
    let mut x = 0.0;
    for c in text.chars() {
        // The first glyph of a font stands for missing characters.
        let glyph = face.glyph_index(c).unwrap_or(GlyphId(0));
        if let Some((before, _)) = glyphs.last() {
            x += f32::from(kerning(*before, glyph).unwrap_or(0));
        }
        glyphs.push((glyph, x));
        x += f32::from(face.glyph_hor_advance(glyph).unwrap_or(0));
    }
    (glyphs, x)
}

/// Writes an outline (y upwards) as a path (y downwards).
struct Pen {
    path: String,
    scale: f32,
    at: (f32, f32),
}

impl Pen {
    fn put(&mut self, command: char, points: &[(f32, f32)]) {
        self.path.push(command);
        for (x, y) in points {
            let (x, y) = (self.at.0 + x * self.scale, self.at.1 - y * self.scale);
            write!(self.path, "{x:.3} {y:.3} ").expect("writing to memory");
        }
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.put('M', &[(x, y)]);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.put('L', &[(x, y)]);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.put('Q', &[(x1, y1), (x, y)]);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.put('C', &[(x1, y1), (x2, y2), (x, y)]);
    }

    fn close(&mut self) {
        self.put('Z', &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_becomes_a_path_and_nothing_else_changes() {
        let svg = "<svg><g/><text class=\"k-tick\" x=\"1\" y=\"2\">l</text><text class=\"k-title\"\
                   >a &amp; b</text><rect/></svg>";
        let drawn = outlined(svg).unwrap();
        assert!(!drawn.contains("<text"), "{drawn}");
        assert_eq!(drawn.matches("<path").count(), 2);
        assert!(
            drawn.starts_with("<svg><g/><path class=\"k-tick\"")
                && drawn.ends_with("<rect/></svg>")
        );
    }

    /// Anchors are shares of the width; DejaVu's capital I is a stem that its advance centres.
    #[test]
    fn text_is_aligned_by_its_anchor() {
        let left = |anchor: &str| {
            let svg = format!(
                "<svg><text class=\"k-tick\" x=\"50\" text-anchor=\"{anchor}\">I</text></svg>"
            );
            let drawn = outlined(&svg).unwrap();
            let (_, path) = drawn.split_once(" d=\"M").unwrap();
            path.split(' ').next().unwrap().parse::<f32>().unwrap()
        };
        let face = Face::parse(dejavu::sans::regular(), 0).unwrap();
        let (_, width) = layout(&face, "I");
        let width = width * 10.0 / f32::from(face.units_per_em());
        assert!((left("start") - left("end") - width).abs() < 1e-2);
        assert!((left("start") - left("middle") - width / 2.0).abs() < 1e-2);
    }
}
