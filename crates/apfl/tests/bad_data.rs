//! Wrong tables: each is refused with a message that names the file and the place, and
//! with exit status 1.

use apfl::error::{Error, Result};
use apfl::spec::Spec;
use apfl::training::{RoundRecord, Training};

use crate::small;

/// A spec for that table; `more` are further lines of `[data]`.
fn spec(table: &std::path::Path, more: &str) -> Spec {
    let text = format!(
        "[training]\nrounds = 3\nlearning_rate = 0.1\n[data]\nkind = 'table'\npath = '{}'\n{more}",
        table.display()
    );
    Spec::parse(&text).unwrap()
}

/// Trains on a table of that content.
fn train(content: &[u8], more: &str) -> Result<Vec<RoundRecord>> {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("my table.csv");
    std::fs::write(&table, content).unwrap();
    let plan = spec(&table, more).plan()?;
    let mut training = Training::new(plan.setup()?, &plan.algorithm)?;
    let mut records = Vec::new();
    while let Some(record) = training.next_round()? {
        records.push(record);
    }
    Ok(records)
}

/// The table is refused with status 1 and a message that has all of these words.
fn refused(content: &str, more: &str, words: &[&str]) {
    refused_bytes(content.as_bytes(), more, words);
}

fn refused_bytes(content: &[u8], more: &str, words: &[&str]) {
    let error = train(content, more).expect_err("a wrong table");
    let message = error.to_string();
    assert!(!error.is_request(), "{message}");
    for word in ["my table.csv"].iter().chain(words) {
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
}

const GOOD: &str = "client,x,label,split
a,1,yes,train
a,2,no,valid
b,3,no,train
b,4,yes,valid
";

#[test]
fn the_good_table_that_the_others_are_made_from_is_good() {
    assert_eq!(train(GOOD.as_bytes(), "").unwrap().len(), 3);
}

#[test]
fn missing_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nowhere.csv");
    let error = spec(&path, "")
        .plan()
        .unwrap()
        .setup()
        .expect_err("no file");
    assert!(matches!(error, Error::File { .. }));
    assert!(!error.is_request());
    assert!(
        error.to_string().contains("nowhere.csv: cannot read"),
        "{error}"
    );
}

#[test]
fn a_directory_is_not_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let error = spec(dir.path(), "")
        .plan()
        .unwrap()
        .setup()
        .expect_err("a directory");
    assert!(!error.is_request());
    assert!(
        error
            .to_string()
            .contains(&dir.path().display().to_string()),
        "{error}"
    );
}

#[test]
fn empty_file() {
    refused("", "", &["is empty", "name the columns"]);
    refused("\n\n", "", &["is empty"]);
}

#[test]
fn header_without_rows() {
    refused("client,x,label,split\n", "", &["a header but no rows"]);
}

#[test]
fn ragged_rows() {
    let short = GOOD.replace("b,3,no,train", "b,3,no");
    refused(&short, "", &["line 4 has 3 fields, the header has 4"]);
    let long = GOOD.replace("b,4,yes,valid", "b,4,yes,valid,7");
    refused(&long, "", &["line 5 has 5 fields, the header has 4"]);
}

#[test]
fn features_that_are_no_numbers() {
    for (cell, words) in [
        ("tall", "found 'tall', which is not a number"),
        ("1,5", "line 3 has 5 fields"),
        ("true", "found 'true', which is not a number"),
        ("-inf", "found '-inf', which is not finite"),
        ("1e39", "found '1e39', which is too large"),
        ("1e400", "found '1e400', which is not finite"),
    ] {
        let table = GOOD.replace("a,2,", &format!("a,{cell},"));
        refused(&table, "", &["line 3", words]);
        if cell != "1,5" {
            refused(&table, "", &["column 'x'"]);
        }
    }
}

#[test]
fn text_that_is_not_utf8() {
    let mut table = GOOD.as_bytes().to_vec();
    let at = GOOD.find("yes").unwrap();
    table[at] = 0xff;
    refused_bytes(&table, "", &["line 2, field 3", "UTF-8"]);
}

