//! Differential privacy: accounts against values of others, clipping and noise, whole runs, and
//! an attack.

mod accounts;
mod attack;
mod mechanism;
mod runs;
mod specs;
mod system;

use apfl::spec::{Plan, Spec};

const SMALL: &str = "
    [data]
    clients = 12
    features = 6
    classes = 3
    max_examples = 60
    [training]
    rounds = 6
    local_steps = 3
    batch = 10
    [delivery]
    keep = false
";

fn spec(settings: &[&str]) -> Spec {
    let mut spec = Spec::parse(SMALL).unwrap();
    settings.iter().for_each(|pair| spec.set(pair).unwrap());
    spec
}

fn plan(settings: &[&str]) -> Plan {
    spec(settings).plan().unwrap()
}
