//! Formats the measurements as text.

use apfl::metrics::Spread;
use apfl_report::table::columns;

use super::{ClientTheory, Report};

/// The most clients to list; of more, evenly spaced ones in the order of ζᵢ.
const MAX_LISTED: usize = 16;

/// Formats the report.
pub fn text(report: &Report) -> String {
    let mut text = totals(report);
    text.push('\n');
    text.push_str(&spreads(report));
    text.push('\n');
    text.push_str(&clients(report));
    if let Some(line) = correlations(report) {
        text.push('\n');
        text.push_str(&line);
    }
    text.push('\n');
    for note in &report.notes {
        text.push_str(&format!("· {note}\n"));
    }
    text
}

/// Formats a number as an integer, with a few digits, or with a power of ten.
pub fn number(x: f64) -> String {
    let size = x.abs();
    match size {
        s if s < 1e5 && s.fract() == 0.0 => format!("{x:.0}"),
        s if !(1e-3..1e5).contains(&s) => format!("{x:.2e}"),
        s if s >= 100.0 => format!("{x:.0}"),
        s if s >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.4}"),
    }
}

fn totals(r: &Report) -> String {
    let s = &r.smoothness;
    let kappa = s.kappa.map_or("not defined".into(), number);
    let mut lines = vec![
        format!(
            "n = {} clients, K = {} per round, {} rounds; {} visited points",
            r.clients_total,
            r.cohort,
            r.rounds,
            r.visited.len()
        ),
        format!("μ = {}   L = {}   κ = {kappa}", number(s.mu), number(s.l)),
        format!("  {}", s.how),
        format!(
            "ζ = {}   Γ = {}   σ² ≤ {} (mean {}; {})",
            number(r.zeta),
            number(r.gamma),
            number(r.sigma2),
            number(r.sigma2_mean),
            r.sigma2_how
        ),
    ];
    if let Some(w) = &r.optimum {
        lines.push(format!(
            "w*: F(w*) = {}, ‖w*‖ = {}, certified within {}; training ended {} above it, \
             ‖w − w*‖² = {}",
            number(w.value),
            number(w.norm),
            number(w.certified_within),
            number(w.shared_gap),
            number(w.shared_distance)
        ));
    }
    if let Some(t) = &r.theorem3 {
        lines.push(format!(
            "Theorem 3 requires αᵢ ≥ {:.9}: met by {} of {}; b = {}, T = {}, τ = {} (advised √(T/K) = {})",
            t.alpha_at_least,
            t.met_by,
            r.clients_total,
            t.b,
            t.steps,
            t.tau,
            number(t.tau_advised)
        ));
    }
    lines.extend(corollary(r));
    if r.optimum.is_some() {
        let c = &r.inputs.constants;
        lines.push(format!(
            "the bound's constants: B = {}, G = {}, C₁ = {}, C₂ = {}, δ = {}, d = {}, R = {}",
            c.b,
            c.g,
            c.c,
            c.c2,
            c.delta,
            c.d.map_or("parameters".into(), number),
            r.r.map_or("–".into(), number)
        ));
        if c.c2 > 2.0 * c.c {
            lines.push(
                "  C₂ > 2C₁: no distribution has such constants, as uniform convergence bounds \
                 L(ĥᵢ*) − L(hᵢ*) by 2C₁√(…) from above and the corollary by C₂√(…) from below"
                    .into(),
            );
        }
        if !r.theorem1_covers_loss {
            lines.push(format!(
                "  Theorem 1 and its corollary are stated for squared hinge and squared error; the \
                 loss here is {}, for which the proof's first step can fail",
                r.loss
            ));
        }
    }
    lines.join("\n") + "\n"
}

/// Formats the corollary against the local minimizer: its conditions, and both sides.
fn corollary(r: &Report) -> Vec<String> {
    let count = |of: fn(&ClientTheory) -> Option<bool>| {
        r.clients.iter().filter(|c| of(c) == Some(true)).count()
    };
    if r.clients.iter().all(|c| c.mixing.is_none()) {
        return Vec::new();
    }
    let mut lines = vec![format!(
        "the corollary against the local minimizer requires αᵢ ≤ min{{√2/2, √(C₂/(4C₁))}} = {:.4}: \
         met by {} of {}; as printed √(C₂/(2C₁)), αᵢ ≤ {:.4}: met by {}",
        r.corollary,
        count(|c| c.below_corollary),
        r.clients_total,
        r.printed_corollary,
        count(|c| c.below_printed_corollary),
    )];
    let sides = r.clients.iter().filter(|c| c.corollary.is_some()).count();
    if sides > 0 {
        lines.push(format!(
            "  L(h_α) − L(ĥᵢ*), on validation examples, is at most its right side at {} of {sides}; the \
             right side is below 0, where it promises a better mixed model, at {} (as printed at {})",
            count(|c| Some(c.corollary?.holds)),
            count(|c| Some(c.corollary?.right < 0.0)),
            count(|c| Some(c.corollary?.right_printed < 0.0)),
        ));
    }
    lines
}

