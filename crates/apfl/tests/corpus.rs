//! The fuzz targets' corpus, replayed: what is called good is read, what is called bad
//! is refused, and nothing panics.

use std::path::Path;

use apfl::data::idx::Array;
use apfl::data::rows::CsvRows;
use apfl::data::{Source, cifar10, leaf};
use apfl::spec::Spec;

fn replay(target: &str, read: impl Fn(&[u8]) -> Result<(), String>) {
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
fn idx() {
    replay("idx", |bytes| Array::parse(bytes).map(|_| ()));
}

#[test]
fn cifar() {
    replay("cifar", |bytes| {
        let (mut pixels, mut labels) = (Vec::new(), Vec::new());
        cifar10::parse(bytes, &mut pixels, &mut labels)?;
        assert_eq!(pixels.len(), 3072 * labels.len());
        Ok(())
    });
}

#[test]
fn leaf_files() {
    replay("leaf", |bytes| leaf::parse(bytes).map(|_| ()));
}

/// The first byte picks how the table is read, as in the fuzz target.
#[test]
fn csv() {
    let ways = [
        "",
        "task = 'regression'\nstandardize = true",
        "client = ''\nclients = 2\npartition = 'dirichlet'",
        "min_examples = 3",
    ];
    replay("csv", |bytes| {
        let (first, csv) = bytes.split_first().unwrap();
        let way = ways[usize::from(first % 4)];
        let spec = format!("[data]\nkind = 'table'\npath = 'x.csv'\n{way}");
        let plan = Spec::parse(&spec).unwrap().plan().unwrap();
        let Source::Table(table) = plan.data else {
            panic!("a table")
        };
        let mut rows = CsvRows::new(csv)?;
        let taken = table.take(&mut rows, Vec::new());
        taken.map(|_| ()).map_err(|e| e.to_string())
    });
}
