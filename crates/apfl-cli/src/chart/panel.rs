//! One chart: scales, grid, marks, and what is told under the pointer.

use super::scale::Scale;
use super::style::COLOURS;
use super::{Chart, Kind, Series, escaped, text};

/// Points a line keeps; of more, the highest and the lowest of each stretch are drawn.
const POINTS: usize = 400;

/// Stretches of the x axis that tell the values of lines.
const STRIPS: usize = 100;

const TOP: f64 = 26.0;
const BOTTOM: f64 = 42.0;
const RIGHT: f64 = 14.0;

/// A chart with its scales.
pub struct Panel<'a> {
    chart: &'a Chart,
    x: Scale,
    y: Scale,
    /// Left edge, upper edge, width and height of the data's field.
    field: (f64, f64, f64, f64),
    height: f64,
}

impl<'a> Panel<'a> {
    /// A chart of that size.
    pub fn of(chart: &'a Chart, width: f64, height: f64) -> Self {
        let bars = chart.series.iter().any(|s| s.kind == Kind::Bars);
        let points = || chart.series.iter().flat_map(|s| &s.points);
        let bands = chart
            .series
            .iter()
            .filter_map(|s| s.band.as_ref())
            .flatten();
        let heights = points().map(|p| p.1).chain(bands.flat_map(|b| [b.0, b.1]));
        let mut y = Scale::of(&chart.y, heights, bars, 0.05);
        let lines_only = chart.series.iter().all(|s| s.kind == Kind::Line);
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
        y.length = height - TOP - BOTTOM;
        let field = (left, TOP, x.length, y.length);
        Self {
            chart,
            x,
            y,
            field,
            height,
        }
    }

    /// Its drawing.
    pub fn draw(&self) -> String {
        let (left, top, wide, high) = self.field;
        let middle = left + wide / 2.0;
        let mut svg = text("k-head", middle, 17.0, "middle", &self.chart.title);
        self.axes(&mut svg);
        // An inner svg cuts off what lies outside, and needs no name to do it.
        svg.push_str(&format!(
            "<svg x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\">\n"
        ));
        let bars = self.chart.series.iter().filter(|s| s.kind == Kind::Bars);
        let (of, mut nth) = (bars.count(), 0);
        for series in &self.chart.series {
            self.band(&mut svg, series);
        }
        for series in self.chart.series.iter().filter(|s| s.kind == Kind::Bars) {
            self.bars(&mut svg, series, nth, of);
            nth += 1;
        }
        for series in self.chart.series.iter().filter(|s| s.kind == Kind::Line) {
            self.line(&mut svg, series);
        }
        self.strips(&mut svg);
        for series in self.chart.series.iter().filter(|s| s.kind == Kind::Dots) {
            self.dots(&mut svg, series);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.place(x), self.y.length - self.y.place(y))
    }

