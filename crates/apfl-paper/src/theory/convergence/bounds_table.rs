//! Formats the comparisons of simulations with bounds as text.

use apfl_report::table::columns;

use super::bounded::{Bounded, young_weight};
use super::deviation::Comparison;
use super::selection::Selection;
use super::table::{verdict, verdict_as_printed};
use crate::theory::table::number;

/// Returns a line of a table.
fn line<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(String::from).to_vec()
}

/// Formats the lemmas on the gradient gap and on deviations.
pub fn deviations(comparisons: &[Comparison]) -> String {
    let mut rows = vec![line([
        "lemma", "K", "τ", "α", "at t", "measured", "bound", "verdict",
    ])];
    for c in comparisons {
        rows.push(vec![
            c.statement.name().into(),
            c.cohort.to_string(),
            c.tau.to_string(),
            c.alpha.map_or("–".into(), |alpha| alpha.to_string()),
            c.step.to_string(),
            number(c.measured),
            number(c.bound),
            if c.statement.is_misprint() {
                verdict_as_printed(c.holds)
            } else {
                verdict(c.holds)
            },
        ]);
    }
    let mut text = format!(
        "\nThe lemmas on the gradient gap and on deviations · every step and client up to T = {}; \
         shown is the step with the largest measured/bound\n\n{}\
         with K < n one client is at the mean of all (ζᵢ = Δᵢ = 0)\n",
        comparisons.first().map_or(0, |c| c.steps),
        columns(&rows)
    );
    if comparisons
        .iter()
        .any(|c| c.statement.is_misprint() && !c.holds)
    {
        text.push_str(
            "where it says FAIL, 6ζᵢ is not enough: the lemma has 6(2ζᵢ + 2ζ/K), of which Theorem \
             3's residual drops ζ/K\n",
        );
    }
    text
}

/// Formats Theorem 4.
pub fn bounded(bounded: &Bounded) -> String {
    let Some(last) = bounded.rows.last() else {
        return String::new();
    };
    let mut head = line(["T", "τ"]);
    head.extend(last.cells.iter().map(|c| format!("α = {}", c.alpha)));
    let mut rows = vec![head];
    for row in &bounded.rows {
        let mut cells = vec![row.steps.to_string(), row.tau.to_string()];
        cells.extend(row.cells.iter().map(|c| number(c.measured)));
        rows.push(cells);
    }
    let mut foot = |name: &str, cell: &dyn Fn(usize) -> String| {
        let mut cells = line([name, ""]);
        cells.extend((0..last.cells.len()).map(cell));
        rows.push(cells);
    };
    foot("bound", &|j| number(last.cells[j].bound));
    foot("at every T", &|j| {
        verdict(bounded.rows.iter().all(|row| row.cells[j].holds))
    });
    foot("as printed", &|j| {
        last.cells[j].printed.map_or("undefined".into(), number)
    });
    foot("1−8(α−α²)", &|j| {
        format!("{:.4}", young_weight(last.cells[j].alpha, 1.0))
    });
    format!(
        "\nTheorem 4 · all clients, η = 8/(μ(t+a)), a = max(64κ, τ), τ = √(T/n), G = {} on the \
         paths; under each α: the mean of fᵢ(v̂ᵢ) − fᵢ*\n\n{}\
         the bounds are at T = {}; the printed proof divides by 1 − 8(α − α²K/n)\n",
        number(bounded.gradient),
        columns(&rows),
        last.steps
    )
}

/// Formats Theorem 3 with few clients.
pub fn selection(selection: &Selection) -> String {
    let mut rows = vec![line([
        "T",
        "η = 16/(μ(t+a))",
        "Theorem 3's bound",
        "verdict",
        "η = 16/(bμ(t+a))",
        "bound",
        "verdict",
    ])];
    for row in &selection.rows {
        let (printed, repaired) = (row.printed, row.repaired);
        rows.push(vec![
            row.steps.to_string(),
            number(printed.measured),
            number(printed.bound),
            verdict_as_printed(printed.holds),
            number(repaired.measured),
            number(repaired.bound),
            verdict(repaired.holds),
        ]);
    }
    format!(
        "\nTheorem 3 at α = 1 · K = 1 of {} clients, τ = 1, κ = 1, no noise; the mean of \
         fᵢ(v̂ᵢ) − fᵢ*\n\n{}\
         a client takes part in one of n/K steps on average, so that the printed step size is too small \
         by the factor b = min(K/n, ½)\n",
        selection.clients,
        columns(&rows)
    )
}

#[cfg(test)]
mod tests {
    use crate::theory::convergence::{Effort, growing, selection};

    /// docs/theory.md has the digits that the code gives. `scripts/theory.py --check` compares the
    /// whole page.
    #[test]
    fn the_page_has_the_table_with_few_clients() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/theory.md");
        let page = std::fs::read_to_string(page).unwrap();
        let effort = Effort::default();
        let table = super::selection(&selection::check(&growing(effort.longest), &effort));
        let differs = "docs/theory.md differs from the code; run scripts/theory.py";
        for line in table.lines() {
            assert!(page.contains(line.trim_end()), "{differs}: {line}");
        }
    }
}
