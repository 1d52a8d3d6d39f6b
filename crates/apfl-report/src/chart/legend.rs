//! The legend, below the chart.

use super::style::COLOURS;
use super::{Chart, SeriesKind, escaped, shortened};

const ROW: f64 = 18.0;
const SWATCH: f64 = 22.0;

/// Represents a legend with the positions of its entries.
pub struct Legend {
    entries: Vec<Entry>,
    /// Its height.
    pub height: f64,
}

struct Entry {
    name: String,
    kind: SeriesKind,
    colour: usize,
    dashed: bool,
    at: (f64, f64),
}

impl Legend {
    /// Lays out the names of all series, each once; empty if there are fewer than two.
    pub fn of(charts: &[Chart], width: f64) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        for series in charts.iter().flat_map(|c| &c.series) {
            let known = entries.iter().any(|e| e.name == series.name);
            if series.name.is_empty() || known {
                continue;
            }
            entries.push(Entry {
                name: series.name.clone(),
                kind: series.kind,
                colour: series.colour % COLOURS,
                dashed: series.dashed,
                at: (0.0, 0.0),
            });
        }
        if entries.len() < 2 {
            entries.clear();
            return Self {
                entries,
                height: 0.0,
            };
        }
        let mut rows = 0.0;
        let mut x = 12.0;
        for entry in &mut entries {
            entry.name = shortened(&entry.name, ((width - 60.0) / 6.6) as usize);
            let long = SWATCH + 6.0 + 6.6 * entry.name.chars().count() as f64;
            if x + long > width && x > 12.0 {
                rows += 1.0;
                x = 12.0;
            }
            entry.at = (x, rows * ROW);
            x += long + 12.0;
        }
        Self {
            entries,
            height: (rows + 1.0) * ROW + 8.0,
        }
    }

    /// Draws the legend with its upper left corner at (`left`, `top`).
    pub fn draw(&self, left: f64, top: f64) -> String {
        let mut svg = String::new();
        for e in &self.entries {
            let (x, y) = (left + e.at.0, top + e.at.1 + 10.0);
            let k = e.colour;
            svg.push_str(&match e.kind {
                SeriesKind::Line => format!(
                    "<path class=\"k-line k-s{k}{}\" d=\"M{x:.1} {y:.1}h{SWATCH}\"/>",
                    if e.dashed { " k-dash" } else { "" }
                ),
                SeriesKind::Dots => format!(
                    "<circle class=\"k-dot k-f{k}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>",
                    x + SWATCH - 6.0
                ),
                SeriesKind::Bars => format!(
                    "<rect class=\"k-bar k-f{k}\" x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\"/>",
                    x + SWATCH - 10.0,
                    y - 5.0
                ),
            });
            svg.push_str(&format!(
                "<text class=\"k-label\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                x + SWATCH + 5.0,
                y + 4.0,
                escaped(&e.name)
            ));
        }
        svg
    }
}