/// A named quantity of a client, if it has one.
type Quantity = (&'static str, fn(&ClientTheory) -> Option<f64>);

const QUANTITIES: [Quantity; 17] = [
    ("examples mᵢ", |c| Some(c.examples as f64)),
    ("α learned", |c| c.learned),
    ("α chosen", |c| c.chosen),
    ("α by line search", |c| c.line_search),
    ("α* of the bound", |c| Some(c.bound?.alpha)),
    ("ζᵢ", |c| Some(c.zeta)),
    ("σᵢ²", |c| Some(c.sigma2)),
    ("label distance", |c| Some(c.label_distance)),
    ("Δᵢ", |c| Some(c.optimum?.delta)),
    ("fᵢ(v̄ᵢ) − fᵢ(vᵢ*)", |c| {
        Some(c.optimum?.personal_gap)
    }),
    ("L(v̄ᵢ) − L(vᵢ*), valid", |c| {
        Some(c.optimum?.validation_gap)
    }),
    ("bound: shared loss", |c| Some(c.bound?.shared_loss)),
    ("bound: local loss", |c| Some(c.bound?.local_loss)),
    ("bound: local complexity", |c| {
        Some(c.bound?.local_complexity)
    }),
    ("bound at α*", |c| Some(c.bound?.at_alpha)),
    ("corollary: right side", |c| Some(c.corollary?.right)),
    ("  as printed", |c| Some(c.corollary?.right_printed)),
];

fn spreads(r: &Report) -> String {
    let mut rows = vec![
        ["over clients", "mean", "min", "q10", "median", "q90", "max"]
            .map(String::from)
            .to_vec(),
    ];
    for (name, of) in QUANTITIES {
        // Clients that chose the shared model have no α; other quantities exist for all or none.
        let values: Vec<f64> = r.clients.iter().filter_map(of).collect();
        if let Some(s) = Spread::of(&values) {
            let mut row = vec![name.to_string()];
            row.extend([s.mean, s.min, s.q10, s.q50, s.q90, s.max].map(number));
            rows.push(row);
        }
    }
    columns(&rows)
}

fn clients(r: &Report) -> String {
    let mut order: Vec<&ClientTheory> = r.clients.iter().collect();
    if order.len() > MAX_LISTED {
        order.sort_by(|a, b| a.zeta.total_cmp(&b.zeta));
        let last = order.len() - 1;
        order = (0..MAX_LISTED)
            .map(|k| order[last * k / (MAX_LISTED - 1)])
            .collect();
    }
    let shown = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10].map(|k| QUANTITIES[k]);
    let present: Vec<Quantity> = shown
        .into_iter()
        .filter(|(_, of)| r.clients.iter().any(|c| of(c).is_some()))
        .collect();
    let mut head = vec!["client".to_string()];
    head.extend(present.iter().map(|(name, _)| name.to_string()));
    let theorem3 = r.theorem3.is_some() && r.clients.iter().any(|c| c.mixing.is_some());
    if theorem3 {
        head.push("Theorem 3".into());
    }
    let mut rows = vec![head];
    for client in &order {
        let mut row = vec![client.client.clone()];
        row.extend(
            present
                .iter()
                .map(|(_, of)| of(client).map_or("–".into(), number)),
        );
        if theorem3 {
            row.push(
                match client.meets_theorem3 {
                    Some(true) => "met",
                    Some(false) => "not met",
                    None => "–",
                }
                .into(),
            );
        }
        rows.push(row);
    }
    let mut text = columns(&rows);
    if order.len() < r.clients.len() {
        text.push_str(&format!(
            "({} of {} clients, in the order of ζᵢ; --json lists all)\n",
            order.len(),
            r.clients.len()
        ));
    }
    text
}

/// Formats the rank correlations of the learned α with the theory's quantities.
fn correlations(r: &Report) -> Option<String> {
    let learned: Vec<f64> = r.clients.iter().map(|c| c.learned).collect::<Option<_>>()?;
    let with = |name: &str, of: fn(&ClientTheory) -> Option<f64>| {
        let other: Vec<f64> = r.clients.iter().map(of).collect::<Option<_>>()?;
        rank_correlation(&learned, &other).map(|rho| format!("{name} {rho:+.2}"))
    };
    let parts: Vec<String> = [
        with("α*", |c| Some(c.bound?.alpha)),
        with("ζᵢ", |c| Some(c.zeta)),
        with("mᵢ", |c| Some(c.examples as f64)),
        with("line search", |c| c.line_search),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "rank correlation of the learned α with: {}\n",
            parts.join(" · ")
        )
    })
}

/// Returns Spearman's rank correlation, with mean ranks for equal values; `None` if one side is
/// constant.
fn rank_correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    let middle = (a.len() as f64 - 1.0) / 2.0;
    let sum = |x: &[f64], y: &[f64]| -> f64 {
        let pairs = x.iter().zip(y);
        pairs.map(|(x, y)| (x - middle) * (y - middle)).sum()
    };
    let scale = (sum(&a, &a) * sum(&b, &b)).sqrt();
    (scale > 0.0).then(|| sum(&a, &b) / scale)
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |x: f64| values.iter().filter(|y| **y < x).count() as f64;
    let equal = |x: f64| values.iter().filter(|y| **y == x).count() as f64;
    values
        .iter()
        .map(|x| below(*x) + (equal(*x) - 1.0) / 2.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_correlate() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
        assert_eq!(
            rank_correlation(&[1.0, 2.0, 9.0], &[0.0, 5.0, 6.0]),
            Some(1.0)
        );
        assert_eq!(
            rank_correlation(&[1.0, 2.0, 9.0], &[3.0, 2.0, 1.0]),
            Some(-1.0)
        );
        assert_eq!(rank_correlation(&[1.0, 1.0], &[3.0, 2.0]), None);
        // Σd² = 2 of 3 ranks: 1 − 6·2/(3·8) = ½.
        assert_eq!(
            rank_correlation(&[1.0, 2.0, 3.0], &[2.0, 1.0, 3.0]),
            Some(0.5)
        );
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 40.0, 1234.5, 1.2345, 0.5, 1e-7, -2e6].map(number);
        assert_eq!(
            shown,
            ["0", "40", "1234", "1.23", "0.5000", "1.00e-7", "-2.00e6"]
        );
    }
}
