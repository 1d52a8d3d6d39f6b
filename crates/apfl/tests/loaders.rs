//! Every reader on small files that the test makes: what is right is read, what is
//! wrong is refused with words that name the file and the value.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use apfl::data::{Dataset, Features, Normalization, Source, Targets, Task};
use apfl::spec::Spec;
use flate2::Compression;
use flate2::write::GzEncoder;

fn idx(code: u8, shape: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, code, shape.len() as u8];
    shape.iter().for_each(|d| bytes.extend(d.to_be_bytes()));
    bytes.extend(values);
    bytes
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn load(dir: &Path, data: &str) -> Result<Arc<dyn Dataset>, String> {
    let spec = format!("[data]\n{data}").replace("DIR", &dir.display().to_string());
    let plan = Spec::parse(&spec).unwrap().plan();
    plan.and_then(|plan| plan.data.load())
        .map_err(|e| e.to_string())
}

fn error(dir: &Path, data: &str, expected: &str) {
    match load(dir, data) {
        Ok(_) => panic!("{data}: read without an error"),
        Err(said) => assert!(said.contains(expected), "{said}"),
    }
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
    error(at, &spec, "go up to 200 but only 3 of them occur");
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

/// 20 images of 2×2 with the labels 0, 1, 0, 1, …; image k has the pixels k, 2k, 3k, 4k.
fn small_idx(dir: &Path) {
    let pixels: Vec<u8> = (0..20).flat_map(|k| [k, 2 * k, 3 * k, 4 * k]).collect();
    let labels: Vec<u8> = (0..20).map(|k| k % 2).collect();
    fs::write(dir.join("images"), idx(8, &[20, 2, 2], &pixels)).unwrap();
    fs::write(dir.join("labels.gz"), gzipped(&idx(8, &[20], &labels))).unwrap();
}

const IDX: &str = "kind = 'idx'\nimages = 'DIR/images'\nlabels = 'DIR/labels.gz'\n";

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
        "dimensions [20, 2, 2] need 80 bytes of values, there are at most 79",
    );
    refuse(&[&whole[..], &[0]].concat(), "there are more: 81");
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
    refuse(&idx(8, &[0, 2, 2], &[]), "has no image in it");
    refuse(
        &idx(8, &[20], &[1; 20]),
        "has 1 dimensions; images have 2 to 4",
    );
    refuse(
        &idx(0x0b, &[20, 2, 2], &[0; 160]),
        "has I16 values, images need bytes",
    );
    refuse(
        &idx(8, &[21, 2, 2], &[1; 84]),
        "has the dimensions [20], there are 21 images",
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

fn mnist_images(count: usize) -> Vec<u8> {
    let pixels: Vec<u8> = (0..count * 784).map(|k| (k % 251) as u8).collect();
    idx(8, &[count as u32, 28, 28], &pixels)
}

#[test]
fn mnist_needs_its_files_its_shape_and_its_labels() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let spec =
        "kind = 'mnist'\ndir = 'DIR'\nclients = 2\npartition = { kind = 'stripe', classes = 2 }";
    error(
        at,
        spec,
        "there is neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz",
    );
    error(at, spec, "`apfl data get mnist`");
    fs::write(
        at.join("train-images-idx3-ubyte.gz"),
        gzipped(&mnist_images(20)),
    )
    .unwrap();
    let labels: Vec<u8> = (0..20).map(|k| k / 2).collect();
    fs::write(at.join("train-labels-idx1-ubyte"), idx(8, &[20], &labels)).unwrap();
    let data = load(at, spec).unwrap();
    // Blocks of 10, slices of 5: client 0 has the rows 0–4 and 10–14.
    let mut seen = [
        data.shard(0).unwrap().train.class_counts(10),
        data.shard(0).unwrap().valid.class_counts(10),
    ];
    let [train, valid] = &mut seen;
    train.iter_mut().zip(valid).for_each(|(a, b)| *a += *b);
    assert_eq!(*train, [2, 2, 1, 0, 0, 2, 2, 1, 0, 0]);
    assert_eq!(data.sizes(0), (8, 2));
    let Normalization::Bytes { channels } = &data.schema().normalization else {
        panic!("bytes")
    };
    assert_eq!(
        channels[0],
        ((1.0 / (255.0 * 0.3081)) as f32, (-0.1307 / 0.3081) as f32)
    );
    fs::write(at.join("train-labels-idx1-ubyte"), idx(8, &[20], &[10; 20])).unwrap();
    error(at, spec, "label 0 is 10; allowed is 0 to 9");
    fs::write(
        at.join("train-images-idx3-ubyte"),
        idx(8, &[20, 2, 2], &[0; 80]),
    )
    .unwrap();
    error(at, spec, "MNIST's are 28×28");
}

