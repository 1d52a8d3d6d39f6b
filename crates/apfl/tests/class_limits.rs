//! Limits on the number and the length of labels of a table.

use apfl::error::Result;
use apfl::spec::Spec;
use apfl::training::Setup;

/// Reads a table of two clients with `labels` different labels, each with two training rows.
fn with_labels(labels: usize, label: &str, more: &str) -> Result<Setup> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("many.csv");
    let mut text = "client,x,label,split\n".to_string();
    for k in 0..2 * labels {
        text += &format!("c{},{k},{label}{},train\n", k % 2, k % labels);
    }
    text += &format!("c0,1,{label}0,valid\n");
    std::fs::write(&file, text).unwrap();
    let spec = format!(
        "[data]\nkind = 'table'\npath = '{}'\n{more}",
        file.display()
    );
    Spec::parse(&spec).unwrap().plan()?.setup()
}

fn refused(labels: usize, label: &str, more: &str, words: &[&str]) {
    let error = with_labels(labels, label, more).err().unwrap();
    let message = error.to_string();
    assert!(!error.is_request(), "exit status 1: {message}");
    for word in words {
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
    assert!(message.len() < 2000, "{} bytes", message.len());
}

#[test]
fn a_table_has_at_most_a_thousand_classes() {
    let classes = |setup: Setup| setup.context.dataset.schema().task.classes();
    assert_eq!(classes(with_labels(1000, "k", "").unwrap()), 1000);
    let words = [
        "many.csv",
        "column 'label'",
        "found 1001 classes",
        "at most 1000",
        "data.max_classes",
    ];
    refused(1001, "k", "", &words);
    let raised = with_labels(1001, "k", "max_classes = 1001").unwrap();
    assert_eq!(classes(raised), 1001);
    refused(6, "k", "max_classes = 5", &["found 6 classes", "at most 5"]);
    let declared: Vec<String> = (0..1001).map(|k| format!("'k{k}'")).collect();
    let declared = format!("classes = [{}]", declared.join(", "));
    refused(10, "k", &declared, &["found 1001 classes"]);
}

#[test]
fn a_label_has_at_most_a_kilobyte() {
    // With the number behind it 1000 and 1001 bytes.
    with_labels(3, &"x".repeat(999), "").unwrap();
    refused(3, &"x".repeat(1000), "", &["1001 bytes", "at most 1000"]);
    let long = "y".repeat(1001);
    let mapped = format!("label_map = {{ k0 = '{long}', '*' = 'other' }}");
    let words = ["'yyyyyyyyyyyyyyyyyyyy…' has 1001 bytes", "at most 1000"];
    refused(3, "k", &mapped, &words);
    let declared = format!("classes = ['k0', 'k1', 'k2', '{long}']");
    refused(3, "k", &declared, &words);
}
