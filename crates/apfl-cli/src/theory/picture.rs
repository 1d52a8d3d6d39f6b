//! The learned α against αᵢ*, against ζᵢ and against the number of examples.

use std::path::Path;

use apfl::error::Result;
use apfl::theory::{ClientTheory, Report};

use super::table::number;
use crate::chart::{self, Axis, Chart, Series};

/// The picture as SVG, or as PNG where the file is named so. A panel whose quantity is not
/// defined says so.
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
    match file.extension().is_some_and(|e| e == "png") {
        true => chart::png(&svg),
        false => Ok(svg.into_bytes()),
    }
}

fn against(report: &Report, x: Axis, of: fn(&ClientTheory) -> Option<f64>) -> Chart {
    let (mut points, mut tips) = (Vec::new(), Vec::new());
    for client in &report.clients {
        if let (Some(at), Some(alpha)) = (of(client), client.mixing) {
            points.push((at, alpha));
            tips.push(format!(
                "{}: α = {alpha:.3} at {}",
                client.client,
                number(at)
            ));
        }
    }
    Chart {
        title: if points.is_empty() { "not defined" } else { "" }.into(),
        x,
        y: Axis::new("learned α").within(-0.04, 1.04),
        series: vec![Series::dots("", 0, points).with_tips(tips)],
    }
}
