//! HTML elements of the page.

use crate::chart::{Chart, escaped};

/// Represents a cell of a table.
pub struct Cell {
    html: String,
    /// The tooltip.
    tip: Option<String>,
}

/// Creates a cell with text.
pub fn text_cell(text: impl AsRef<str>) -> Cell {
    Cell {
        html: escaped(text.as_ref()),
        tip: None,
    }
}

/// Creates a cell with a share in percent, and all digits in the tooltip.
pub fn percent_cell(value: Option<f64>) -> Cell {
    exact(value, |v| format!("{:.2}%", 100.0 * v))
}

/// Creates a cell with a number, and all digits in the tooltip.
pub fn number_cell(value: Option<f64>) -> Cell {
    exact(value, |v| format!("{v:.4}"))
}

/// Creates a cell with a number, or a dash where there is none or it is not finite.
fn exact(value: Option<f64>, format: impl Fn(f64) -> String) -> Cell {
    match value.filter(|value| value.is_finite()) {
        None => text_cell("–"),
        Some(value) => Cell {
            html: format(value),
            tip: Some(value.to_string()),
        },
    }
}

/// Creates a cell with a link to another part of the page.
pub fn link_cell(text: &str, to: &str) -> Cell {
    Cell {
        html: format!("<a href=\"#{}\">{}</a>", escaped(to), escaped(text)),
        tip: None,
    }
}

/// Creates a table that scrolls on a narrow page.
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

/// Places charts side by side, or below each other on a narrow page.
pub fn charts(charts: &[Chart]) -> String {
    let svgs = charts.iter().map(Chart::svg);
    let figures = svgs.map(|svg| format!("<figure>{svg}</figure>\n"));
    // Four charts are placed two by two instead of three and one.
    let four = if charts.len() == 4 { " four" } else { "" };
    let figures: String = figures.collect();
    format!("<div class=\"charts{four}\">{figures}</div>\n")
}

/// Creates a heading.
pub fn heading(text: &str) -> String {
    format!("<h3>{}</h3>\n", escaped(text))
}

/// Creates a remark.
pub fn remark(text: &str) -> String {
    format!("<p class=\"remark\">{}</p>\n", escaped(text))
}

/// Creates a collapsed text.
pub fn collapsed(title: &str, text: &str) -> String {
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
        let row = vec![
            text_cell("<b>&"),
            percent_cell(Some(0.90123)),
            number_cell(None),
        ];
        let html = table(&["a\"<".to_string()], vec![row]);
        assert!(html.contains("<th>a&quot;&lt;</th>"), "{html}");
        assert!(html.contains("<td>&lt;b&gt;&amp;</td>"), "{html}");
        assert!(html.contains("<td title=\"0.90123\">90.12%</td>"), "{html}");
        assert!(html.contains("<td>–</td>"), "{html}");
    }
}
