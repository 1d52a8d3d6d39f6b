//! Formats the simulated theorems as text.

use apfl_report::table::columns;

use super::{Convergence, bounds_table};
use crate::theory::table::number;

/// Formats every theorem's table.
pub fn text(c: &Convergence) -> String {
    let p = &c.problem;
    let mut text = format!(
        "Algorithm 1 on {} quadratics in ℝ^{} with one Hessian: μ = {}, L = {}, κ = {}, σ² = {}, \
         ζ/n = {}, mean Δᵢ = {}; means over {} seeds\n",
        p.clients,
        p.size,
        p.mu,
        p.l,
        p.kappa,
        p.sigma2,
        number(p.zeta_mean),
        number(p.delta_mean),
        c.effort.seeds
    );
    for setting in &c.strongly_convex {
        text.push_str(&format!(
            "\nTheorems 2 and 3 · {} (K = {}); under each α: the mean of fᵢ(v̂ᵢ) − fᵢ*\n\n",
            setting.name, setting.cohort
        ));
        let mut head = ["T", "τ", "F(ŵ) − F*", "Theorem 2's term"]
            .map(String::from)
            .to_vec();
        let alphas = setting.rows[0].personal.iter().map(|(alpha, _)| *alpha);
        head.extend(alphas.map(|alpha| format!("α = {alpha}")));
        let mut rows = vec![head];
        for row in &setting.rows {
            let mut line = vec![
                row.steps.to_string(),
                row.tau.to_string(),
                number(row.gap),
                number(row.leading),
            ];
            line.extend(row.personal.iter().map(|(_, gap)| number(*gap)));
            rows.push(line);
        }
        let mut line = vec!["slope".to_string(), String::new()];
        line.push(format!("{:.2}", setting.slope));
        line.push("-1".into());
        line.extend(
            setting
                .personal_slopes
                .iter()
                .map(|(_, s)| format!("{s:.2}")),
        );
        rows.push(line);
        if let Some(last) = setting.rows.last() {
            let mut line = vec!["Theorem 3's".to_string(), String::new(), String::new()];
            line.push(format!("terms at T = {}", last.steps));
            line.extend(last.personal_leading.iter().map(|(_, x)| number(*x)));
            rows.push(line);
        }
        text.push_str(&columns(&rows));
    }
    text.push_str(
        "with K < n the slope also depends on τ: a cohort is kept for τ steps, so that its mean gradient, \
         given w, is not ∇F on average; this term, of order τζ/(KμT), is missing in Theorem 2\n",
    );
    text.push_str(&residual(c));
    text.push_str(&lemma(c));
    text.push_str(&bounds_table::deviations(&c.deviations));
    text.push_str(&bounds_table::bounded(&c.bounded));
    text.push_str(&bounds_table::selection(&c.selection));
    text.push_str(&nonconvex(c));
    text
}

/// Formats whether a bound holds.
pub(super) fn verdict(holds: bool) -> String {
    if holds { "PASS" } else { "FAIL" }.into()
}

/// Formats whether a statement holds that the paper prints and that is known to be false.
pub(super) fn verdict_as_printed(holds: bool) -> String {
    if holds { "PASS" } else { "FAIL (as printed)" }.into()
}

fn residual(c: &Convergence) -> String {
    let r = &c.residual;
    let mut rows = vec![
        ["α", "measured, σ = 0", "(1−α)²(ζᵢ/μ + κLΔᵢ)"]
            .map(String::from)
            .to_vec(),
    ];
    for ((alpha, gap), (_, theorem)) in r.gaps.iter().zip(&r.theorem) {
        rows.push(vec![alpha.to_string(), number(*gap), number(*theorem)]);
    }
    format!(
        "\nThe residual · T = {}, τ = {}, no noise\n\n{}\
         it scales with (1−α)^{:.2} (the theorem's law: 2) and with T^{:.2} (at α = 0.9); the theorem's \
         residual is a constant that is not reached\n",
        r.steps,
        r.tau,
        columns(&rows),
        r.exponent,
        r.slope_in_steps
    )
}

fn lemma(c: &Convergence) -> String {
    let mut rows = vec![
        [
            "T",
            "τ",
            "measured",
            "corrected bound",
            "verdict",
            "as printed",
        ]
        .map(String::from)
        .to_vec(),
    ];
    for l in &c.lemma {
        rows.push(vec![
            l.steps.to_string(),
            l.tau.to_string(),
            number(l.measured),
            number(l.bound),
            verdict(l.measured <= l.bound),
            number(l.printed),
        ]);
    }
    format!(
        "\nThe lemma on E‖w⁽ᵀ⁺¹⁾ − w*‖², with the constants of its own proof\n\n{}",
        columns(&rows)
    )
}

fn nonconvex(c: &Convergence) -> String {
    let n = &c.nonconvex;
    let mut head = ["T", "τ", "mean ‖∇F(w)‖²", "Theorem 5's term"]
        .map(String::from)
        .to_vec();
    head.extend(n.residual.iter().map(|(alpha, _)| format!("α = {alpha}")));
    let mut rows = vec![head];
    for row in &n.rows {
        let mut line = vec![
            row.steps.to_string(),
            row.tau.to_string(),
            number(row.gradient),
            number(row.leading),
        ];
        line.extend(row.personal.iter().map(|(_, x)| number(*x)));
        rows.push(line);
    }
    let mut line = vec![
        "slope".to_string(),
        String::new(),
        format!("{:.2}", n.slope),
        "-0.5".into(),
    ];
    line.extend(n.personal_slopes.iter().map(|(_, s)| format!("{s:.2}")));
    rows.push(line);
    let mut line = vec![String::new(); 4];
    line[0] = "(1−α²)²(ζᵢ+Γ)".into();
    line.extend(n.residual.iter().map(|(_, x)| number(*x)));
    rows.push(line);
    format!(
        "\nTheorems 5 and 6 · network {} at {} clients, L ≈ {} (estimated), η = 1/(2√5·L·√T), \
         τ = (T/n)^¼; under each α: the mean of ‖∇fᵢ(v̂ᵢ)‖²\n\n{}",
        n.network,
        n.clients,
        number(n.l),
        columns(&rows)
    )
}
