//! Small charts: numbers in, SVG out.
//!
//! A chart holds numbers and words only. [`Chart::svg`] draws it for a page that has
//! [`style::for_page`] in its style sheet and so follows the reader's light or dark;
//! [`panels`] draws several side by side, as a file that stands alone; `png` makes pixels
//! of such a file.

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

/// The colour that means "for comparison only".
pub const GREY: usize = style::COLOURS - 1;

/// One chart: an x and a y axis and what is drawn between them.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Stands above it.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, in this order.
    pub series: Vec<Series>,
}

/// An axis. By default it is linear and as long as the data needs.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// Logarithmic: values ≤ 0 are left out.
    pub log: bool,
    /// Values are shares from 0 to 1, written in percent.
    pub percent: bool,
    /// Its ends; what lies outside is cut off.
    pub range: Option<(f64, f64)>,
    /// Names of the positions 0, 1, 2, … instead of numbers.
    pub names: Vec<String>,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: &str) -> Self {
        Self {
            label: label.into(),
            ..Self::default()
        }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Self {
        Self {
            log: true,
            ..Self::new(label)
        }
    }

    /// An axis of shares.
    pub fn percent(label: &str) -> Self {
        Self {
            percent: true,
            ..Self::new(label)
        }
    }

    /// An axis of names.
    pub fn names(label: &str, names: &[String]) -> Self {
        Self {
            names: names.to_vec(),
            ..Self::new(label)
        }
    }

    /// The same axis with fixed ends.
    pub fn within(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }

    /// Whether a value has a place on it.
    fn takes(&self, value: f64) -> bool {
        // Half of f64's range, so that a difference of two is finite.
        value.abs() < 1e300 && !(self.log && value <= 0.0)
    }

    /// A value in words, for those who hover over it.
    fn told(&self, value: f64) -> String {
        match self.names.get(value.round().max(0.0) as usize) {
            Some(name) => name.clone(),
            None if self.percent => format!("{:.2}%", 100.0 * value),
            None => number(value),
        }
    }
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeriesKind {
    /// A line through its points.
    #[default]
    Line,
    /// A dot for each point.
    Dots,
    /// A bar from 0 to each point; bars of several series stand side by side.
    Bars,
}

/// Points that belong together.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// For the legend; a series without a name is not in it.
    pub name: String,
    /// How it is drawn.
    pub kind: SeriesKind,
    /// (x, y); a point that is not finite is left out.
    pub points: Vec<(f64, f64)>,
    /// (low, high) for each point: the spread around it.
    pub band: Option<Vec<(f64, f64)>>,
    /// Which colour of the palette; it repeats.
    pub colour: usize,
    /// Whether the line is dashed.
    pub dashed: bool,
    /// What is told of each point when the pointer is on it. A line without any tells its
    /// values.
    pub tips: Vec<String>,
}

impl Series {
    /// A line.
    pub fn line(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            colour,
            points,
            ..Self::default()
        }
    }

    /// Dots.
    pub fn dots(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self {
            kind: SeriesKind::Dots,
            ..Self::line(name, colour, points)
        }
    }

    /// Bars.
    pub fn bars(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self {
            kind: SeriesKind::Bars,
            ..Self::line(name, colour, points)
        }
    }

    /// The same, dashed.
    pub fn dashed(mut self) -> Self {
        self.dashed = true;
        self
    }

    /// The same with a spread around each point.
    pub fn with_band(mut self, band: Vec<(f64, f64)>) -> Self {
        self.band = Some(band);
        self
    }

    /// The same with words for each point.
    pub fn with_tips(mut self, tips: Vec<String>) -> Self {
        self.tips = tips;
        self
    }
}

impl Chart {
    /// For a page: no colours of its own, its legend below.
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

/// Charts in rows of `columns` with one legend below: a file that stands alone, on white.
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
        style::alone()
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

fn text(class: &str, x: f64, y: f64, anchor: &str, words: &str) -> String {
    format!(
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
        escaped(words)
    )
}

/// Words as they may stand in SVG and HTML, between tags and in quotes.
pub fn escaped(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            // XML allows neither these nor the two non-characters.
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The first letters of a name, where it is long.
pub fn shortened(words: &str, most: usize) -> String {
    if words.chars().count() > most {
        words
            .chars()
            .take(most.saturating_sub(1))
            .chain(['…'])
            .collect()
    } else {
        words.into()
    }
}

/// About four digits of a number.
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
    fn words_cannot_break_the_picture() {
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
