//! Data that names no clients, dealt to them by a partition.

use std::fs;

use apfl::data::Source;
use apfl::spec::Spec;

use super::{IDX, error, idx, load, small_idx, task_of};

#[test]
fn a_table_without_clients_is_dealt_by_any_partition() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let mut csv = "x,label\n".to_string();
    (0..41).for_each(|k| csv += &format!("{k},{}\n", ["hen", "cat"][k % 2]));
    fs::write(at.join("t.csv"), csv).unwrap();
    let table = "kind = 'table'\npath = 'DIR/t.csv'\nclient = ''\nclients = 2\n";
    let data = load(
        at,
        &format!("{table}partition = {{ kind = 'stripe', classes = 1 }}"),
    )
    .unwrap();
    // One block of 41, slices of 20, one row left: 20 cats, then 20 hens.
    assert_eq!(task_of(&*data), ["cat", "hen"]);
    assert_eq!(data.shard(0).unwrap().train.class_counts(2), [16, 0]);
    assert_eq!(data.shard(1).unwrap().train.class_counts(2), [0, 16]);
    assert!(data.notes()[0].starts_with("1 of 41 examples are left over"));
    let regression = format!("{table}task = 'regression'\npartition = 'stripe'");
    error(at, &regression, "which needs classes");
}

#[test]
fn a_partition_goes_to_a_file_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    small_idx(at);
    let data = load(
        at,
        &format!("{IDX}clients = 3\npartition = 'shards'\nseed = 9"),
    )
    .unwrap();
    let text = apfl::data::partition::to_json(data.assignment().unwrap());
    fs::write(at.join("p.json"), &text).unwrap();
    let spec = format!("{IDX}seed = 9\npartition = {{ kind = 'file', path = 'DIR/p.json' }}");
    let again = load(at, &spec).unwrap();
    for client in 0..3 {
        let (a, b) = (data.shard(client).unwrap(), again.shard(client).unwrap());
        assert_eq!((&a.train, &a.valid), (&b.train, &b.valid));
    }
    // Its checksum is among those that environment.json lists.
    let digest = apfl::digest::sha256_of(text.as_bytes());
    assert_eq!(again.files()[2].sha256, digest);
    // However the files are packed, the same labels are the same data.
    let plain: Vec<u8> = (0..20).map(|k| k % 2).collect();
    fs::write(at.join("labels.gz"), idx(8, &[20], &plain)).unwrap();
    assert!(load(at, &spec).is_ok());
    // Other data: refused.
    fs::write(at.join("labels.gz"), idx(8, &[20], &[1, 0].repeat(10))).unwrap();
    error(at, &spec, "p.json: was made for other data");
    error(
        at,
        &format!("{IDX}clients = 3\npartition = {{ kind = 'file', path = 'x' }}"),
        "leave it out",
    );
}

#[test]
fn an_override_of_the_partition_drops_what_the_new_kind_has_not() {
    let mut spec =
        Spec::parse("[data]\nkind = 'mnist'\npartition = { kind = 'stripe', classes = 4 }")
            .unwrap();
    spec.set("data.partition.kind=dirichlet").unwrap();
    assert!(spec.plan().is_ok());
    spec.set("data.partition.clases=3").unwrap();
    assert!(spec.plan().is_err());
    // The generator's number of classes is not a reader's.
    let mut spec = Spec::parse("[data]\nclasses = 10\nfeatures = 3").unwrap();
    spec.set("data.kind=leaf").unwrap();
    let Source::Leaf(leaf) = spec.plan().unwrap().data else {
        panic!("leaf")
    };
    assert_eq!(leaf.classes, None);
}
