//! The section on the clients' classes: one column per client, one row per class.

use apfl::run::run_dir::ClientRecord;

use super::html::{heading, remark};
use super::read::Run;
use crate::chart::{escaped, shortened};

/// The most clients; of more, evenly spaced ones in the order of their commonest classes.
const MAX_COLUMNS: usize = 150;

/// The most classes; of more, the commonest.
const MAX_ROWS: usize = 40;

const LEFT: f64 = 90.0;
const WIDTH: f64 = 1080.0;

/// Draws the picture; empty if there are no classes.
pub fn mix(run: &Run) -> String {
    let count = run.clients.iter().map(|c| c.classes.len()).max();
    let count = count.unwrap_or(0);
    if count == 0 {
        return String::new();
    }
    let mut totals: Vec<(usize, u64)> = (0..count)
        .map(|class| {
            let each = run.clients.iter().filter_map(|c| c.classes.get(class));
            (class, each.fold(0_u64, |sum, n| sum.saturating_add(*n)))
        })
        .collect();
    totals.sort_by_key(|(class, n)| (std::cmp::Reverse(*n), *class));
    totals.truncate(MAX_ROWS);
    let mut rows: Vec<usize> = totals.into_iter().map(|(class, _)| class).collect();
    rows.sort_unstable();
    let mut order: Vec<&ClientRecord> = run.clients.iter().collect();
    // Stable: clients with one commonest class keep their order.
    order.sort_by_key(|c| commonest(c));
    let stride = order.len().div_ceil(MAX_COLUMNS).max(1);
    let shown: Vec<&ClientRecord> = order.into_iter().step_by(stride).collect();
    let mut text = String::from(
        "One column per client, one row per class: the stronger the colour, the larger the class's \
         share of the client's training examples. Clients are sorted by their commonest class.",
    );
    if stride > 1 {
        text.push_str(&format!(" Every {stride}th client is shown."));
    }
    if count > rows.len() {
        text.push_str(&format!(
            " The {} commonest of {count} classes are shown.",
            rows.len()
        ));
    }
    heading("Class mix") + &remark(&text) + &picture(run, &rows, &shown)
}

fn commonest(client: &ClientRecord) -> usize {
    let each = client.classes.iter().enumerate();
    let most = each.max_by_key(|(class, n)| (**n, std::cmp::Reverse(*class)));
    most.map_or(0, |(class, _)| class)
}

fn picture(run: &Run, rows: &[usize], clients: &[&ClientRecord]) -> String {
    let tall = 16.0;
    let wide = ((WIDTH - LEFT) / clients.len() as f64).min(24.0);
    let height = tall * rows.len() as f64 + 24.0;
    let mut svg = format!(
        "<figure class=\"wide\"><svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\">\n"
    );
    let name = |class: usize| match run.classes.get(class) {
        Some(name) => name.clone(),
        None => format!("class {class}"),
    };
    for (k, class) in rows.iter().enumerate() {
        svg.push_str(&format!(
            "<text class=\"k-tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 6.0,
            tall * (k as f64 + 0.72),
            escaped(&shortened(&name(*class), 13))
        ));
    }
    svg.push_str("<g class=\"k-f0\">\n");
    for (column, client) in clients.iter().enumerate() {
        let all = client
            .classes
            .iter()
            .fold(0_u64, |sum, n| sum.saturating_add(*n));
        for (k, class) in rows.iter().enumerate() {
            let n = client.classes.get(*class).copied().unwrap_or(0);
            if n == 0 {
                continue;
            }
            let share = n as f64 / all as f64;
            svg.push_str(&format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill-opacity=\"{:.2}\"><title>{}\n{}: {n} of {all}</title></rect>\n",
                LEFT + wide * column as f64,
                tall * k as f64,
                (wide - 0.6).max(0.8),
                tall - 1.0,
                0.12 + 0.88 * share,
                escaped(&client.client),
                escaped(&shortened(&name(*class), 60))
            ));
        }
    }
    svg.push_str(&format!(
        "</g>\n<text class=\"k-label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">clients</text>\n\
         </svg></figure>\n",
        LEFT + wide * clients.len() as f64 / 2.0,
        height - 7.0
    ));
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commonest_class_is_the_first_of_equals() {
        let line = "{\"client\":\"a\",\"examples\":{\"train\":4,\"valid\":1},\"classes\":[0,2,2],\
                    \"rounds\":1,\"majority\":null,\"shared\":S,\"localized\":S,\"personal\":S}";
        let score = "{\"train\":{\"loss\":1,\"accuracy\":1},\"valid\":{\"loss\":1,\"accuracy\":1}}";
        let client = serde_json::from_str(&line.replace('S', score)).unwrap();
        assert_eq!(commonest(&client), 1);
    }
}
