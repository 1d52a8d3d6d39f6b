//! Replays the fuzz targets' corpus: good files are read, bad files are refused, nothing panics.

use std::path::Path;

#[path = "../../../fuzz/readers.rs"]
mod readers;

fn replay(target: &str, read: readers::Reader) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut seen = [0, 0];
    for entry in std::fs::read_dir(folder.join(target)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let good = name.starts_with("good");
        assert!(good || name.starts_with("bad"), "{name}");
        let outcome = read(&std::fs::read(&path).unwrap());
        assert_eq!(outcome.is_ok(), good, "{target}/{name}: {outcome:?}");
        seen[usize::from(good)] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{target}: {seen:?}");
}

#[test]
fn everything_in_the_corpus() {
    replay("idx", readers::idx);
    replay("cifar", readers::cifar);
    replay("leaf", readers::leaf);
    replay("csv", readers::csv);
    replay("spec", readers::spec);
    replay("checkpoint", readers::checkpoint);
    replay("pack", readers::pack);
}
