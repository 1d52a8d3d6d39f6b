//! Draws the learned α against αᵢ*, ζᵢ and the number of examples.

use std::path::Path;

use apfl::error::Result;
use apfl_report::chart::{self, Axis, Chart, Series};

use super::table::number;
use super::{ClientTheory, Report};

/// Draws the picture as SVG, or as PNG if the file's name ends in .png. A panel whose quantity is
/// not defined says so.
pub fn draw(report: &Report, file: &Path) -> Result<Vec<u8>> {
    let charts = [
        against(report, Axis::new("α* of the bound"), |c| {
            Some(c.bound?.alpha)
        }),
        against(report, Axis::log("ζᵢ over visited points"), |c| {
            Some(c.zeta)
        }),
        against(report, Axis::log("training examples mᵢ"), |c| {
            Some(c.examples as f64)
        }),
    ];
    let svg = chart::panels("", &charts, 3);
    if file.extension().is_some_and(|e| e == "png") {
        chart::png(&svg)
    } else {
        Ok(svg.into_bytes())
    }
}

/// A named α of a client.
type Alpha = (&'static str, fn(&ClientTheory) -> Option<f64>);

fn against(report: &Report, x: Axis, of: fn(&ClientTheory) -> Option<f64>) -> Chart {
    let chosen = report.clients.iter().any(|c| c.chosen.is_some());
    let alphas: &[Alpha] = if chosen {
        &[
            ("learned", |c| c.learned),
            ("chosen", |c| c.chosen),
            ("line search", |c| c.line_search),
        ]
    } else {
        &[("", |c| c.learned)]
    };
    let mut series = Vec::new();
    for (colour, (name, alpha_of)) in alphas.iter().enumerate() {
        let (mut points, mut tips) = (Vec::new(), Vec::new());
        for client in &report.clients {
            if let (Some(at), Some(alpha)) = (of(client), alpha_of(client)) {
                points.push((at, alpha));
                tips.push(format!(
                    "{}: {name}{}α = {alpha:.3} at {}",
                    client.client,
                    if name.is_empty() { "" } else { " " },
                    number(at)
                ));
            }
        }
        series.push(Series::dots(name, colour, points).with_tips(tips));
    }
    let empty = series.iter().all(|series| series.points.is_empty());
    Chart {
        title: if empty { "not defined" } else { "" }.into(),
        x,
        y: Axis::new(if chosen { "α" } else { "learned α" }).within(-0.04, 1.04),
        series,
    }
}