#[test]
fn qmnist_takes_images_from_beside_and_writers_from_its_tables() {
    let dir = tempfile::tempdir().unwrap();
    let (mnist, qmnist) = (dir.path().join("mnist"), dir.path().join("qmnist"));
    fs::create_dir(&mnist).unwrap();
    fs::create_dir(&qmnist).unwrap();
    fs::write(mnist.join("train-images-idx3-ubyte"), mnist_images(12)).unwrap();
    fs::write(mnist.join("t10k-images-idx3-ubyte"), mnist_images(6)).unwrap();
    let table = |rows: usize, writer: &dyn Fn(usize) -> i32| {
        let row = |k: usize| [(k % 10) as i32, 4, writer(k), 0, 0, 0, 0, 0];
        let values: Vec<u8> = (0..rows).flat_map(row).flat_map(i32::to_be_bytes).collect();
        idx(0x0c, &[rows as u32, 8], &values)
    };
    // 12 training digits of writers 5 and 6; of 9 test rows the first 6 have images.
    fs::write(
        qmnist.join("qmnist-train-labels-idx2-int"),
        table(12, &|k| 5 + (k / 6) as i32),
    )
    .unwrap();
    fs::write(
        qmnist.join("qmnist-test-labels-idx2-int"),
        table(9, &|k| if k < 6 { 2000 } else { 1 }),
    )
    .unwrap();
    let spec = "kind = 'qmnist'\ndir = 'DIR/qmnist'";
    let data = load(dir.path(), spec).unwrap();
    let names: Vec<_> = (0..data.clients()).map(|c| data.name(c)).collect();
    assert_eq!(names, ["5", "6", "2000"]);
    assert!((0..3).all(|c| data.sizes(c) == (4, 2)));
    let text = format!("[data]\n{spec}\n[data.partition]\nkind = 'iid'");
    let problem = Spec::parse(&text).unwrap().plan().unwrap_err().to_string();
    assert!(problem.contains("data.partition"), "{problem}");
    fs::write(qmnist.join("qmnist-test-labels-idx2-int"), table(5, &|_| 1)).unwrap();
    error(dir.path(), spec, "needed are 6 rows or more");
}

#[test]
fn femnist_uses_its_own_split_and_turns_paper_dark() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let write = |name: &str, bytes: Vec<u8>| {
        fs::write(at.join(format!("femnist-digits-{name}")), bytes).unwrap()
    };
    write("images-idx3-ubyte", idx(8, &[8, 28, 28], &[255; 8 * 784]));
    write("labels-idx1-ubyte", idx(8, &[8], &[0, 1, 2, 3, 4, 5, 6, 7]));
    write("split-idx1-ubyte", idx(8, &[8], &[0, 0, 1, 1, 0, 0, 0, 1]));
    let writers: Vec<u8> = [0i16, 0, 0, 0, 1, 1, 1, 1]
        .iter()
        .flat_map(|w| w.to_be_bytes())
        .collect();
    write("writers-idx1-short", idx(0x0b, &[8], &writers));
    fs::write(at.join("writers.tsv"), "index\twriter\n0\tann\n1\tbob\n").unwrap();
    let spec = "kind = 'femnist'\ndir = 'DIR'";
    let data = load(at, spec).unwrap();
    assert_eq!((data.clients(), data.name(0)), (1, "ann".to_string())); // bob holds out one
    assert!(data.notes()[0].starts_with("1 of 2 clients have fewer than 2 validation"));
    let shard = data.shard(0).unwrap();
    assert_eq!(shard.train.targets(), &Targets::Classes(vec![0, 1]));
    assert_eq!(shard.valid.targets(), &Targets::Classes(vec![2, 3]));
    let Features::Bytes(bytes, _) = shard.train.features() else {
        panic!("bytes")
    };
    assert!(bytes.iter().all(|b| *b == 0));
    fs::write(at.join("writers.tsv"), "index\twriter\n0\tann\n").unwrap();
    error(at, spec, "has the writer 1; writers.tsv names 1");
    fs::write(at.join("writers.tsv"), "index\twriter\n1\tann\n").unwrap();
    error(at, spec, "line 2: expected '0'");
    write("split-idx1-ubyte", idx(8, &[8], &[0, 0, 1, 1, 0, 0, 0, 2]));
    error(at, spec, "label 7 is 2; allowed is 0 to 1");
}

#[test]
fn cifar10_reads_planes_and_refuses_other_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    // Red 10, green 20, blue 30 everywhere.
    let record = |label: u8| [vec![label], vec![10; 1024], vec![20; 1024], vec![30; 1024]].concat();
    let batch: Vec<u8> = (0..4).flat_map(record).collect();
    for k in 1..=5 {
        fs::write(at.join(format!("data_batch_{k}.bin")), &batch).unwrap();
    }
    let spec = "kind = 'cifar10'\ndir = 'DIR'\nclients = 2\npartition = 'iid'";
    let data = load(at, spec).unwrap();
    assert_eq!(data.schema().shape, [3, 32, 32]);
    assert_eq!(
        (0..2).map(|c| data.sizes(c)).collect::<Vec<_>>(),
        [(8, 2), (8, 2)]
    );
    let shard = data.shard(0).unwrap();
    let Features::Bytes(bytes, scaling) = shard.train.features() else {
        panic!("bytes")
    };
    let mut out = vec![0.0; 3072];
    scaling.apply(&bytes[..3072], 3072, &mut out);
    // (30/255 − .4465)/.2010 in the blue plane.
    assert!((out[2048] - (30.0 / 255.0 - 0.4465) / 0.2010).abs() < 1e-5);
    assert!((out[0] - (10.0 / 255.0 - 0.4914) / 0.2023).abs() < 1e-5);
    fs::write(at.join("data_batch_3.bin"), &batch[..batch.len() - 1]).unwrap();
    error(at, spec, "data_batch_3.bin: has 12291 bytes");
    fs::write(at.join("data_batch_3.bin"), record(10)).unwrap();
    error(at, spec, "the label of image 0 is 10");
}