    fn drawable(&self, (x, y): (f64, f64)) -> bool {
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

    fn band(&self, svg: &mut String, series: &Series) {
        let Some(band) = &series.band else { return };
        let each = series.points.iter().zip(band);
        let edges: Vec<(f64, f64, f64)> = each
            .map(|((x, _), (low, high))| (*x, *low, *high))
            .filter(|(x, low, high)| self.drawable((*x, *low)) && self.drawable((*x, *high)))
            .collect();
        if series.kind != Kind::Line {
            for (x, low, high) in edges {
                let (x, low) = self.at((x, low));
                let (_, high) = self.at((0.0, high));
                let k = series.colour % COLOURS;
                let d = format!("M{x:.1} {low:.1}V{high:.1}");
                svg.push_str(&format!("<path class=\"k-line k-s{k}\" d=\"{d}\"/>\n"));
            }
            return;
        }
        let kept = thinned(&edges.iter().map(|e| (e.0, e.2)).collect::<Vec<_>>());
        let upper = kept.iter().map(|k| (edges[*k].0, edges[*k].2));
        let lower = kept.iter().rev().map(|k| (edges[*k].0, edges[*k].1));
        let path: Vec<String> = upper
            .chain(lower)
            .map(|p| self.at(p))
            .map(|(x, y)| format!("{x:.1} {y:.1}"))
            .collect();
        if kept.len() > 1 {
            let k = series.colour % COLOURS;
            svg.push_str(&format!(
                "<path class=\"k-band k-f{k}\" d=\"M{}z\"/>\n",
                path.join("L")
            ));
        }
    }

    fn line(&self, svg: &mut String, series: &Series) {
        let points = series.points.iter().copied();
        let points: Vec<(f64, f64)> = points.filter(|p| self.drawable(*p)).collect();
        let places: Vec<String> = thinned(&points)
            .into_iter()
            .map(|k| self.at(points[k]))
            .map(|(x, y)| format!("{x:.1} {y:.1}"))
            .collect();
        let k = series.colour % COLOURS;
        match places.len() {
            0 => {}
            // One point is no line.
            1 => {
                let (x, y) = self.at(points[0]);
                svg.push_str(&format!(
                    "<circle class=\"k-f{k}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>\n"
                ));
            }
            _ => svg.push_str(&format!(
                "<path class=\"k-line k-s{k}{}\" d=\"M{}\"/>\n",
                if series.dashed { " k-dash" } else { "" },
                places.join("L")
            )),
        }
    }

    fn dots(&self, svg: &mut String, series: &Series) {
        let radius = match series.points.len() {
            0..=60 => 4.0,
            61..=300 => 3.2,
            _ => 2.4,
        };
        svg.push_str(&format!(
            "<g class=\"k-dot k-f{}\">\n",
            series.colour % COLOURS
        ));
        for (nth, point) in series.points.iter().enumerate() {
            if self.drawable(*point) {
                let (x, y) = self.at(*point);
                let tip = self.tip(series, nth);
                svg.push_str(&format!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\">{tip}</circle>\n"
                ));
            }
        }
        svg.push_str("</g>\n");
    }

    fn bars(&self, svg: &mut String, series: &Series, nth: usize, of: usize) {
        let unit = match self.chart.x.names.is_empty() {
            true => spacing(&self.chart.series),
            false => 1.0,
        };
        let whole = 0.84 * (self.x.place(self.x.low + unit) - self.x.place(self.x.low));
        let wide = whole / of as f64;
        svg.push_str(&format!(
            "<g class=\"k-bar k-f{}\">\n",
            series.colour % COLOURS
        ));
        for (k, point) in series.points.iter().enumerate() {
            if self.drawable(*point) {
                let (x, y) = self.at(*point);
                let (_, zero) = self.at((0.0, self.y.floor()));
                let x = x - whole / 2.0 + nth as f64 * wide;
                let (upper, tall) = (y.min(zero), (y - zero).abs());
                let tip = self.tip(series, k);
                svg.push_str(&format!("<rect x=\"{x:.1}\" y=\"{upper:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\">{tip}</rect>\n"));
            }
        }
        svg.push_str("</g>\n");
    }

    fn tip(&self, series: &Series, nth: usize) -> String {
        let words = match series.tips.get(nth) {
            Some(tip) => tip.clone(),
            None => {
                let (x, y) = series.points[nth];
                let name = match series.name.is_empty() {
                    true => String::new(),
                    false => format!("{}: ", series.name),
                };
                format!("{name}{}, {}", self.chart.x.told(x), self.chart.y.told(y))
            }
        };
        format!("<title>{}</title>", escaped(&words))
    }