#[test]
fn lines_are_counted_as_an_editor_counts_them() {
    let wrong = GOOD.replace("b,3,", "b,three,"); // on line 4
    refused(&wrong, "", &["line 4, column 'x'"]);
    refused(&wrong.replace('\n', "\r\n"), "", &["line 4, column 'x'"]);
    let blank = wrong.replace("a,2,", "\n\na,2,");
    refused(&blank, "", &["line 6, column 'x'"]);
    let quoted = wrong.replace("a,2,no", "a,2,\"no\n\"");
    refused(&quoted, "", &["line 5, column 'x'"]);
}

#[test]
fn unknown_split() {
    let table = GOOD.replace("b,3,no,train", "b,3,no,tests");
    let words = [
        "line 4, column 'split'",
        "found 'tests'",
        "train, valid or test",
    ];
    refused(&table, "", &words);
}

#[test]
fn a_client_without_training_or_validation_examples() {
    let no_training = GOOD.replace("b,3,no,train", "b,3,no,valid");
    refused(
        &no_training,
        "",
        &["client 'b'", "no training example", "column 'split'"],
    );
    // A client without validation rows is allowed, a table without them is not.
    let no_validation = GOOD.replace("a,2,no,valid", "a,2,no,train");
    assert!(train(no_validation.as_bytes(), "").is_ok());
    // Without a split column the single row of 'b' is held out: ⌈0.2·1⌉ = 1.
    let single = "client,x,label\na,1,yes\na,2,no\na,3,no\nb,4,yes\n";
    refused(
        single,
        "",
        &["client 'b'", "no training example", "data.min_examples = 2"],
    );
    assert!(
        train(single.as_bytes(), "min_examples = 2").is_ok(),
        "the way out works"
    );
}

#[test]
fn labels_without_training_rows() {
    let table = GOOD.replace("b,4,yes,valid", "b,4,maybe,valid");
    refused(
        &table,
        "",
        &["line 5", "label 'maybe'", "client 'b'", "training rows"],
    );
    let one = GOOD.replace("b,3,no,train", "b,3,yes,train");
    refused(
        &one,
        "",
        &["every training row has the label 'yes'", "column 'label'"],
    );
}

#[test]
fn labels_that_are_no_values() {
    let table = "client,x,label,split\na,1,2,train\na,1,3,valid\na,2,high,train\n";
    let words = [
        "line 4, column 'label'",
        "found 'high', which is not a number",
    ];
    refused(table, "task = 'regression'", &words);
}

#[test]
fn empty_cells_of_client_and_label() {
    let client = GOOD.replace("b,3,no,train", " ,3,no,train");
    refused(&client, "", &["line 4", "client is empty"]);
    let label = GOOD.replace("b,3,no,train", "b,3,,train");
    refused(&label, "", &["line 4", "label is empty"]);
}

#[test]
fn columns_that_are_missing_or_double() {
    let double = GOOD.replace("client,x,label", "client,label,label");
    refused(&double, "", &["columns 2 and 3 are both named 'label'"]);
    let words = [
        "no column 'client'",
        "who, x, label, split",
        "data.client = \"\"",
    ];
    refused(&GOOD.replace("client", "who"), "", &words);
    let words = ["no column 'label'", "data.label"];
    refused(&GOOD.replace("label", "y"), "", &words);
    refused(GOOD, "split = 'part'", &["no column 'part'", "data.split"]);
    let bare = "client,label\na,1\na,2\na,1\n";
    refused(bare, "", &["no column is left for features"]);
}

#[test]
fn a_data_frames_index_is_no_feature() {
    let index = GOOD.replacen("client", ",client", 1);
    let index = index.replace("\na", "\n0,a").replace("\nb", "\n1,b");
    refused(&index, "", &["column 1 is without a name", "index=False"]);
    let named = index.replacen(",client", "__index_level_0__,client", 1);
    refused(&named, "", &["'__index_level_0__', a data frame's index"]);
}

