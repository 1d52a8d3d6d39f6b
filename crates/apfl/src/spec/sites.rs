//! A federation over sites: `[federation] sites` and what it asks of the rest of a spec.

use std::collections::BTreeSet;

use super::Plan;
use crate::data::Source;
use crate::engine::remote::Disclose;
use crate::settings::Section;

/// The sites of a federation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedSites {
    /// Their names, which are the clients', in the clients' order.
    pub names: Vec<String>,
    /// How many must answer.
    pub min_sites: usize,
    /// Seconds that an answer may take.
    pub deadline: u64,
    /// What leaves a site beside updates and sums.
    pub disclose: Disclose,
    /// Whether values of text columns that few rows have may leave a site.
    pub send_rare: bool,
}

/// Reads the keys, where there are sites.
pub(super) fn read(s: &mut Section<'_>) -> Option<PlannedSites> {
    let keys = ["sites", "min_sites", "deadline", "disclose", "rare"];
    s.knows(&keys);
    if !s.has("sites") {
        for key in &keys[1..] {
            if s.take(key).is_some() {
                s.problem(key, "there are no federation.sites");
            }
        }
        return None;
    }
    let names = s.texts("sites", &[]);
    let different: BTreeSet<&String> = names.iter().collect();
    let named = names.iter().all(|name| !name.trim().is_empty());
    if names.len() < 2 || different.len() < names.len() || !named {
        s.problem(
            "sites",
            format!("found {names:?}, allowed are the names of two or more different sites"),
        );
    }
    let all = names.len().max(1) as u64;
    let min_sites = s.integer("min_sites", all, 1..=all, "1 to the number of sites") as usize;
    let deadline = s.integer("deadline", 600, 1..=1 << 30, "seconds, at least 1");
    let mut disclose = Disclose::default();
    for word in s.texts("disclose", &[]) {
        match word.as_str() {
            "mixing" => disclose.mixing = true,
            "classes" => disclose.classes = true,
            "scores" => disclose.scores = true,
            other => s.problem(
                "disclose",
                format!("found \"{other}\", allowed are \"mixing\", \"classes\" and \"scores\""),
            ),
        }
    }
    let rare = [("refuse", false), ("send", true)];
    Some(PlannedSites {
        names,
        min_sites,
        deadline,
        disclose,
        send_rare: s.choice("rare", "refuse", &rare),
    })
}

/// Notes what cannot be done over sites.
pub(super) fn check(plan: &Plan, s: &mut Section<'_>) {
    let Some(sites) = &plan.sites else {
        return;
    };
    let mut refuse = |key: &str, why: &str| {
        s.problem(key, format!("cannot be with federation.sites: {why}"));
    };
    match &plan.data {
        Source::Table(table) => {
            if table.partition.is_some() {
                refuse("data.client", "every site has the rows it has");
            }
            if table.common.min_examples > 0 {
                refuse("data.min_examples", "every site takes part");
            }
        }
        _ => refuse(
            "data.kind",
            "a site has a table of its own (kind = \"table\")",
        ),
    }
    if plan.attack.is_some() {
        refuse("federation.attack", "attacks are for simulations");
    }
    if plan.theory().is_some() {
        refuse(
            "training.schedule",
            "a theorem's constants are measured on all data",
        );
    }
    if plan.engine.mpi {
        refuse("engine.kind", "clients live at their sites, not on ranks");
    }
    if !matches!(plan.architecture.init.as_str(), "zeros" | "uniform") {
        refuse(
            "model.init",
            "a site has no such file; use \"zeros\" or \"uniform\"",
        );
    }
    let Disclose { mixing, scores, .. } = sites.disclose;
    if plan.algorithm.choosing().is_some() && !(mixing && scores) {
        refuse(
            "algorithm.mixing",
            "the server adds up losses on held-out rows and tells every site its α; say so with \
             disclose = [\"mixing\", \"scores\"]",
        );
    }
    if plan.algorithm.properties().everybody && sites.min_sites < sites.names.len() {
        refuse(
            "federation.min_sites",
            "the algorithm needs everybody in every round",
        );
    }
}
