//! Small charts: numbers in, SVG out.
//!
//! [`Chart::svg`] draws a chart for a page that has [`style::for_page`] in its style sheet, in
//! light or dark; [`panels`] draws several side by side as a self-contained file; `png`
//! rasterizes such a file.

mod legend;
mod marks;
#[cfg(feature = "png")]
mod outlines;
mod panel;
#[cfg(feature = "png")]
mod png;
mod scale;
pub mod style;
mod ticks;

#[cfg(feature = "png")]
pub use png::png;

use panel::Panel;

/// Width and height of one panel, without its legend.
const SIZE: (f64, f64) = (350.0, 250.0);

/// The colour of series that are only for comparison.
pub const GREY: usize = style::COLOURS - 1;

/// Represents a chart: two axes and the series between them.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// The title above the chart.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series, in drawing order.
    pub series: Vec<Series>,
}

/// Represents an axis, by default linear with the range of the data.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// The label.
    pub label: String,
    /// Whether it is logarithmic; values ≤ 0 are left out.
    pub log: bool,
    /// Whether values are shares from 0 to 1, written in percent.
    pub percent: bool,
    /// The ends; marks outside are cut off.
    pub range: Option<(f64, f64)>,
    /// Names of the positions 0, 1, 2, … instead of numbers.
    pub names: Vec<String>,
}

impl Axis {
    /// Creates a linear axis.
    pub fn new(label: &str) -> Self {
        Self {
            label: label.into(),
            ..Self::default()
        }
    }

    /// Creates a logarithmic axis.
    pub fn log(label: &str) -> Self {
        Self {
            log: true,
            ..Self::new(label)
        }
    }

    /// Creates an axis of shares.
    pub fn percent(label: &str) -> Self {
        Self {
            percent: true,
            ..Self::new(label)
        }
    }

    /// Creates an axis of names.
    pub fn names(label: &str, names: &[String]) -> Self {
        Self {
            names: names.to_vec(),
            ..Self::new(label)
        }
    }

    /// Sets the ends.
    pub fn within(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }

    /// Returns whether a value can be drawn on the axis.
    fn takes(&self, value: f64) -> bool {
        // Half of f64's range, so that a difference of two is finite.
        value.abs() < 1e300 && !(self.log && value <= 0.0)
    }

    /// Formats a value for a tooltip.
    fn format(&self, value: f64) -> String {
        match self.names.get(value.round().max(0.0) as usize) {
            Some(name) => name.clone(),
            None if self.percent => format!("{:.2}%", 100.0 * value),
            None => number(value),
        }
    }
}

/// Represents how a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeriesKind {
    /// A line through its points.
    #[default]
    Line,
    /// A dot for each point.
    Dots,
    /// A bar from 0 to each point; bars of several series are side by side.
    Bars,
}

/// Represents a series of points.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The name in the legend; a series without a name is not listed.
    pub name: String,
    /// How it is drawn.
    pub kind: SeriesKind,
    /// The points (x, y); non-finite points are left out.
    pub points: Vec<(f64, f64)>,
    /// The spread (low, high) around each point.
    pub band: Option<Vec<(f64, f64)>>,
    /// The index of the colour in the palette, which repeats.
    pub colour: usize,
    /// Whether the line is dashed.
    pub dashed: bool,
    /// The tooltip of each point; without one, a line shows its values.
    pub tips: Vec<String>,
}

impl Series {
    /// Creates a line.
    pub fn line(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            colour,
            points,
            ..Self::default()
        }
    }

    /// Creates dots.
    pub fn dots(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self {
            kind: SeriesKind::Dots,
            ..Self::line(name, colour, points)
        }
    }

    /// Creates bars.
    pub fn bars(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self {
            kind: SeriesKind::Bars,
            ..Self::line(name, colour, points)
        }
    }

    /// Dashes the line.
    pub fn dashed(mut self) -> Self {
        self.dashed = true;
        self
    }

    /// Adds a spread around each point.
    pub fn with_band(mut self, band: Vec<(f64, f64)>) -> Self {
        self.band = Some(band);
        self
    }

    /// Adds a tooltip to each point.
    pub fn with_tips(mut self, tips: Vec<String>) -> Self {
        self.tips = tips;
        self
    }
}

