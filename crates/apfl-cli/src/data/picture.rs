//! Draws the assignment of data to clients as an SVG: per client a bar of its examples, coloured
//! by class, and its label divergence.

use std::fmt::Write;

use super::inspect::Distribution;

/// The most bars; of more clients, evenly spaced ones are drawn.
const MAX_BARS: usize = 400;

const BAR_WIDTH: f64 = 560.0;
const LEFT: f64 = 110.0;
const TOP: f64 = 64.0;
const DIVERGENCE: f64 = 110.0;

/// Draws the picture.
pub fn svg(distribution: &Distribution) -> String {
    let step = distribution.clients.len().div_ceil(MAX_BARS).max(1);
    let shown: Vec<_> = distribution.clients.iter().step_by(step).collect();
    let height = (900.0 / shown.len() as f64).clamp(2.0, 16.0);
    let size = |k: usize| (shown[k].train + shown[k].valid) as f64;
    let most = (0..shown.len()).map(size).fold(1.0, f64::max);
    let bottom = TOP + height * shown.len() as f64;
    let right = LEFT + BAR_WIDTH + 30.0;
    let (total_width, total_height) = (right + DIVERGENCE + 20.0, bottom + 58.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total_width} {total_height:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{} clients, {} examples{}</text>\n",
        distribution.clients.len(),
        distribution
            .clients
            .iter()
            .map(|c| c.train + c.valid)
            .sum::<usize>(),
        match step {
            1 => String::new(),
            step => format!("; every {step}th client is shown"),
        }
    );
    legend(&mut out, distribution);
    for (k, client) in shown.iter().enumerate() {
        let y = TOP + k as f64 * height;
        let thick = (height * 0.85).max(1.5);
        if height >= 9.0 {
            put(
                &mut out,
                format!(
                    "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    LEFT - 6.0,
                    y + 0.5 * thick + 4.0,
                    escaped(&client.client)
                ),
            );
        }
        let mut x = LEFT;
        let whole = [size(k) as u64];
        let counts: &[u64] = if client.classes.is_empty() {
            &whole
        } else {
            &client.classes
        };
        for (class, count) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let width = *count as f64 / most * BAR_WIDTH;
            put(
                &mut out,
                format!(
                    "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{thick:.2}\" \
                     fill=\"{}\"><title>{}: {} {count}</title></rect>",
                    colour(class, counts.len()),
                    escaped(&client.client),
                    distribution
                        .classes
                        .get(class)
                        .map_or(String::new(), |c| escaped(c)),
                ),
            );
            x += width;
        }
        if let Some(divergence) = client.divergence {
            put(
                &mut out,
                format!(
                    "<circle cx=\"{:.2}\" cy=\"{:.2}\" r=\"{:.1}\" fill=\"#333\"/>",
                    right + divergence / 2.0 * DIVERGENCE,
                    y + 0.5 * thick,
                    (0.3 * height).clamp(1.0, 3.0)
                ),
            );
        }
    }
    axis(
        &mut out,
        LEFT,
        BAR_WIDTH,
        bottom,
        &format!("{most:.0}"),
        "examples",
    );
    if !distribution.classes.is_empty() {
        axis(
            &mut out,
            right,
            DIVERGENCE,
            bottom,
            "2",
            "label divergence ‖pᵢ − p‖₁",
        );
    }
    out.push_str("</svg>\n");
    out
}

fn put(out: &mut String, line: String) {
    writeln!(out, "{line}").expect("writing to memory");
}

fn axis(out: &mut String, left: f64, width: f64, y: f64, last: &str, name: &str) {
    let (line, text, below) = (y + 6.0, y + 20.0, y + 38.0);
    put(
        out,
        format!(
            "<path d=\"M{left:.1} {line:.1}h{width:.1}\" stroke=\"#333\"/>\
             <text x=\"{left:.1}\" y=\"{text:.1}\">0</text>\
             <text x=\"{:.1}\" y=\"{text:.1}\" text-anchor=\"end\">{last}</text>\
             <text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{name}</text>",
            left + width,
            left + width / 2.0
        ),
    );
}

fn legend(out: &mut String, distribution: &Distribution) {
    if distribution.classes.len() > 12 {
        return;
    }
    let room = BAR_WIDTH / distribution.classes.len().max(1) as f64;
    for (class, name) in distribution.classes.iter().enumerate() {
        let x = LEFT + class as f64 * room;
        let name: String = name.chars().take((room / 7.0) as usize).collect();
        put(
            out,
            format!(
                "<rect x=\"{x:.1}\" y=\"36\" width=\"10\" height=\"10\" fill=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"45\">{}</text>",
                colour(class, distribution.classes.len()),
                x + 14.0,
                escaped(&name)
            ),
        );
    }
}

/// Returns a class's colour: hues around the circle, alternately lighter and darker.
fn colour(class: usize, of: usize) -> String {
    let hue = 6.0 * class as f64 / of.max(1) as f64 + 3.5;
    let light = [0.48, 0.66][class % 2];
    let chroma = 0.62 * (1.0 - (2.0 * light - 1.0_f64).abs());
    // Red, green and blue are a third of the circle apart.
    let channel = |at: f64| {
        let distance = (hue - at).rem_euclid(6.0);
        let distance = distance.min(6.0 - distance);
        let share = (2.0 - distance).clamp(0.0, 1.0);
        (255.0 * (light + chroma * (share - 0.5))).round() as u8
    };
    format!(
        "#{:02x}{:02x}{:02x}",
        channel(0.0),
        channel(2.0),
        channel(4.0)
    )
}

fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '&' => "&amp;".into(),
            '<' => "&lt;".into(),
            '>' => "&gt;".into(),
            '"' => "&quot;".into(),
            c if c.is_control() => " ".into(),
            c => c.to_string(),
        })
        .collect()
}
