//! The reader of a user's CSV: `cargo +nightly fuzz run csv fuzz/found/csv fuzz/corpus/csv`
#![no_main]

use apfl::data::Source;
use apfl::data::rows::CsvRows;
use apfl::spec::Spec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first byte picks one of four ways to read a table.
    let Some((first, csv)) = bytes.split_first() else {
        return;
    };
    let more = [
        "",
        "task = 'regression'\nstandardize = true",
        "client = ''\nclients = 2\npartition = 'dirichlet'",
        "min_examples = 3",
    ][usize::from(first % 4)];
    let spec = format!("[data]\nkind = 'table'\npath = 'x.csv'\n{more}");
    let plan = Spec::parse(&spec).and_then(|spec| spec.plan());
    let Ok(Source::Table(table)) = plan.map(|plan| plan.data) else {
        panic!("the spec is right")
    };
    if let Ok(mut rows) = CsvRows::new(csv) {
        let _ = table.take(&mut rows, Vec::new());
    }
});