fn leaf(users: &str, num_samples: &str, user_data: &str) -> String {
    format!(
        "{{\"users\": [{users}], \"num_samples\": [{num_samples}], \"user_data\": {{{user_data}}}}}"
    )
}

#[test]
fn leaf_keeps_its_users_its_split_and_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::create_dir(at.join("train")).unwrap();
    fs::create_dir(at.join("test")).unwrap();
    let train = leaf(
        "\"u\", \"v\"",
        "2, 1",
        r#""v": {"x": [[0.0, 0.2]], "y": [1]}, "u": {"x": [[1.0, 0.2], [0.4, 0.6]], "y": [0, 2]}"#,
    );
    let test = leaf(
        "\"u\", \"v\"",
        "2, 1",
        r#""u": {"x": [[0.2, 0.2], [0.4, 0.4]], "y": [2, 1]}, "v": {"x": [[0.8, 0.8]], "y": [0]}"#,
    );
    fs::write(at.join("train/a.json"), &train).unwrap();
    fs::write(at.join("test/a.json.gz"), gzipped(test.as_bytes())).unwrap();
    let spec = "kind = 'leaf'\ndir = 'DIR'";
    let data = load(at, spec).unwrap();
    assert_eq!((data.clients(), data.name(0)), (1, "u".to_string())); // v holds out one
    let shard = data.shard(0).unwrap();
    assert_eq!(shard.valid.targets(), &Targets::Classes(vec![2, 1]));
    let Features::Bytes(bytes, scaling) = shard.train.features() else {
        panic!("n/255 stays bytes")
    };
    assert_eq!(bytes, &[255, 51, 102, 153]);
    let mut out = [0.0; 4];
    scaling.apply(bytes, 2, &mut out);
    assert!(
        out.iter()
            .zip([1.0, 0.2, 0.4, 0.6])
            .all(|(a, b)| (a - b).abs() < 1e-6)
    );
    assert_eq!(data.schema().task.classes(), 3);

    // One number that is not n/255, and all are numbers.
    fs::write(at.join("train/a.json"), train.replace("0.6", "-7.5")).unwrap();
    let data = load(at, spec).unwrap();
    let shard = data.shard(0).unwrap();
    let Features::Floats(x) = shard.train.features() else {
        panic!("numbers")
    };
    assert_eq!(x[..], [1.0, 51.0 / 255.0, 102.0 / 255.0, -7.5]);

    let refuse = |text: &str, expected: &str| {
        fs::write(at.join("train/a.json"), text).unwrap();
        error(at, spec, expected);
    };
    refuse(
        &train.replace("2, 1", "3, 1"),
        "user 'u': num_samples says 3, there are 2 rows",
    );
    refuse(&train.replace("[0, 2]", "[0]"), "1 labels in y");
    refuse(&train.replace("[0, 2]", "[0, 1.5]"), "label 1 is 1.5");
    refuse(
        &train.replace("[0, 2]", "[0, 1]"),
        "a label is 2, allowed is 0 to 1",
    );
    refuse(
        &train.replace("[0.4, 0.6]", "[0.4]"),
        "row 1 has 1 numbers, the first has 2",
    );
    refuse(&train.replace("0.6", "1e39"), "row 1 has inf in it");
    refuse(
        &train.replace("\"u\", \"v\"", "\"u\", \"w\""),
        "the user 'w' is not in user_data",
    );
    refuse(
        &train.replace("2, 1]", "2]"),
        "2 users, 1 entries in num_samples",
    );
    refuse(&train[..train.len() - 2], "is not a LEAF file");
    fs::write(at.join("train/a.json"), &train).unwrap();
    fs::write(at.join("train/b.json"), &train).unwrap();
    error(at, spec, "b.json: the user 'u' is in another file too");
    error(
        at,
        "kind = 'leaf'\ndir = 'DIR/none'",
        "none/train: cannot read",
    );
}

fn task_of(data: &dyn Dataset) -> Vec<String> {
    match &data.schema().task {
        Task::Classification { classes } => classes.clone(),
        Task::Regression => Vec::new(),
    }
}

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
    error(at, &regression, "regression has no classes");
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
    let text = apfl::data::partition::to_json(data.dealing().unwrap());
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
