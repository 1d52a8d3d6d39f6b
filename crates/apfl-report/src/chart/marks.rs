//! The marks of a chart (lines, bands, dots, bars) and their tooltips.

use super::panel::{Panel, spacing};
use super::style::COLOURS;
use super::{Series, SeriesKind, escaped};

/// The most points of a line; of more, the highest and lowest of each interval are drawn.
const MAX_POINTS: usize = 400;

/// The most strips of the x axis with a tooltip for lines.
const MAX_STRIPS: usize = 100;

impl Panel<'_> {
    pub(super) fn band(&self, svg: &mut String, series: &Series) {
        let Some(band) = &series.band else { return };
        let each = series.points.iter().zip(band);
        let edges: Vec<(f64, f64, f64)> = each
            .map(|((x, _), (low, high))| (*x, *low, *high))
            .filter(|(x, low, high)| self.drawable((*x, *low)) && self.drawable((*x, *high)))
            .collect();
        if series.kind != SeriesKind::Line {
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

    pub(super) fn line(&self, svg: &mut String, series: &Series) {
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
            // A single point is drawn as a dot.
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

    pub(super) fn dots(&self, svg: &mut String, series: &Series) {
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

    pub(super) fn bars(&self, svg: &mut String, series: &Series, nth: usize, of: usize) {
        let unit = if self.chart.x.names.is_empty() {
            spacing(&self.chart.series)
        } else {
            1.0
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
        let tip = match series.tips.get(nth) {
            Some(tip) => tip.clone(),
            None => {
                let (x, y) = series.points[nth];
                let name = if series.name.is_empty() {
                    String::new()
                } else {
                    format!("{}: ", series.name)
                };
                format!(
                    "{name}{}, {}",
                    self.chart.x.format(x),
                    self.chart.y.format(y)
                )
            }
        };
        format!("<title>{}</title>", escaped(&tip))
    }

    /// Draws vertical strips whose tooltips show the values of all lines at an x.
    pub(super) fn strips(&self, svg: &mut String) {
        let lines = || {
            self.chart
                .series
                .iter()
                .filter(|s| s.kind == SeriesKind::Line)
        };
        // Lines without a name only guide the eye.
        let named = || lines().filter(|s| !s.name.is_empty() || !s.tips.is_empty());
        let points = named().flat_map(|s| s.points.iter().copied());
        let mut all: Vec<f64> = points.filter(|p| self.drawable(*p)).map(|p| p.0).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        let stride = all.len().div_ceil(MAX_STRIPS).max(1);
        let last = all.last().copied();
        let mut shown: Vec<f64> = all.into_iter().step_by(stride).collect();
        shown.extend(last.filter(|l| shown.last() != Some(l)));
        let places: Vec<f64> = shown.iter().map(|x| self.x.place(*x)).collect();
        for (k, x) in shown.iter().enumerate() {
            let from = match k {
                0 => 0.0,
                k => (places[k - 1] + places[k]) / 2.0,
            };
            let to = match places.get(k + 1) {
                Some(next) => (places[k] + next) / 2.0,
                None => self.x.length,
            };
            let mut tip = format!("{} {}", self.chart.x.label, self.chart.x.format(*x));
            for series in named() {
                let here = series.points.partition_point(|p| p.0 < *x);
                let Some(point) = series.points.get(here).filter(|p| p.0 == *x) else {
                    continue;
                };
                tip.push_str(&match series.tips.get(here) {
                    Some(tip) => format!("\n{tip}"),
                    None => format!("\n{} {}", series.name, self.chart.y.format(point.1)),
                });
                if let Some((low, high)) = series.band.as_ref().and_then(|b| b.get(here)) {
                    let format = |v| self.chart.y.format(v);
                    tip.push_str(&format!(" ({} to {})", format(*low), format(*high)));
                }
            }
            svg.push_str(&format!("<rect class=\"k-strip\" x=\"{from:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>\n",
                (to - from).max(0.1),
                self.y.length,
                escaped(&tip)));
        }
    }
}

/// Returns the points of a long line to draw: both ends, and the lowest and highest of each
/// interval, so that no spike is lost.
fn thinned(points: &[(f64, f64)]) -> Vec<usize> {
    if points.len() <= MAX_POINTS {
        return (0..points.len()).collect();
    }
    let interval = points.len().div_ceil(MAX_POINTS / 2);
    let mut kept = vec![0];
    for start in (0..points.len()).step_by(interval) {
        let inside = start..(start + interval).min(points.len());
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

    #[test]
    fn thinning_keeps_ends_and_spikes() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|k| (k as f64, 0.5)).collect();
        points[4321].1 = 9.0;
        points[777].1 = -9.0;
        let kept = thinned(&points);
        assert!(kept.len() <= MAX_POINTS + 2);
        for index in [0, 777, 4321, 9999] {
            assert!(kept.contains(&index), "{index}");
        }
    }
}