impl Chart {
    /// Draws the chart for a page, with the page's colours and the legend below.
    pub fn svg(&self) -> String {
        let (width, height) = SIZE;
        let legend = legend::Legend::of(std::slice::from_ref(self), width);
        let mut svg = open(width, height + legend.height);
        svg.push_str(&Panel::of(self, width, height).draw());
        svg.push_str(&legend.draw(0.0, height));
        svg.push_str("</svg>\n");
        svg
    }
}

/// Draws charts in rows of `columns` with one legend below, as a self-contained file on white.
pub fn panels(title: &str, charts: &[Chart], columns: usize) -> String {
    let (width, height) = SIZE;
    let columns = columns.clamp(1, charts.len().max(1));
    let total = columns as f64 * width;
    let legend = legend::Legend::of(charts, total);
    let top = if title.is_empty() { 6.0 } else { 34.0 };
    let rows = charts.len().div_ceil(columns) as f64;
    let bottom = top + rows * height;
    let mut svg = open(total, bottom + legend.height);
    svg.push_str(&format!(
        "<style>{}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        style::for_file()
    ));
    if !title.is_empty() {
        svg.push_str(&text("k-title", total / 2.0, 24.0, "middle", title));
    }
    for (k, chart) in charts.iter().enumerate() {
        let (x, y) = ((k % columns) as f64 * width, (k / columns) as f64 * height);
        svg.push_str(&format!("<g transform=\"translate({x} {})\">\n", top + y));
        svg.push_str(&Panel::of(chart, width, height).draw());
        svg.push_str("</g>\n");
    }
    svg.push_str(&legend.draw(0.0, bottom));
    svg.push_str("</svg>\n");
    svg
}

fn open(width: f64, height: f64) -> String {
    format!(
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n"
    )
}

fn text(class: &str, x: f64, y: f64, anchor: &str, content: &str) -> String {
    format!(
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
        escaped(content)
    )
}

/// Escapes text for SVG and HTML, between tags and in quotes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            // XML allows neither control characters nor these two non-characters.
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Shortens a text to at most `max` characters, ending in `…`.
pub fn shortened(text: &str, max: usize) -> String {
    if text.chars().count() > max {
        text.chars()
            .take(max.saturating_sub(1))
            .chain(['…'])
            .collect()
    } else {
        text.into()
    }
}

/// Formats a number with about four digits.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".into(),
        _ if !value.is_finite() => "–".into(),
        _ if !(1e-3..1e7).contains(&size) => format!("{value:.3e}"),
        _ if value.fract() == 0.0 || size >= 1e4 => format!("{value:.0}"),
        _ => {
            let decimals = (3.0 - size.log10().floor()).clamp(0.0, 6.0) as usize;
            format!("{value:.decimals$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_cannot_break_the_picture() {
        let hostile = "</svg><script>alert('1')</script>&\"\u{1}";
        let mut chart = Chart {
            title: hostile.into(),
            x: Axis::names(hostile, &[hostile.into()]),
            y: Axis::new(hostile),
            ..Chart::default()
        };
        let points = vec![(0.0, 1.0)];
        chart.series.push(Series::line(hostile, 0, points.clone()));
        let tips = vec![hostile.to_string()];
        let dots = Series::dots("other", 1, points).with_tips(tips);
        chart.series.push(dots);
        for svg in [chart.svg(), panels(hostile, &[chart], 2)] {
            assert!(!svg.contains("<script") && !svg.contains('\u{1}'), "{svg}");
            assert_eq!(svg.matches("</svg>").count(), svg.matches("<svg").count());
            assert!(svg.contains("&lt;script&gt;"));
            #[cfg(feature = "png")]
            resvg::usvg::Tree::from_str(&svg, &Default::default()).unwrap();
        }
    }

    #[test]
    fn numbers_have_about_four_digits() {
        assert_eq!(number(0.123456), "0.1235");
        assert_eq!(number(12.3456), "12.35");
        assert_eq!(number(100.0), "100");
        assert_eq!(number(123456.7), "123457");
        assert_eq!(number(0.0000123), "1.230e-5");
        assert_eq!(number(f64::NAN), "–");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abcd", 4), "abcd");
    }
}
