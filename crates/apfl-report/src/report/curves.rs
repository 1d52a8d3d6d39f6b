//! The sections on rounds: scores, α, time and traffic.

use apfl::metrics::{Score, Scores, Spread};
use apfl::training::RoundRecord;

use super::html::{charts, heading, remark};
use super::read::Run;
use super::scores::{MODELS, Model, measure, measure_name};
use crate::chart::{Axis, Chart, GREY, Series};
use crate::format::{bytes, counted, duration};

/// Draws loss and measure of the three models on training and validation examples.
pub fn curves(run: &Run) -> String {
    let evaluated = run.rounds.iter().filter(|r| r.scores.is_some()).count();
    let mut html = heading("Over the rounds");
    if evaluated == 0 {
        return html + &remark("No round has been evaluated.");
    }
    html.push_str(&remark(
        "Pooled over the examples of each round's cohort. Shared: the server's model after the \
         round. Localized: each client's copy of it after its local steps. Personal: the model \
         that serves the client.",
    ));
    let what = measure_name(run);
    let panel = |title: String, axis: Axis, pick: &dyn Fn(&Scores) -> Option<f64>| Chart {
        title,
        x: Axis::new("round"),
        y: axis,
        series: (MODELS.iter().map(|model| line(run, model, pick))).collect(),
    };
    let mut four = Vec::new();
    for (name, split) in [
        ("training", (|s: &Scores| s.train) as fn(&Scores) -> Score),
        ("validation", |s: &Scores| s.valid),
    ] {
        let loss = panel(format!("{name} loss"), Axis::new("loss"), &|s| {
            Some(split(s).loss)
        });
        four.push(logarithmic_where_wide(loss));
        four.push(panel(format!("{name} {what}"), measure_axis(what), &|s| {
            measure(&split(s))
        }));
    }
    align_scales(&mut four);
    html + &charts(&four)
}

/// Creates an axis for accuracy, or for the error of a regression.
pub fn measure_axis(what: &str) -> Axis {
    match what {
        "accuracy" => Axis::percent(what),
        _ => Axis::new(what),
    }
}

/// Draws one model's curve. If personal equals localized (FedAvg, SCAFFOLD), it is dashed, so that
/// both are visible.
fn line(run: &Run, model: &Model, pick: &dyn Fn(&Scores) -> Option<f64>) -> Series {
    let of = |model: &Model| points(&run.rounds, |r| pick(&(model.of)(r.scores.as_ref()?)));
    let own = of(model);
    let hidden = model.name == "personal" && own == of(&MODELS[1]);
    let series = Series::line(model.name, model.colour, own);
    if hidden { series.dashed() } else { series }
}

/// Returns (round, value) of the rounds that have a value.
pub fn points(
    rounds: &[RoundRecord],
    pick: impl Fn(&RoundRecord) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let each = rounds.iter();
    each.filter_map(|r| Some((r.round as f64, pick(r)?)))
        .collect()
}

/// Makes the y axis logarithmic if the values span two decades or more.
pub fn logarithmic_where_wide(mut chart: Chart) -> Chart {
    let heights = || chart.series.iter().flat_map(|s| &s.points).map(|p| p.1);
    let (low, high) = heights().fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
    chart.y.log = low > 0.0 && high > 100.0 * low;
    chart
}

/// Gives training and validation the same scale, so that they can be compared.
fn align_scales(four: &mut [Chart]) {
    for k in [0, 1] {
        let pair = [&four[k], &four[k + 2]];
        let heights = pair.iter().flat_map(|c| &c.series).flat_map(|s| &s.points);
        let heights = heights.map(|p| p.1).filter(|h| h.abs() < 1e300);
        let (low, high) = heights.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
            (a.min(v), b.max(v))
        });
        let log = pair.iter().any(|c| c.y.log);
        if low >= high || (log && low <= 0.0) {
            continue;
        }
        let pad = 0.05 * (high - low);
        let (low, high) = if log {
            (low / 1.2, high * 1.2)
        } else {
            ((low - pad).max(low.min(0.0)), high + pad)
        };
        for n in [k, k + 2] {
            let axis = &mut four[n].y;
            axis.log = log;
            let most = if axis.percent { high.min(1.0) } else { high };
            axis.range = Some((low, most));
        }
    }
}

/// Draws α over the rounds and over the clients at the end.
pub fn mixing(run: &Run) -> String {
    let spread = |pick: fn(&Spread) -> f64| points(&run.rounds, |r| r.mixing.as_ref().map(pick));
    let median = spread(|m| m.q50);
    let alphas: Vec<f64> = run.clients.iter().filter_map(|c| c.alpha()).collect();
    if median.is_empty() && alphas.is_empty() {
        return String::new();
    }
    let decile = spread(|m| m.q10).into_iter().zip(spread(|m| m.q90));
    let band = decile.map(|(low, high)| (low.1, high.1)).collect();
    let mut shown = vec![Chart {
        title: "α of the round's cohort".into(),
        x: Axis::new("round"),
        y: Axis::new("α"),
        series: vec![
            Series::line("smallest, largest", GREY, spread(|m| m.min)).dashed(),
            Series::line("smallest, largest", GREY, spread(|m| m.max)).dashed(),
            Series::line("median and middle 80%", 0, median).with_band(band),
            Series::line("mean", 1, spread(|m| m.mean)),
        ],
    }];
    if !alphas.is_empty() {
        shown.push(histogram(&alphas));
    }
    heading("Mixing α")
        + &remark(
            "A client's personal model is α times its own model plus 1 − α times its copy of the \
             shared one: 0 is the localized model, 1 is training alone.",
        )
        + &charts(&shown)
}

