//! IDX files of any images.

use std::fs;

use apfl::data::{Features, Normalization};
use apfl::spec::Spec;

use super::{IDX, error, gzipped, idx, load, small_idx, task_of};

#[test]
fn idx_is_scaled_by_the_training_pixels() {
    let dir = tempfile::tempdir().unwrap();
    small_idx(dir.path());
    let data = load(dir.path(), &format!("{IDX}clients = 2\npartition = 'iid'")).unwrap();
    assert_eq!(data.schema().shape, [1, 2, 2]);
    assert_eq!(
        (0..2).map(|c| data.sizes(c)).collect::<Vec<_>>(),
        [(8, 2), (8, 2)]
    );
    // Mean 0 and deviation 1 over what the clients train on.
    let shards: Vec<_> = (0..2).map(|c| data.shard(c).unwrap()).collect();
    let mut numbers = Vec::new();
    for shard in &shards {
        let Features::Bytes(bytes, scaling) = shard.train.features() else {
            panic!("images stay bytes")
        };
        let mut out = vec![0.0; bytes.len()];
        scaling.apply(bytes, 4, &mut out);
        numbers.extend(out.into_iter().map(f64::from));
    }
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
    assert!(
        mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-6,
        "{mean} {variance}"
    );
    assert!(matches!(
        data.schema().normalization,
        Normalization::Bytes { .. }
    ));
    assert_eq!(data.files().len(), 2);
}

#[test]
fn idx_may_name_its_clients() {
    let dir = tempfile::tempdir().unwrap();
    small_idx(dir.path());
    // Images 0–9 are of client 7, 10–18 of client −3, and one of client 500.
    let owners: Vec<u8> = (0..20i16)
        .flat_map(|k| {
            if k < 10 {
                7i16
            } else if k < 19 {
                -3
            } else {
                500
            }
            .to_be_bytes()
        })
        .collect();
    fs::write(dir.path().join("owners"), idx(0x0b, &[20], &owners)).unwrap();
    let data = load(dir.path(), &format!("{IDX}clients = 'DIR/owners'")).unwrap();
    let names: Vec<_> = (0..data.clients()).map(|c| data.name(c)).collect();
    assert_eq!(names, ["-3", "7"]);
    assert_eq!(data.sizes(0), (7, 2)); // ⌈0.2·9⌉ = 2
    assert!(data.notes()[0].starts_with("1 of 3 clients have fewer than 2 validation"));
    assert_eq!(data.files().len(), 3);
    // The resolved spec has no partition where the data names its clients.
    let spec = format!("[data]\n{IDX}clients = 'owners'");
    let resolved = Spec::parse(&spec).unwrap().plan().unwrap().resolved;
    assert!(
        !resolved["data"]
            .as_table()
            .unwrap()
            .contains_key("partition")
    );
}

#[test]
fn idx_labels_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    small_idx(at);
    let spec = format!("{IDX}clients = 2\npartition = 'iid'");
    let labels = |labels: &[u8]| fs::write(at.join("labels.gz"), idx(8, &[20], labels)).unwrap();
    // One damaged byte among 0 and 1 would make 201 classes of three.
    let mut damaged = [0, 1].repeat(10);
    damaged[3] = 200;
    labels(&damaged);
    error(
        at,
        &spec,
        "the largest label is 200, but only 3 labels occur",
    );
    error(
        at,
        &format!("{spec}\nclasses = 2"),
        "label 3 is 200; allowed is 0 to 1",
    );
    // A class that is never trained on is said.
    labels(&[0, 2].repeat(10));
    let data = load(at, &spec).unwrap();
    assert_eq!(task_of(&*data), ["0", "1", "2"]);
    assert_eq!(data.notes(), ["1 of 3 classes have no training example"]);
    let data = load(at, &format!("{spec}\nclasses = 4")).unwrap();
    assert_eq!(task_of(&*data).len(), 4);
}

#[test]
fn a_wrong_idx_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    small_idx(at);
    let whole = fs::read(at.join("images")).unwrap();
    let refuse = |bytes: &[u8], expected: &str| {
        fs::write(at.join("images"), bytes).unwrap();
        error(at, IDX, expected);
    };
    refuse(
        b"<!DOCTYPE html><html></html>",
        "is not an IDX file: it begins with the bytes 3c 21",
    );
    refuse(&[], "has 0 bytes, too few");
    refuse(
        &whole[..whole.len() - 1],
        "dimensions [20, 2, 2] need 80 bytes of values, found at most 79",
    );
    refuse(&[&whole[..], &[0]].concat(), "found more: 81");
    refuse(&whole[..9], "ends within its header");
    refuse(
        &idx(8, &[u32::MAX, u32::MAX, u32::MAX], &[]),
        "product overflows",
    );
    refuse(
        &idx(8, &[4_000_000_000, 28, 28], &[1; 99]),
        "need 3136000000000 bytes",
    );
    refuse(
        &gzipped(&idx(8, &[4_000_000_000, 28, 28], &[1; 99])),
        "need 3136000000000 bytes",
    );
    refuse(&idx(8, &[0, 2, 2], &[]), "contains no images");
    refuse(
        &idx(8, &[20], &[1; 20]),
        "has 1 dimensions; images have 2 to 4",
    );
    refuse(
        &idx(0x0b, &[20, 2, 2], &[0; 160]),
        "has I16 values; images need bytes",
    );
    refuse(
        &idx(8, &[21, 2, 2], &[1; 84]),
        "has the dimensions [20]; expected [21]",
    );
    let packed = gzipped(&whole);
    for cut in [1, 3, 9, 11, packed.len() / 2, packed.len() - 1] {
        fs::write(at.join("images"), &packed[..cut]).unwrap();
        assert!(load(at, IDX).is_err(), "cut at {cut}");
    }
    refuse(&packed[..packed.len() - 4], "gzip");
    fs::write(at.join("images"), &packed).unwrap();
    assert!(load(at, &format!("{IDX}clients = 2")).is_ok());
    error(
        at,
        "kind = 'idx'\nimages = 'DIR/none'\nlabels = 'DIR/labels.gz'",
        "none: cannot read",
    );
    error(at, "kind = 'idx'", "data.labels: missing");
    fs::write(at.join("labels.gz"), idx(0x0c, &[20], &[255; 80])).unwrap();
    error(at, IDX, "label 0 is -1; allowed is 0 to");
}