    /// Upright strips that tell what all lines are at an x.
    fn strips(&self, svg: &mut String) {
        let lines = || self.chart.series.iter().filter(|s| s.kind == Kind::Line);
        // A line without a name is there to guide the eye.
        let named = || lines().filter(|s| !s.name.is_empty() || !s.tips.is_empty());
        let points = named().flat_map(|s| s.points.iter().copied());
        let mut all: Vec<f64> = points.filter(|p| self.drawable(*p)).map(|p| p.0).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        let stride = all.len().div_ceil(STRIPS).max(1);
        let last = all.last().copied();
        let mut told: Vec<f64> = all.into_iter().step_by(stride).collect();
        told.extend(last.filter(|l| told.last() != Some(l)));
        let places: Vec<f64> = told.iter().map(|x| self.x.place(*x)).collect();
        for (k, x) in told.iter().enumerate() {
            let from = match k {
                0 => 0.0,
                k => (places[k - 1] + places[k]) / 2.0,
            };
            let to = match places.get(k + 1) {
                Some(next) => (places[k] + next) / 2.0,
                None => self.x.length,
            };
            let mut words = format!("{} {}", self.chart.x.label, self.chart.x.told(*x));
            for series in named() {
                let here = series.points.partition_point(|p| p.0 < *x);
                let Some(point) = series.points.get(here).filter(|p| p.0 == *x) else {
                    continue;
                };
                words.push_str(&match series.tips.get(here) {
                    Some(tip) => format!("\n{tip}"),
                    None => format!("\n{} {}", series.name, self.chart.y.told(point.1)),
                });
                if let Some((low, high)) = series.band.as_ref().and_then(|b| b.get(here)) {
                    let told = |v| self.chart.y.told(v);
                    words.push_str(&format!(" ({} to {})", told(*low), told(*high)));
                }
            }
            svg.push_str(&format!("<rect class=\"k-strip\" x=\"{from:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>\n",
                (to - from).max(0.1),
                self.y.length,
                escaped(&words)));
        }
    }
}

/// The smallest distance between bars.
fn spacing(series: &[Series]) -> f64 {
    let bars = series.iter().filter(|s| s.kind == Kind::Bars);
    let mut x: Vec<f64> = bars.flat_map(|s| &s.points).map(|p| p.0).collect();
    x.retain(|x| x.is_finite());
    x.sort_by(f64::total_cmp);
    x.dedup();
    let gaps = x.windows(2).map(|w| w[1] - w[0]);
    let least = gaps.fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 1.0 }
}

/// Which points of a long line to draw: the lowest and the highest of each stretch, so that
/// no spike is lost, and both ends.
fn thinned(points: &[(f64, f64)]) -> Vec<usize> {
    if points.len() <= POINTS {
        return (0..points.len()).collect();
    }
    let stretch = points.len().div_ceil(POINTS / 2);
    let mut kept = vec![0];
    for start in (0..points.len()).step_by(stretch) {
        let inside = start..(start + stretch).min(points.len());
        let by_height = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
        let low = inside.clone().min_by(by_height);
        let high = inside.max_by(by_height);
        kept.extend(low.into_iter().chain(high));
    }
    kept.push(points.len() - 1);
    kept.sort_unstable();
    kept.dedup();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Axis;

    fn drawn(series: Vec<Series>) -> String {
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
        let svg = drawn(vec![Series::dots("a", 0, points.clone())]);
        assert_eq!(svg.matches("<circle").count(), 2);
        let svg = drawn(vec![Series::bars("a", 0, points.clone())]);
        assert_eq!(svg.matches("<title>").count(), 2);
        let svg = drawn(vec![Series::line("a", 0, points)]);
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
    fn thinning_keeps_ends_and_spikes() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|k| (k as f64, 0.5)).collect();
        points[4321].1 = 9.0;
        points[777].1 = -9.0;
        let kept = thinned(&points);
        assert!(kept.len() <= POINTS + 2);
        for wanted in [0, 777, 4321, 9999] {
            assert!(kept.contains(&wanted), "{wanted}");
        }
    }

    #[test]
    fn nothing_to_draw_is_an_empty_chart() {
        for series in [vec![], vec![Series::line("a", 0, vec![])]] {
            assert!(drawn(series).contains("k-axis"));
        }
        let constant = drawn(vec![Series::line("a", 0, vec![(1.0, 2.0), (2.0, 2.0)])]);
        assert!(!constant.contains("NaN"));
    }
}
