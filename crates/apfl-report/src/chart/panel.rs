//! The layout of one chart: scales, axes and grid.

use super::scale::Scale;
use super::{Chart, Series, SeriesKind, escaped, text};

/// The top margin with and without a title.
const TOP: (f64, f64) = (26.0, 12.0);
const BOTTOM: f64 = 42.0;
const RIGHT: f64 = 14.0;

/// Represents a chart with its scales.
pub struct Panel<'a> {
    pub(super) chart: &'a Chart,
    pub(super) x: Scale,
    pub(super) y: Scale,
    /// Left edge, upper edge, width and height of the data area.
    field: (f64, f64, f64, f64),
    height: f64,
}

impl<'a> Panel<'a> {
    /// Lays out a chart of a given size.
    pub fn of(chart: &'a Chart, width: f64, height: f64) -> Self {
        let bars = chart.series.iter().any(|s| s.kind == SeriesKind::Bars);
        let points = || chart.series.iter().flat_map(|s| &s.points);
        let bands = chart
            .series
            .iter()
            .filter_map(|s| s.band.as_ref())
            .flatten();
        // The spread around a mean of shares may exceed 0 to 1.
        let share = |value: f64| {
            if chart.y.percent && value.is_finite() {
                value.clamp(0.0, 1.0)
            } else {
                value
            }
        };
        let bands = bands.flat_map(|b| [share(b.0), share(b.1)]);
        let heights = points().map(|p| p.1).chain(bands);
        let mut y = Scale::of(&chart.y, heights, bars, 0.05);
        let lines_only = chart.series.iter().all(|s| s.kind == SeriesKind::Line);
        let room = if lines_only { 0.0 } else { 0.04 };
        let mut x = Scale::of(&chart.x, points().map(|p| p.0), false, room);
        if bars && chart.x.names.is_empty() && chart.x.range.is_none() && !chart.x.log {
            let half = spacing(&chart.series) / 2.0;
            let inside = points().map(|p| p.0).filter(|v| chart.x.takes(*v));
            let (low, high) = inside.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
                (a.min(v), b.max(v))
            });
            if low <= high {
                (x.low, x.high) = (low - half, high + half);
            }
        }
        let count = (height / 45.0) as usize;
        let labels = y.ticks(&chart.y, count).into_iter();
        let widest = labels.map(|(_, l)| l.chars().count()).max().unwrap_or(0);
        let left = 30.0 + 6.4 * widest as f64;
        x.length = width - left - RIGHT;
        let top = if chart.title.is_empty() { TOP.1 } else { TOP.0 };
        y.length = height - top - BOTTOM;
        let field = (left, top, x.length, y.length);
        Self {
            chart,
            x,
            y,
            field,
            height,
        }
    }

    /// Draws the panel.
    pub fn draw(&self) -> String {
        let (left, top, wide, high) = self.field;
        let middle = left + wide / 2.0;
        let mut svg = text("k-head", middle, 17.0, "middle", &self.chart.title);
        self.axes(&mut svg);
        // An inner svg clips without needing an id.
        svg.push_str(&format!(
            "<svg x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\">\n"
        ));
        let bars = self
            .chart
            .series
            .iter()
            .filter(|s| s.kind == SeriesKind::Bars);
        let (of, mut nth) = (bars.count(), 0);
        for series in &self.chart.series {
            self.band(&mut svg, series);
        }
        for series in self
            .chart
            .series
            .iter()
            .filter(|s| s.kind == SeriesKind::Bars)
        {
            self.bars(&mut svg, series, nth, of);
            nth += 1;
        }
        for series in self
            .chart
            .series
            .iter()
            .filter(|s| s.kind == SeriesKind::Line)
        {
            self.line(&mut svg, series);
        }
        self.strips(&mut svg);
        for series in self
            .chart
            .series
            .iter()
            .filter(|s| s.kind == SeriesKind::Dots)
        {
            self.dots(&mut svg, series);
        }
        svg.push_str("</svg>\n");
        svg
    }

    pub(super) fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.place(x), self.y.length - self.y.place(y))
    }

    pub(super) fn drawable(&self, (x, y): (f64, f64)) -> bool {
        self.chart.x.takes(x) && self.chart.y.takes(y)
    }

    fn axes(&self, svg: &mut String) {
        let (left, top, wide, high) = self.field;
        let bottom = top + high;
        let mut grid = String::new();
        for (value, label) in self.y.ticks(&self.chart.y, (self.height / 45.0) as usize) {
            let y = bottom - self.y.place(value);
            grid.push_str(&format!("M{left:.1} {y:.1}h{wide:.1}"));
            svg.push_str(&text("k-tick", left - 5.0, y + 3.5, "end", &label));
        }
        for (value, label) in self.x.ticks(&self.chart.x, (wide / 55.0) as usize) {
            let x = left + self.x.place(value);
            grid.push_str(&format!("M{x:.1} {top:.1}v{high:.1}"));
            svg.push_str(&text("k-tick", x, bottom + 14.0, "middle", &label));
        }
        svg.push_str(&format!(
            "<path class=\"k-grid\" d=\"{grid}\"/>\
             <path class=\"k-axis\" d=\"M{left:.1} {top:.1}v{high:.1}h{wide:.1}\"/>\n"
        ));
        let middle = left + wide / 2.0;
        svg.push_str(&text(
            "k-label",
            middle,
            bottom + 31.0,
            "middle",
            &self.chart.x.label,
        ));
        svg.push_str(&format!(
            "<text class=\"k-label\" transform=\"translate(12 {:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>\n",
            top + high / 2.0,
            escaped(&self.chart.y.label)
        ));
    }
}