const BINS: usize = 20;

fn histogram(alphas: &[f64]) -> Chart {
    let mut counts = [0_usize; BINS];
    for alpha in alphas {
        counts[((alpha * BINS as f64) as usize).min(BINS - 1)] += 1;
    }
    let wide = 1.0 / BINS as f64;
    let (mut points, mut tips) = (Vec::new(), Vec::new());
    for (k, count) in counts.into_iter().enumerate() {
        let low = k as f64 * wide;
        points.push((low + wide / 2.0, count as f64));
        tips.push(format!(
            "α from {low:.2} to {:.2}: {}",
            low + wide,
            counted(count, "client")
        ));
    }
    Chart {
        title: "α of the clients at the end".into(),
        x: Axis::new("α"),
        y: Axis::new("clients"),
        series: vec![Series::bars("", 0, points).with_tips(tips)],
    }
}

/// Draws time and bytes of each round.
pub fn costs(run: &Run) -> String {
    if run.rounds.is_empty() {
        return String::new();
    }
    let seconds = points(&run.rounds, |r| Some(r.seconds));
    let longest = seconds.iter().map(|p| p.1).fold(0.0, f64::max);
    let (factor, unit) = if longest < 1.0 {
        (1e3, "ms")
    } else {
        (1.0, "s")
    };
    let up: u64 = total(run, |r| r.bytes_up);
    let down: u64 = total(run, |r| r.bytes_down);
    let each = run.rounds.iter().map(|r| r.bytes_up.max(r.bytes_down));
    let most = each.max().unwrap_or(0);
    let (size, name) = match most {
        0..10_000 => (1.0, "B"),
        10_000..10_000_000 => (1e3, "kB"),
        10_000_000..10_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    let sent =
        |pick: fn(&RoundRecord) -> u64| points(&run.rounds, move |r| Some(pick(r) as f64 / size));
    let tips = |points: &[(f64, f64)], format: &dyn Fn(f64) -> String| {
        points.iter().map(|p| format(p.1)).collect()
    };
    let time: Vec<(f64, f64)> = seconds.iter().map(|p| (p.0, factor * p.1)).collect();
    let time_tips = tips(&seconds, &duration);
    let (ups, downs) = (sent(|r| r.bytes_up), sent(|r| r.bytes_down));
    let up_tips = tips(&ups, &|b| format!("up {}", bytes(size * b)));
    let down_tips = tips(&downs, &|b| format!("down {}", bytes(size * b)));
    let shown = [
        Chart {
            title: "time per round".into(),
            x: Axis::new("round"),
            y: from_zero(unit, longest * factor),
            series: vec![Series::line("", 3, time).with_tips(time_tips)],
        },
        Chart {
            title: "bytes per round".into(),
            x: Axis::new("round"),
            y: from_zero(name, most as f64 / size),
            series: vec![
                Series::line("down, to the clients", 5, downs).with_tips(down_tips),
                Series::line("up, to the server", 4, ups)
                    .dashed()
                    .with_tips(up_tips),
            ],
        },
    ];
    let spent: f64 = run.rounds.iter().map(|r| r.seconds).sum();
    heading("Time and traffic")
        + &remark(&format!(
            "{} in {}; {} up and {} down in all.{}",
            counted(run.rounds.len(), "round"),
            duration(spent),
            bytes(up as f64),
            bytes(down as f64),
            passes(run)
        ))
        + &charts(&shown)
}

/// Describes the passes that chose α, whose rounds are not shown.
fn passes(run: &Run) -> String {
    let mixing = run.spec.get("algorithm").and_then(|a| a.get("mixing"));
    let number = |key| mixing?.get(key)?.as_integer();
    let refit = mixing.and_then(|m| m.get("refit")?.as_bool());
    match number("folds") {
        Some(folds) if number("pass").is_none() && refit != Some(false) => format!(
            " To choose α, {folds} {} of as many rounds ran before, with rows held out; these runs \
             are in choice/.",
            if folds == 1 { "pass" } else { "passes" }
        ),
        _ => String::new(),
    }
}

/// Creates an axis from 0 to slightly above the maximum.
fn from_zero(label: &str, most: f64) -> Axis {
    Axis::new(label).within(0.0, 1.08 * most)
}

fn total(run: &Run, pick: fn(&RoundRecord) -> u64) -> u64 {
    let each = run.rounds.iter().map(pick);
    each.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_every_client_once() {
        // 0 is in the first of 20 bins, 1 in the last, 0.05 in the second.
        let chart = histogram(&[0.0, 0.01, 0.05, 1.0, 1.0, 1.0]);
        let heights: Vec<f64> = chart.series[0].points.iter().map(|p| p.1).collect();
        assert_eq!((heights[0], heights[1], heights[19]), (2.0, 1.0, 3.0));
        assert_eq!(heights.iter().sum::<f64>(), 6.0);
        assert_eq!(chart.series[0].tips[19], "α from 0.95 to 1.00: 3 clients");
    }
}
