//! The page, without external scripts or pictures, in light or dark.

use super::group::Group;
use super::html::{collapsed, remark};
use super::read::Run;
use super::{advice, clients, compare, curves, mix, privacy, scores};
use crate::chart::{escaped, style};
use crate::format::counted;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Writes the page; runs are compared by the validation score `by`.
pub fn page(groups: &[Group], by: Option<&str>) -> String {
    let several = groups.iter().any(|group| group.runs.len() > 1);
    let title = match groups {
        [group] if !several => group.name.clone(),
        groups => counted(groups.iter().map(|g| g.runs.len()).sum(), "run"),
    };
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>apfl · {}</title>\n<style>\n{STYLE}{}</style></head>\n<body><main>\n\
         <header><h1>apfl report</h1></header>\n",
        escaped(&title),
        style::for_page()
    );
    if groups.len() > 1 || several {
        html.push_str(&compare::compare(groups, by));
    }

    for (k, group) in groups.iter().enumerate() {
        html.push_str(&section(k, group.first()));
    }
    html.push_str(&format!(
        "<footer>made by apfl {}</footer>\n</main><div id=\"tip\" hidden></div>\n\
         <script>\n{SCRIPT}</script></body></html>\n",
        env!("CARGO_PKG_VERSION")
    ));
    html
}

/// Returns the id of a run's section.
pub fn anchor(k: usize) -> String {
    format!("run-{}", k + 1)
}

fn section(k: usize, run: &Run) -> String {
    let mut html = format!(
        "<section id=\"{}\"><h2>{}</h2>\n<p>{}</p>\n",
        anchor(k),
        escaped(&run.name),
        escaped(&facts(run))
    );
    if let Some(prepared) = &run.prepared {
        html.push_str(&remark(prepared));
    }
    match &run.summary {
        Some(summary) => html.push_str(&scores::table(summary, scores::measure_name(run))),
        None => html.push_str(&format!(
            "<p class=\"unfinished\">{}</p>\n",
            escaped(&unfinished(run))
        )),
    }
    html.push_str(&curves::curves(run));
    html.push_str(&curves::mixing(run));
    html.push_str(&privacy::privacy(run));
    html.push_str(&clients::clients(run));
    html.push_str(&advice::advice(run));
    html.push_str(&mix::mix(run));
    html.push_str(&curves::costs(run));
    html.push_str("<h3>Spec and environment</h3>\n");
    html.push_str(&collapsed(
        "spec.toml, every default spelled out",
        &run.spec_text,
    ));
    match &run.environment {
        Some(environment) => {
            let text = serde_json::to_string_pretty(environment).expect("plain JSON");
            html.push_str(&collapsed("environment.json", &text));
        }
        None => html.push_str(&remark("There is no environment.json.")),
    }
    if let Some(summary) = &run.summary {
        let text = format!("fingerprint {}", summary.fingerprint);
        html.push_str(&format!("<p class=\"print\">{}</p>\n", escaped(&text)));
    }
    html.push_str("</section>\n");
    html
}

fn facts(run: &Run) -> String {
    let key = |path: &str| run.key(path).unwrap_or_else(|| "?".into());
    let mut facts = vec![
        key("algorithm.kind"),
        key("model.kind"),
        key("data.kind"),
        format!("seed {}", key("seed")),
    ];
    if let Some(mixing) = run.key("algorithm.mixing.adaptive") {
        facts.insert(1, format!("α learned from {mixing}"));
    } else if let Some(mixing) = run.key("algorithm.mixing.fixed") {
        facts.insert(1, format!("α = {mixing}"));
    } else if let Some(mixing) = run.key("algorithm.mixing.chosen") {
        facts.insert(1, format!("α chosen from {mixing}"));
    }
    if let Some(summary) = &run.summary {
        facts.push(counted(summary.rounds as usize, "round"));
        facts.push(format!("{} finalized", counted(summary.clients, "client")));
    }
    facts.join(" · ")
}

fn unfinished(run: &Run) -> String {
    let done = run.rounds.last().map_or(0, |r| r.round);
    let of = run.key("training.rounds");
    let of = of.map_or(String::new(), |n| format!(" of {n}"));
    format!(
        "This run is not finished: {done}{of} rounds are done, and there are no final scores. \
         Continue it with `apfl run --resume --out DIR`."
    )
}
