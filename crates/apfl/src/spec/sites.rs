//! A federation over sites: `[federation] sites` and what it asks of the rest of a spec.

use std::collections::BTreeSet;

use super::Plan;
use crate::data::Source;
use crate::engine::remote::Disclose;
use crate::settings::{
    Custom, Declaration, Problems, Section, Setting, Texts, Whole, Words, at_least,
};

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

const SITES: Setting<Texts> = Setting::texts("sites", || Some(Vec::new()))
    .help("data at real sites (docs/FEDERATION.md): their names, in the clients' order")
    .usually("none: a simulation")
    .example("[\"north\", \"south\"]")
    .seldom();

const MIN_SITES: Setting<Whole> = Setting::optional(
    "min_sites",
    at_least(1).up_to_setting("the number of sites"),
)
.with("sites = [\"north\", \"south\"]")
.help("how many must answer")
.usually("all")
.example("2")
.seldom();

const DEADLINE: Setting<Whole> = Setting::number("deadline", 600, at_least(1).to(1 << 30))
    .with("sites = [\"north\", \"south\"]")
    .help("seconds that an answer may take")
    .seldom();

const DISCLOSE: Setting<Custom<Vec<String>>> = Setting::custom(
    "disclose",
    Custom {
        name: "list of words",
        default: || Some(Vec::new()),
        allowed: "a list of \"mixing\", \"classes\" and \"scores\"",
        parse: |found| {
            let words = found.as_array()?.iter();
            let words: Vec<String> = words
                .map(|word| word.as_str().map(str::to_owned))
                .collect::<Option<_>>()?;
            let known = |word: &String| ["mixing", "classes", "scores"].contains(&word.as_str());
            words.iter().all(known).then_some(words)
        },
        write: |words| words.clone().into(),
    },
)
.with("sites = [\"north\", \"south\"]")
.help("what leaves a site beside updates and sums")
.seldom();

const RARE: Setting<Words<bool>> = Setting::words(
    "rare",
    "refuse",
    &[("refuse", false, ""), ("send", true, "they leave it")],
)
.with("sites = [\"north\", \"south\"]")
.help("what is done about values of text columns that few of a site's rows have")
.seldom();

pub(super) const SETTINGS: [&dyn Declaration; 5] =
    [&SITES, &MIN_SITES, &DEADLINE, &DISCLOSE, &RARE];

/// Reads the keys, where there are sites.
pub(super) fn read(s: &mut Section<'_>) -> Option<PlannedSites> {
    let keys = SETTINGS.map(|setting| setting.describe().key);
    s.knows(&keys);
    if !s.has(SITES.key) {
        for key in &keys[1..] {
            if s.take(key).is_some() {
                s.problem(key, "there are no federation.sites");
            }
        }
        return None;
    }
    let names = s.get(&SITES);
    let different: BTreeSet<&String> = names.iter().collect();
    let named = names.iter().all(|name| !name.trim().is_empty());
    if names.len() < 2 || different.len() < names.len() || !named {
        s.problem(
            "sites",
            format!("found {names:?}, allowed are the names of two or more different sites"),
        );
    }
    let all = names.len().max(1) as u64;
    let min_sites = s.get_or(&MIN_SITES.up_to(all), all) as usize;
    let deadline = s.get(&DEADLINE);
    let words = s.get(&DISCLOSE);
    let says = |word: &str| words.iter().any(|said| said == word);
    Some(PlannedSites {
        names,
        min_sites,
        deadline,
        disclose: Disclose {
            mixing: says("mixing"),
            classes: says("classes"),
            scores: says("scores"),
        },
        send_rare: s.get(&RARE),
    })
}

/// Notes what cannot be done over sites.
pub(super) fn check(plan: &Plan, problems: &mut Problems) {
    let Some(sites) = &plan.sites else {
        return;
    };
    let mut refuse = |key: &str, why: &str| {
        problems.note(key, format!("cannot be with federation.sites: {why}"));
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
    if plan.algorithm.properties().full_participation && sites.min_sites < sites.names.len() {
        refuse(
            "federation.min_sites",
            "the algorithm needs everybody in every round",
        );
    }
}