/// Validation images in files of their own: 10 of them, labels 0 0 0 0 0 0 1 1 1 1. Training
/// is all of the 20 others, dealt by stripe of one class: client '0' has the ten of label 0,
/// client '1' those of label 1, so they get the six and the four.
#[test]
fn idx_may_be_validated_with_files_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    small_idx(at);
    let pixels: Vec<u8> = (100..110).flat_map(|k| [k; 4]).collect();
    fs::write(at.join("vi"), idx(8, &[10, 2, 2], &pixels)).unwrap();
    let labels = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1];
    fs::write(at.join("vl"), idx(8, &[10], &labels)).unwrap();
    let held = "valid_images = 'DIR/vi'\nvalid_labels = 'DIR/vl'\n";
    let striped = "clients = 2\npartition = { kind = 'stripe', classes = 1 }";
    let data = load(at, &format!("{IDX}{held}{striped}")).unwrap();
    let sizes: Vec<_> = (0..2).map(|c| data.sizes(c)).collect();
    assert_eq!(sizes, [(10, 6), (10, 4)]);
    assert_eq!(data.files().len(), 4);
    let shard = data.shard(0).unwrap();
    let Features::Bytes(bytes, _) = shard.valid.features() else {
        panic!("images stay bytes")
    };
    assert_eq!(bytes[..8], [100, 100, 100, 100, 101, 101, 101, 101]);

    // Two clients that share a class equally share its validation images: 3 and 3, 2 and 2.
    let iid = "clients = 2\npartition = { kind = 'stripe', classes = 2 }";
    let data = load(at, &format!("{IDX}{held}{iid}")).unwrap();
    assert_eq!((data.sizes(0), data.sizes(1)), ((10, 5), (10, 5)));

    // Owners of both in files: client 1 has three of the ten, client 2 seven.
    let owners = |count: usize, of_one: usize| -> Vec<u8> {
        (0..count).map(|k| if k < of_one { 1 } else { 2 }).collect()
    };
    fs::write(at.join("o"), idx(8, &[20], &owners(20, 12))).unwrap();
    fs::write(at.join("vo"), idx(8, &[10], &owners(10, 3))).unwrap();
    let named = "clients = 'DIR/o'\nvalid_clients = 'DIR/vo'";
    let data = load(at, &format!("{IDX}{held}{named}")).unwrap();
    assert_eq!((data.sizes(0), data.sizes(1)), ((12, 3), (8, 7)));

    error(
        at,
        &format!("{IDX}{held}clients = 'DIR/o'"),
        "data.valid_clients: missing",
    );
    let both = "clients = 2\nvalid_clients = 'DIR/vo'";
    error(
        at,
        &format!("{IDX}{held}{both}"),
        "data.clients is not a file",
    );
    error(
        at,
        &format!("{IDX}valid_images = 'DIR/vi'\n{iid}"),
        "data.valid_labels: missing",
    );
    fs::write(at.join("vi"), idx(8, &[10, 4], &pixels)).unwrap();
    error(
        at,
        &format!("{IDX}{held}{iid}"),
        "shape [4], the training images [1, 2, 2]",
    );
    fs::write(at.join("vi"), idx(8, &[10, 2, 2], &pixels)).unwrap();
    fs::write(at.join("vl"), idx(8, &[10], &[2; 10])).unwrap();
    error(
        at,
        &format!("{IDX}{held}{iid}"),
        "label 2 is among the validation examples",
    );
}

#[test]
fn idx_has_at_most_as_many_classes_as_allowed() {
    let dir = tempfile::tempdir().unwrap();
    small_idx(dir.path());
    let labels: Vec<u8> = (0..20).map(|k| k % 4).collect();
    fs::write(
        dir.path().join("labels.gz"),
        gzipped(&idx(8, &[20], &labels)),
    )
    .unwrap();
    let spec = format!("{IDX}clients = 2\npartition = 'iid'\nvalidation = 0.1\nmax_classes = ");
    let refused = "labels.gz: found 4 classes, at most 3 are allowed";
    error(dir.path(), &format!("{spec}3"), refused);
    load(dir.path(), &format!("{spec}4")).unwrap();
    let declared = format!("{spec}4\nclasses = 5");
    error(dir.path(), &declared, "found 5 classes, at most 4");
}
