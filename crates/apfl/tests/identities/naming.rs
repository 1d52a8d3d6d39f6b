//! Invariant 14: a client is its data, not its name or its place.

use std::collections::BTreeMap;

use apfl::algorithm::every_algorithm;
use apfl::clients::Finalized;
use apfl::metrics::Tallies;
use apfl::params::Params;
use apfl::spec::Spec;

use super::{bits, close, finish, start};

type ByName = BTreeMap<String, (Params, Option<f32>, Tallies)>;

/// Rows of five uneven clients, named by `name` and written in that order.
fn table_of(order: [usize; 5], name: impl Fn(usize) -> String) -> String {
    let mut text = String::from("client,a,b,label,split\n");
    for k in order {
        for j in 0..10 + 3 * k {
            let (a, b) = ((j * 7 + k * 3) % 11, (j * 5 + k * k) % 13);
            let (x, y) = (a as f32 / 4.0 - 1.0, b as f32 / 4.0 - 1.5);
            let split = if j % 4 == 3 { "valid" } else { "train" };
            text += &format!("{},{x},{y},{},{split}\n", name(k), (a + k) % 3);
        }
    }
    text
}

/// Trains on that table; what every client is left with, by its name.
fn trained_on(table: String, algorithm: &str) -> (String, Params, ByName) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("table.csv");
    std::fs::write(&path, table).unwrap();
    let text = format!(
        "algorithm = {algorithm}
         data = {{ kind = 'table', path = '{}' }}
         model = {{ kind = 'mlp', hidden = [4] }}
         training = {{ rounds = 4, local_steps = 3, batch = 'full',
                      learning_rate = 0.1 }}",
        path.display()
    );
    let mut training = start(&Spec::parse(&text).unwrap());
    finish(&mut training);
    let mut clients = BTreeMap::new();
    let receivers = training.receivers();
    let mut keep = |d: Finalized| {
        let tallies = d.tallies().personal;
        let personal = d.models.expect("models are kept by default").personal;
        clients.insert(d.name, (personal, d.mixing, tallies));
        Ok(())
    };
    training.finalize(&receivers, &mut keep).unwrap();
    (training.fingerprint().unwrap(), training.shared(), clients)
}

#[test]
fn i14_new_names_change_nothing_but_the_names() {
    let named = |word: &'static str| table_of([0, 1, 2, 3, 4], move |k| format!("{word}{k}"));
    for algorithm in every_algorithm() {
        let (fingerprint, shared, clients) = trained_on(named("north"), algorithm);
        let (other, also_shared, renamed) = trained_on(named("south"), algorithm);
        assert_eq!(fingerprint, other, "{algorithm}");
        assert_eq!(bits(&shared), bits(&also_shared));
        for (name, result) in clients {
            assert_eq!(renamed[&name.replace("north", "south")], result);
        }
    }
}

#[test]
fn i14_another_order_of_the_clients_permutes_the_results() {
    let ordered = |order| table_of(order, |k| format!("client-{k}"));
    // Which rows a client puts aside for its choice is drawn by its number.
    for algorithm in every_algorithm()
        .into_iter()
        .filter(|a| !a.contains("chosen"))
    {
        let (_, shared, clients) = trained_on(ordered([0, 1, 2, 3, 4]), algorithm);
        let (_, also_shared, others) = trained_on(ordered([3, 0, 4, 2, 1]), algorithm);
        // Not to the bit: the mean adds in another order.
        assert!(close(&shared, &also_shared, 1e-6), "{algorithm}");
        let models: Vec<_> = clients
            .values()
            .map(|(personal, ..)| bits(personal))
            .collect();
        assert!(models.windows(2).all(|m| m[0] != m[1]), "clients do differ");
        for (name, (personal, alpha, tallies)) in clients {
            let (its_personal, its_alpha, its_tallies) = &others[&name];
            assert!(close(&personal, its_personal, 1e-6), "{algorithm}, {name}");
            let alphas = (alpha.unwrap_or(0.0), its_alpha.unwrap_or(0.0));
            assert!((alphas.0 - alphas.1).abs() < 1e-6, "{algorithm}, {name}");
            assert_eq!(tallies.train.examples, its_tallies.train.examples);
            assert!((tallies.valid.loss - its_tallies.valid.loss).abs() < 1e-4);
        }
    }
}
