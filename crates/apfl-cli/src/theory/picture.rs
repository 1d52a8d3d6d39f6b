//! The learned α against αᵢ*, against ζᵢ and against the number of examples, as SVG.

use apfl::theory::{ClientTheory, Report};

use super::table::number;

const SIDE: f64 = 260.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 34.0;
const STRIDE: f64 = SIDE + 76.0;

struct Panel {
    title: &'static str,
    /// Whether the axis is logarithmic.
    logarithmic: bool,
    of: fn(&ClientTheory) -> Option<f64>,
}

const PANELS: [Panel; 3] = [
    Panel {
        title: "α* of the bound",
        logarithmic: false,
        of: |c| Some(c.bound?.alpha),
    },
    Panel {
        title: "ζᵢ over visited points",
        logarithmic: true,
        of: |c| Some(c.zeta),
    },
    Panel {
        title: "training examples mᵢ",
        logarithmic: true,
        of: |c| Some(c.examples as f64),
    },
];

/// A self-contained SVG. A panel whose quantity is not defined says so.
pub fn draw(report: &Report) -> String {
    let (width, height) = (LEFT + 3.0 * STRIDE - 40.0, TOP + SIDE + 56.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (k, panel) in PANELS.iter().enumerate() {
        let x = LEFT + k as f64 * STRIDE;
        svg.push_str(&format!("<g transform=\"translate({x},{TOP})\">\n"));
        svg.push_str(&draw_panel(panel, &report.clients));
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_panel(panel: &Panel, clients: &[ClientTheory]) -> String {
    let mut svg = format!(
        "<rect width=\"{SIDE}\" height=\"{SIDE}\" fill=\"none\" stroke=\"#999\"/>\n\
         <text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">{}</text>\n\
         <text transform=\"translate(-36,{middle}) rotate(-90)\" \
         text-anchor=\"middle\">learned α</text>\n",
        panel.title,
        middle = SIDE / 2.0,
        below = SIDE + 40.0,
    );
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        svg.push_str(&format!(
            "<text x=\"-6\" y=\"{}\" text-anchor=\"end\" dominant-baseline=\"middle\">{tick}</text>\n",
            SIDE * (1.0 - tick)
        ));
    }
    let scale = |x: f64| if panel.logarithmic { x.ln() } else { x };
    let points: Vec<(f64, f64, &str)> = clients
        .iter()
        .filter_map(|c| Some(((panel.of)(c)?, c.mixing?, c.client.as_str())))
        .filter(|(x, _, _)| scale(*x).is_finite())
        .collect();
    if points.is_empty() {
        svg.push_str(&format!(
            "<text x=\"{0}\" y=\"{0}\" text-anchor=\"middle\" fill=\"#666\">not defined</text>\n",
            SIDE / 2.0
        ));
        return svg;
    }
    let smallest = points.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let largest = points.iter().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = (scale(smallest), scale(largest));
    let range = if high > low { high - low } else { 1.0 };
    let place = |x: f64| SIDE * (0.03 + 0.94 * (scale(x) - low) / range);
    for (at, anchor) in [(smallest, "start"), (largest, "end")] {
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>\n",
            place(at),
            SIDE + 18.0,
            number(at)
        ));
    }
    for (x, alpha, name) in points {
        svg.push_str(&format!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"#1f77b4\" fill-opacity=\"0.6\">\
             <title>{}: α = {alpha:.3}</title></circle>\n",
            place(x),
            SIDE * (1.0 - alpha),
            escaped(name)
        ));
    }
    svg
}

/// A client's name may hold anything.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_picture() {
        assert_eq!(
            escaped("a<b>&\"c\"\u{1}"),
            "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}"
        );
    }
}