#[test]
fn nothing_where_a_number_should_be() {
    // Training rows x = 1 and 3: where one is missing it is marked, and the mean is 1.
    for word in ["", " ", "NA", "null", "?", "nan"] {
        let holed = GOOD.replace("b,3", &format!("b,{word}"));
        assert!(train(holed.as_bytes(), "").is_ok(), "{word}");
        let words = ["line 4, column 'x'", "data.categorical"];
        if !word.trim().is_empty() {
            refused(&holed, "missing = []", &words);
        }
    }
    let long = GOOD.replace("b,3", &format!("b,{}", "9x".repeat(100_000)));
    let message = train(long.as_bytes(), "").unwrap_err().to_string();
    assert!(message.len() < 400, "{} bytes", message.len());
    let label = GOOD.replace("3,no", &format!("3,{}", "n".repeat(1001)));
    refused(&label, "", &["line 4, column 'label'", "at most 1000"]);
}

#[test]
fn numbers_to_predict_are_not_taken_for_classes() {
    let mut table = "client,x,label\n".to_string();
    (0..60).for_each(|k| table += &format!("c{},{k},{}.5\n", k % 3, 7 * k));
    refused(&table, "", &["different numbers as classes", "regression"]);
    assert!(train(table.as_bytes(), "task = 'regression'\nstandardize = true").is_ok());
}

#[test]
fn more_clients_than_rows() {
    let words = ["4 examples are too few for 5 clients", "data.clients"];
    let table = "x,label\n1,yes\n2,no\n3,yes\n4,no\n";
    refused(table, "client = ''\nclients = 5", &words);
}

#[test]
fn a_rate_that_blows_up_names_the_client() {
    // Client 'wild' sees 1e30 as a feature: its first step ends far out, its next loss
    // is not a number any more. 'tame' comes first and is fine.
    let table = "client,x,label,split\ntame,1,yes,train\ntame,1,no,train\ntame,1,no,valid\n\
                 wild,1e30,yes,train\nwild,-1e30,no,train\nwild,2e30,yes,train\nwild,1,no,valid\n";
    for algorithm in apfl::algorithm::every_algorithm() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        std::fs::write(&path, table).unwrap();
        let mut spec = spec(&path, "");
        spec.set(&format!("algorithm={algorithm}")).unwrap();
        let mut spec = small::fitting(spec);
        let has_layers = spec.plan().unwrap().algorithm.properties().layers.is_some();
        if has_layers || algorithm.contains("projection") {
            // A network, or a small ball, keeps the loss finite; a step beyond all numbers does
            // not end there.
            spec.set("training.learning_rate=1e12").unwrap();
        }
        let plan = spec.plan().unwrap();
        let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
        // L2GD's first round may have no local step.
        let error = (0..3)
            .find_map(|_| training.next_round().err())
            .unwrap_or_else(|| panic!("{algorithm}: a loss that is not finite"));
        assert!(!error.is_request());
        let message = error.to_string();
        match error {
            Error::NonFinite { client, loss, .. } => {
                assert_eq!(client, "wild", "{algorithm}: {message}");
                assert!(!loss.is_finite());
            }
            other => panic!("{algorithm}: {other}"),
        }
        for word in ["client 'wild'", "round ", "learning_rate"] {
            assert!(message.contains(word), "no {word:?} in: {message}");
        }
    }
}

/// What never ends its row would fill the memory: a line without an end, or a quote whose text
/// goes on over all lines.
#[test]
fn a_row_without_an_end_is_refused_before_it_fills_the_memory() {
    use std::io::Read;
    let endless = |first: &'static [u8], line: &'static [u8]| {
        let lines = (0..u64::MAX).flat_map(move |_| line.iter().copied());
        let bytes = first.iter().copied().chain(lines);
        apfl::data::rows::open_csv(Box::new(Endless(Box::new(bytes))), None)
            .and_then(|mut rows| rows.advance().map(|_| ()))
    };
    for (first, line) in [
        (&b""[..], &b"aaaaaaaaaaaaaaaa"[..]),
        (b"client,label,x\n", b"aaaa,aaaa"),
        (b"client,label,x\na,1,\"2\n", b"a,1,2\n"),
    ] {
        let said = endless(first, line).unwrap_err();
        assert!(said.contains("more than 32 MB"), "{said}");
    }

    struct Endless(Box<dyn Iterator<Item = u8>>);
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            for place in buffer.iter_mut() {
                *place = self.0.next().expect("it does not end");
            }
            Ok(buffer.len())
        }
    }
}
