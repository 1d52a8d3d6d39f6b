//! The section on whether joining was worth it.

use std::collections::HashMap;
use std::path::Path;

use apfl::advise::{Advice, Verdict};

use super::html::{charts, heading, remark};
use super::read::Run;
use crate::advise::{INTERVALS, VERDICTS, measured_on, total, verdict_name};
use crate::chart::{Axis, Chart, GREY, Series};

/// The most dots in the chart; of more clients, evenly spaced ones are drawn.
const MAX_DOTS: usize = 2000;

/// Draws the gain of every client over its training rows; empty if no client trained alone.
pub fn advice(run: &Run) -> String {
    let Some(summary) = &run.summary else {
        return String::new();
    };
    let Ok(advice) = Advice::of(Path::new(""), summary, &run.clients) else {
        return String::new();
    };
    let each = run.clients.iter();
    let rows: HashMap<&str, usize> = each
        .map(|client| (client.client.as_str(), client.examples.train))
        .collect();
    let rows = |name: &str| rows.get(name).copied().unwrap_or(0) as f64;
    let stride = advice.clients.len().div_ceil(MAX_DOTS).max(1);
    // Decided verdicts are drawn on top.
    let kinds = [
        (Verdict::Undecided, GREY),
        (Verdict::Helps, 0),
        (Verdict::Harms, 1),
    ];
    let dots = kinds.map(|(verdict, colour)| {
        let (mut points, mut tips) = (Vec::new(), Vec::new());
        let clients = advice.clients.iter().step_by(stride);
        for client in clients.filter(|client| client.verdict == verdict) {
            let Some(gain) = client.gain else {
                continue;
            };
            points.push((rows(&client.client), gain));
            let interval = client.interval.map_or(String::new(), |[low, high]| {
                format!("\n95%: {low:+.4} to {high:+.4}")
            });
            tips.push(format!(
                "{}: gain {gain:+.4}{interval}\nα {}, serve {}",
                client.client,
                client.alpha.name(),
                client.serve
            ));
        }
        Series::dots(verdict_name(verdict), colour, points).with_tips(tips)
    });
    let dots = dots.into_iter().filter(|dots| !dots.points.is_empty());
    let dots: Vec<Series> = dots.collect();
    let all = || {
        dots.iter()
            .flat_map(|dots| &dots.points)
            .map(|point| point.0)
    };
    let (mut least, mut most) = (
        all().fold(f64::INFINITY, f64::min),
        all().fold(0.0, f64::max),
    );
    let mut x = Axis::log("training rows");
    if least == most {
        (least, most) = (least / 2.0, 2.0 * most);
        x = x.within(least, most);
    }
    let zero = Series::line("no gain", GREY, vec![(least, 0.0), (most, 0.0)]).dashed();
    let chart = Chart {
        title: "gain from joining".into(),
        x,
        y: Axis::new("loss of the baseline − loss of the serving model"),
        series: std::iter::once(zero).chain(dots).collect(),
    };
    heading("Is joining worth it?")
        + &remark(&format!(
            "Each dot is a client, on {}: {}. {VERDICTS} {INTERVALS}",
            measured_on(advice.part),
            total(&advice)
        ))
        + &charts(&[chart])
}
