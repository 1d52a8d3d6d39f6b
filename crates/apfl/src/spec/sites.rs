//! `[federation] sites`: a federation over sites, and its requirements on the rest of a spec.

use std::collections::BTreeSet;

use super::Plan;
use crate::data::Source;
use crate::engine::remote::Disclose;
use crate::settings::{
    Custom, Declaration, Problems, Section, Setting, Texts, Whole, Words, at_least,
};

/// Represents the sites of a federation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedSites {
    /// Names of the sites, which are also the clients', in the clients' order.
    pub names: Vec<String>,
    /// Sites that must respond in a round.
    pub min_sites: usize,
    /// Seconds that a response may take.
    pub deadline: u64,
    /// Data that leaves a site in addition to updates and sums.
    pub disclose: Disclose,
    /// Whether rare values of text columns may leave a site.
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
.help("sites that must respond in a round")
.usually("all")
.example("2")
.seldom();

const DEADLINE: Setting<Whole> = Setting::number("deadline", 600, at_least(1).to(1 << 30))
    .with("sites = [\"north\", \"south\"]")
    .help("seconds that a site may take to respond")
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
.help("data that leaves a site in addition to updates and sums")
.seldom();

const RARE: Setting<Words<bool>> = Setting::words(
    "rare",
    "refuse",
    &[("refuse", false, ""), ("send", true, "they leave the site")],
)
.with("sites = [\"north\", \"south\"]")
.help("what happens to values of text columns that few of a site's rows have")
.seldom();

pub(super) const SETTINGS: [&dyn Declaration; 5] =
    [&SITES, &MIN_SITES, &DEADLINE, &DISCLOSE, &RARE];

/// Reads the settings of sites, or returns `None` for a simulation.
pub(super) fn read(s: &mut Section<'_>) -> Option<PlannedSites> {
    let keys = SETTINGS.map(|setting| setting.describe().key);
    s.knows(&keys);
    if !s.has(SITES.key) {
        for key in &keys[1..] {
            if s.take(key).is_some() {
                s.problem(
                    key,
                    "applies only to a federation over sites; set federation.sites",
                );
            }
        }
        return None;
    }
    let names = s.get(&SITES);
    let distinct: BTreeSet<&String> = names.iter().collect();
    let named = names.iter().all(|name| !name.trim().is_empty());
    if names.len() < 2 || distinct.len() < names.len() || !named {
        s.problem(
            "sites",
            format!("found {names:?}, allowed are the names of two or more different sites"),
        );
    }
    let all = names.len().max(1) as u64;
    let min_sites = s.get_or(&MIN_SITES.up_to(all), all) as usize;
    let deadline = s.get(&DEADLINE);
    let disclosed = s.get(&DISCLOSE);
    let discloses = |word: &str| disclosed.iter().any(|own| own == word);
    Some(PlannedSites {
        names,
        min_sites,
        deadline,
        disclose: Disclose {
            mixing: discloses("mixing"),
            classes: discloses("classes"),
            scores: discloses("scores"),
        },
        send_rare: s.get(&RARE),
    })
}

/// Reports settings that a federation over sites does not support.
pub(super) fn check(plan: &Plan, problems: &mut Problems) {
    let Some(sites) = &plan.sites else {
        return;
    };
    let mut refuse = |key: &str, why: &str| {
        problems.note(key, format!("not supported with federation.sites: {why}"));
    };
    match &plan.data {
        Source::Table(table) => {
            if table.partition.is_some() {
                refuse("data.client", "every site keeps its own rows");
            }
            if table.common.min_examples > 0 {
                refuse("data.min_examples", "every site takes part; use 0");
            }
        }
        _ => refuse(
            "data.kind",
            "every site reads its own table; use kind = \"table\"",
        ),
    }
    if plan.attack.is_some() {
        refuse("federation.attack", "attacks are simulations");
    }
    if plan.theory().is_some() {
        refuse(
            "training.schedule",
            "the constants of a theorem are measured on all data",
        );
    }
    if plan.engine.mpi {
        refuse(
            "engine.kind",
            "clients live at their sites, not on MPI ranks; use \"threads\"",
        );
    }
    if !matches!(plan.architecture.init.as_str(), "zeros" | "uniform") {
        refuse(
            "model.init",
            "sites do not have this file; use \"zeros\" or \"uniform\"",
        );
    }
    let Disclose { mixing, scores, .. } = sites.disclose;
    if plan.algorithm.choosing().is_some() && !(mixing && scores) {
        refuse(
            "algorithm.mixing",
            "the server adds up the sites' losses on held-out rows and sends every site its α; allow \
             this with disclose = [\"mixing\", \"scores\"]",
        );
    }
    if plan.algorithm.properties().full_participation && sites.min_sites < sites.names.len() {
        refuse(
            "federation.min_sites",
            "the algorithm needs every site in every round; remove min_sites",
        );
    }
}
