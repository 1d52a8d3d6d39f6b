//! Pieces of a page.

use crate::chart::{Chart, escaped};

/// A cell of a table.
pub struct Cell {
    html: String,
    /// What is told when the pointer is on it.
    tip: Option<String>,
}

/// A cell with words.
pub fn words(text: impl AsRef<str>) -> Cell {
    Cell {
        html: escaped(text.as_ref()),
        tip: None,
    }
}

/// A cell with a share in percent; all its digits are told under the pointer.
pub fn share(value: Option<f64>) -> Cell {
    exact(value, |v| format!("{:.2}%", 100.0 * v))
}

/// A cell with a number; all its digits are told under the pointer.
pub fn figure(value: Option<f64>) -> Cell {
    exact(value, |v| format!("{v:.4}"))
}

fn exact(value: Option<f64>, form: impl Fn(f64) -> String) -> Cell {
    match value {
        None => words("–"),
        Some(value) => Cell {
            html: form(value),
            tip: Some(value.to_string()),
        },
    }
}

/// A cell that leads to another part of the page.
pub fn link(text: &str, to: &str) -> Cell {
    Cell {
        html: format!("<a href=\"#{}\">{}</a>", escaped(to), escaped(text)),
        tip: None,
    }
}

/// A table that scrolls by itself where the page is narrow.
pub fn table(head: &[String], rows: Vec<Vec<Cell>>) -> String {
    let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
    for name in head {
        html.push_str(&format!("<th>{}</th>", escaped(name)));
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for cell in row {
            let tip = cell.tip.map(|t| format!(" title=\"{}\"", escaped(&t)));
            html.push_str(&format!(
                "<td{}>{}</td>",
                tip.unwrap_or_default(),
                cell.html
            ));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

/// Charts side by side, or below each other where the page is narrow.
pub fn charts(charts: &[Chart]) -> String {
    let sampled = charts.iter().map(Chart::svg);
    let figures = sampled.map(|svg| format!("<figure>{svg}</figure>\n"));
    // Three beside each other and one below would look forgotten.
    let four = if charts.len() == 4 { " four" } else { "" };
    let figures: String = figures.collect();
    format!("<div class=\"charts{four}\">{figures}</div>\n")
}

/// A heading.
pub fn heading(text: &str) -> String {
    format!("<h3>{}</h3>\n", escaped(text))
}

/// A remark.
pub fn remark(text: &str) -> String {
    format!("<p class=\"remark\">{}</p>\n", escaped(text))
}

/// Something long that opens on demand.
pub fn folded(title: &str, text: &str) -> String {
    format!(
        "<details><summary>{}</summary><pre>{}</pre></details>\n",
        escaped(title),
        escaped(text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_hold_every_digit_and_no_markup() {
        let row = vec![words("<b>&"), share(Some(0.90123)), figure(None)];
        let html = table(&["a\"<".to_string()], vec![row]);
        assert!(html.contains("<th>a&quot;&lt;</th>"), "{html}");
        assert!(html.contains("<td>&lt;b&gt;&amp;</td>"), "{html}");
        assert!(html.contains("<td title=\"0.90123\">90.12%</td>"), "{html}");
        assert!(html.contains("<td>–</td>"), "{html}");
    }
}