/// Returns the smallest distance between bars.
pub(super) fn spacing(series: &[Series]) -> f64 {
    let bars = series.iter().filter(|s| s.kind == SeriesKind::Bars);
    let mut x: Vec<f64> = bars.flat_map(|s| &s.points).map(|p| p.0).collect();
    x.retain(|x| x.is_finite());
    x.sort_by(f64::total_cmp);
    x.dedup();
    let gaps = x.windows(2).map(|w| w[1] - w[0]);
    let least = gaps.fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Axis;

    fn draw(series: Vec<Series>) -> String {
        Chart {
            x: Axis::new("round"),
            y: Axis::new("loss"),
            series,
            ..Chart::default()
        }
        .svg()
    }

    #[test]
    fn every_finite_point_is_drawn_and_no_other() {
        let points = vec![
            (1.0, 1.0),
            (2.0, f64::NAN),
            (3.0, 2.0),
            (f64::INFINITY, 1.0),
        ];
        let svg = draw(vec![Series::dots("a", 0, points.clone())]);
        assert_eq!(svg.matches("<circle").count(), 2);
        let svg = draw(vec![Series::bars("a", 0, points.clone())]);
        assert_eq!(svg.matches("<title>").count(), 2);
        let svg = draw(vec![Series::line("a", 0, points)]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains("<title>round 3\na 2</title>"), "{svg}");
    }

    #[test]
    fn a_log_axis_leaves_out_what_has_no_logarithm() {
        let chart = Chart {
            y: Axis::log("loss"),
            series: vec![Series::dots(
                "a",
                0,
                vec![(0.0, 0.0), (1.0, 0.1), (2.0, 10.0)],
            )],
            ..Chart::default()
        };
        assert_eq!(chart.svg().matches("<circle").count(), 2);
    }

    #[test]
    fn places_are_proportional() {
        let chart = Chart {
            x: Axis::new("").within(0.0, 10.0),
            y: Axis::log("").within(0.01, 100.0),
            ..Chart::default()
        };
        let panel = Panel::of(&chart, 350.0, 250.0);
        let (_, _, wide, high) = panel.field;
        let (x, y) = panel.at((2.5, 1.0));
        // A quarter of the way; and 1 is midway between 0.01 and 100.
        assert!((x - wide / 4.0).abs() < 1e-9 && (y - high / 2.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_to_draw_is_an_empty_chart() {
        for series in [vec![], vec![Series::line("a", 0, vec![])]] {
            assert!(draw(series).contains("k-axis"));
        }
        let constant = draw(vec![Series::line("a", 0, vec![(1.0, 2.0), (2.0, 2.0)])]);
        assert!(!constant.contains("NaN"));
    }
}
