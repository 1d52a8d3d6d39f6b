//! LEAF's JSON.

use std::fs;

use apfl::data::{Features, Targets};

use super::{error, gzipped, load};

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
        "found the label 2, allowed is 0 to 1",
    );
    refuse(
        &train.replace("[0.4, 0.6]", "[0.4]"),
        "row 1 has 1 numbers, the first has 2",
    );
    refuse(&train.replace("0.6", "1e39"), "number out of range");
    refuse(
        &train.replace("\"u\", \"v\"", "\"u\", \"w\""),
        "the user 'w' is missing in user_data",
    );
    refuse(
        &train.replace("2, 1]", "2]"),
        "2 users, 1 entries in num_samples",
    );
    refuse(&train[..train.len() - 2], "is not a LEAF file");
    fs::write(at.join("train/a.json"), &train).unwrap();
    fs::write(at.join("train/b.json"), &train).unwrap();
    error(at, spec, "b.json: the user 'u' is also in another file");
    error(
        at,
        "kind = 'leaf'\ndir = 'DIR/none'",
        "none/train: does not exist",
    );
    // One stray label does not make a model of 65,536 outputs.
    fs::remove_file(at.join("train/b.json")).unwrap();
    let stray = train.replace("[0, 2]", "[0, 65535]");
    assert_ne!(stray, train);
    fs::write(at.join("train/a.json"), &stray).unwrap();
    error(at, spec, "the largest label is 65535");
    let many = format!("{spec}\nclasses = 65536");
    error(at, &many, "found 65536 classes, at most 1000 are allowed");
    load(at, &format!("{many}\nmax_classes = 65536")).unwrap();
}
