//! Invariant 13: how data falls on clients.

use std::sync::Arc;

use crate::small::fitting;
use apfl::algorithm::every_algorithm;
use apfl::data::{Dataset, Examples, Features, Shard};
use apfl::spec::Spec;

/// A table without client column whose only feature is the row's number.
fn numbered(rows: usize) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.csv");
    let mut text = String::from("row,label\n");
    for row in 0..rows {
        text += &format!("{row},{}\n", row % 2);
    }
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (dir, path)
}

/// Every client's (training, validation) rows.
fn rows_of(data: &dyn Dataset) -> Vec<(Vec<u32>, Vec<u32>)> {
    let rows = |examples: &Examples| match examples.features() {
        Features::Floats(x) => x.iter().map(|x| *x as u32).collect(),
        other => panic!("a table has numbers, found {other:?}"),
    };
    let one = |shard: Arc<Shard>| (rows(&shard.train), rows(&shard.valid));
    (0..data.clients())
        .map(|k| one(data.shard(k).unwrap()))
        .collect()
}

#[test]
fn i13_a_partition_is_disjoint_and_whole_and_depends_on_the_datas_seed_alone() {
    let (_dir, path) = numbered(103);
    let load = |seeds: &str, algorithm: &str| {
        let text = format!(
            "seed = {}\nalgorithm = {algorithm}\n[data]\nkind = 'table'\npath = '{path}'\n\
             client = ''\nclients = 7\nvalidation = 0.25\n{}",
            &seeds[..1],
            seeds
                .get(2..)
                .map(|s| format!("seed = {s}"))
                .unwrap_or_default()
        );
        let plan = fitting(Spec::parse(&text).unwrap()).plan().unwrap();
        rows_of(&*plan.setup().unwrap().context.dataset)
    };
    let parts = load("1", "{ kind = 'fedavg' }");
    // 103 = 5·15 + 2·14, and ⌈¼·15⌉ = ⌈¼·14⌉ = 4 are held out.
    let sizes: Vec<_> = parts.iter().map(|(t, v)| (t.len(), v.len())).collect();
    let (more, less) = ((11, 4), (10, 4));
    assert_eq!(sizes, [more, more, more, more, more, less, less]);
    let mut all: Vec<u32> = parts
        .iter()
        .flat_map(|(t, v)| [t.clone(), v.clone()].concat())
        .collect();
    all.sort_unstable();
    assert_eq!(all, (0..103).collect::<Vec<_>>(), "each row once");

    for algorithm in every_algorithm() {
        assert_eq!(
            load("2 1", algorithm),
            parts,
            "another seed, the same data.seed"
        );
    }
    assert_ne!(load("2", "{ kind = 'fedavg' }"), parts);
    assert_ne!(load("1 2", "{ kind = 'fedavg' }"), parts);
}

#[test]
fn i13_a_synthetic_client_is_a_function_of_seed_and_index() {
    let shard = |text: &str, client: usize| {
        let text = format!("[data]\nkind = 'synthetic'\nfeatures = 5\nclasses = 3\n{text}");
        let plan = Spec::parse(&text).unwrap().plan().unwrap();
        let data = plan.setup().unwrap().context.dataset;
        let shard = data.shard(client).unwrap();
        assert_eq!(data.sizes(client), (shard.train.len(), shard.valid.len()));
        (shard.train.clone(), shard.valid.clone())
    };
    let here = shard("clients = 10", 3);
    assert_eq!(here, shard("clients = 1000", 3));
    assert_ne!(here, shard("clients = 10", 4));
    assert_ne!(here, shard("clients = 10\nseed = 2", 3));

    // Training and validation rows are continuous draws: a common one would be a copy.
    let first = |examples: &Examples| match examples.features() {
        Features::Floats(x) => x.chunks(5).map(|row| row[0].to_bits()).collect::<Vec<_>>(),
        other => panic!("synthetic data has numbers, found {other:?}"),
    };
    let valid = first(&here.1);
    assert!(first(&here.0).iter().all(|row| !valid.contains(row)));
}
