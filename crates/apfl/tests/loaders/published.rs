//! Published images: MNIST, QMNIST, FEMNIST, CIFAR-10.

use std::fs;

use apfl::data::{Features, Normalization, Targets};
use apfl::spec::Spec;

use super::{error, gzipped, idx, load};

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
        "contains neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz",
    );
    error(at, spec, "neither train-images-idx3-ubyte nor");
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
    error(dir.path(), spec, "expected at least 6 rows");
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
    error(at, spec, "has the writer 1; writers.tsv has writers 0 to 0");
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
