//! The section on the cost of privacy.

use super::curves::points;
use super::html::{charts, heading, remark};
use super::read::Run;
use crate::chart::{Axis, Chart, Series};
use crate::format::describe_privacy;

/// Draws ε over the rounds; empty for runs without privacy.
pub fn privacy(run: &Run) -> String {
    let spent = run.summary.as_ref().and_then(|s| s.privacy.as_ref());
    let epsilon = points(&run.rounds, |r| r.epsilon);
    if spent.is_none() && epsilon.is_empty() {
        return String::new();
    }
    let mut html = heading("Privacy");
    if let Some(spent) = spent {
        html += &remark(&describe_privacy(spent));
    }
    if epsilon.is_empty() {
        return html;
    }
    let tips = epsilon.iter().map(|p| format!("ε = {:.4}", p.1)).collect();
    let most = epsilon.iter().map(|p| p.1).fold(0.0, f64::max);
    html + &charts(&[Chart {
        title: "ε so far".into(),
        x: Axis::new("round"),
        y: Axis::new("ε").within(0.0, 1.08 * most),
        series: vec![Series::line("", 0, epsilon).with_tips(tips)],
    }])
}
