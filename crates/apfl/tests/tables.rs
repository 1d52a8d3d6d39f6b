//! Tables as people have them: text, gaps, booleans, dates; the same from any source.

use std::collections::BTreeMap;
use std::fs;

use apfl::data::table::{Column, Columns, Encoding, Preparation, Scale, Stream, Survey, Table};
use apfl::data::{Dataset, Features, InMemory, Normalization, Source};
use apfl::spec::Spec;
use proptest::prelude::*;

/// The table of a spec with those lines of `[data]`.
fn table(more: &str) -> Table {
    let spec = format!("[data]\nkind = 'table'\npath = []\n{more}");
    match Spec::parse(&spec).unwrap().plan().unwrap().data {
        Source::Table(table) => table,
        _ => unreachable!("the kind is said"),
    }
}

fn stream(text: &str) -> Stream {
    Stream {
        name: "t.csv".into(),
        bytes: text.as_bytes().to_vec(),
        header: None,
    }
}

pub fn taken(text: &str, more: &str) -> InMemory {
    table(more)
        .load_from(&stream(text))
        .unwrap_or_else(|e| panic!("{e}"))
}

fn refused(text: &str, more: &str) -> String {
    let error = table(more)
        .load_from(&stream(text))
        .map(|_| ())
        .unwrap_err();
    assert!(!error.is_request());
    error.to_string()
}

fn preparation(data: &InMemory) -> &Preparation {
    match &data.schema.normalization {
        Normalization::Prepared(preparation) => preparation,
        other => panic!("{other:?}"),
    }
}

pub fn x(features: &Features) -> &[f32] {
    match features {
        Features::Floats(x) => x,
        Features::Bytes(..) => panic!("numbers expected"),
    }
}

const MIXED: &str = "client,label,split,age,cp,smokes,when
a,ill,train,40,1.0,True,2020-01-01
a,well,train,?,4,false,2020-01-02
a,ill,valid,,9,TRUE,2020-01-03
b,well,train,60,4.0,,2020-01-04
b,ill,test,50,,true,2020-01-05
";

#[test]
fn columns_become_features() {
    let data = taken(MIXED, "categorical = ['cp']\nignore = ['when']");
    // cp is 1 or 4; age 40 and 60 in training, one missing; smokes true and false, one missing.
    let names = ["age", "age?", "cp=1", "cp=4", "cp=*", "smokes", "smokes?"];
    assert_eq!(data.schema.features, names);
    let [a, b] = &data.shards[..] else {
        panic!("two clients")
    };
    assert_eq!(
        x(a.train.features()),
        [
            40.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, //
            50.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0,
        ]
    );
    assert_eq!(x(a.valid.features()), [50.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    assert_eq!(x(b.train.features()), [60.0, 0.0, 0.0, 1.0, 0.0, 0.5, 1.0]);
    assert_eq!(x(b.test.features()), [50.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    assert_eq!((data.sizes(1), data.test_size(1)), ((1, 0), 1));
    let said = data.notes().join("\n");
    for words in [
        "age: 1 missing cell filled with 50.00",
        "cp: 2 categories",
        "smokes: 1 missing cell",
        "when ignored",
        "1 of 2 clients have no validation rows",
        "\"none of these\": cp (1)",
    ] {
        assert!(said.contains(words), "no {words:?} in\n{said}");
    }
}

#[test]
fn a_clients_own_moments_and_the_federations() {
    let text = "client,label,split,v,n\na,p,train,1,1\na,q,train,3,2\na,p,valid,,3\n\
                b,p,train,10,4\nb,q,train,,5\nb,p,valid,20,6\nc,p,train,,7\nc,q,valid,9,8\n";
    let data = taken(text, "standardize = 'client'\nignore = ['n']");
    // a: mean 2, deviation 1; b: 10, constant; c has none and takes the federation's:
    // 1, 3, 10 have mean 14/3.
    let own = &preparation(&data).clients;
    let scale = |mean, deviation| Some(Scale { mean, deviation });
    assert_eq!(own["a"], [scale(2.0, 1.0)]);
    assert_eq!(own["b"], [scale(10.0, 1.0)]);
    assert_eq!(own["c"], [None]);
    assert_eq!(x(data.shards[0].train.features()), [-1.0, 0.0, 1.0, 0.0]);
    assert_eq!(x(data.shards[0].valid.features()), [0.0, 1.0]);
    assert_eq!(x(data.shards[1].train.features()), [0.0, 0.0, 0.0, 1.0]);
    assert_eq!(x(data.shards[1].valid.features()), [10.0, 0.0]);
    assert_eq!(x(data.shards[2].train.features()), [0.0, 1.0]);
    let variance = (1.0 + 9.0 + 100.0) / 3.0 - (14.0f64 / 3.0).powi(2);
    let expected = (9.0 - 14.0 / 3.0) / variance.sqrt();
    let found = f64::from(x(data.shards[2].valid.features())[0]);
    assert!((found - expected).abs() < 1e-6, "{found} {expected}");
}

#[test]
fn a_table_in_memory_is_the_same_table() {
    let text = |cell: [&str; 5]| {
        Some(
            cell.map(|c| (!c.is_empty()).then(|| c.to_string()))
                .to_vec(),
        )
    };
    let columns = || -> apfl::Result<Columns> {
        Columns::new()
            .with(
                "client",
                Column::Texts(text(["a", "a", "a", "b", "b"]).unwrap()),
            )?
            .with(
                "label",
                Column::Categories {
                    names: vec!["ill".into(), "well".into()],
                    codes: vec![Some(0), Some(1), Some(0), Some(1), Some(0)],
                },
            )?
            .with(
                "split",
                Column::Texts(text(["train", "train", "valid", "train", "test"]).unwrap()),
            )?
            .with(
                "age",
                Column::Floats(vec![40.0, f32::NAN, f32::NAN, 60.0, 50.0]),
            )?
            .with(
                "cp",
                Column::Integers(vec![Some(1), Some(4), Some(9), Some(4), None]),
            )?
            .with(
                "smokes",
                Column::Booleans(vec![Some(true), Some(false), Some(true), None, Some(true)]),
            )?
            .with("when", Column::Other("timestamp".into(), 5))
    };
    let columns = columns().unwrap();
    for standardize in ["false", "true", "'client'"] {
        let more = format!("categorical = ['cp']\nignore = ['when']\nstandardize = {standardize}");
        let (file, state) = (
            taken(MIXED, &more),
            table(&more).load_from(&columns).unwrap(),
        );
        assert_eq!(file.schema, state.schema);
        for (a, b) in file.shards.iter().zip(&state.shards) {
            assert_eq!(a.name, b.name);
            assert_eq!((&a.train, &a.valid, &a.test), (&b.train, &b.valid, &b.test));
        }
    }
    let message = table("")
        .load_from(&columns)
        .map(|_| ())
        .unwrap_err()
        .to_string();
    let words = ["column 'when'", "is a timestamp", "data.ignore"];
    assert!(words.iter().all(|w| message.contains(w)), "{message}");
}

#[test]
fn files_without_header_and_names_for_labels() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("north.data", "1.0,0\n2.0,3\n3.0,1\n2.5,0\n");
    write("south.data", "1,0\n4,2\n5,0.0\n");
    let spec = format!(
        "[data]\nkind = 'table'\npath = ['{0}/north.data', '{0}/south.data']\n\
         client = {{ file = true }}\nheader = ['v', 'num']\nlabel = 'num'\n\
         label_map = {{ '0' = 'healthy', '*' = 'ill' }}\ncategorical = ['v']",
        dir.path().display()
    );
    let plan = Spec::parse(&spec).unwrap().plan().unwrap();
    let again = Spec::parse(&plan.to_toml()).unwrap().plan().unwrap();
    assert_eq!(plan.resolved, again.resolved);
    let data = plan.data.load().unwrap();
    assert_eq!(
        (data.name(0), data.name(1)),
        ("north".into(), "south".into())
    );
    assert_eq!(data.schema().task.classes(), 2);
    // 1.0 and 1 are one value, not two that would tell the files apart.
    let ones = data
        .schema()
        .features
        .iter()
        .filter(|f| *f == "v=1" || *f == "v=1.0");
    assert!(ones.count() <= 1);
}

#[test]
fn what_is_wrong_is_told_together_with_the_way_out() {
    let text = "client,label,x,d,c\na,p,1,2020-01-01,1\na,q,two,2020-01-02,k\n\
                a,q,3,2020-01-03,2\na,p,4,2020-01-04,3\n,p,5,2020-01-05,4\na,?,6,2020-01-06,5\n";
    let message = refused(text, "validation = 0.01");
    for words in [
        "t.csv: 5 problems",
        "line 6: the client is empty",
        "line 7, column 'label': found '?'",
        "line 3, column 'x': found 'two'",
        "column 'd'",
        "contains dates or times",
        "column 'c': found 'k'",
        "data.missing",
        "data.categorical",
        "data.ignore",
    ] {
        assert!(message.contains(words), "no {words:?} in\n{message}");
    }
    let many: String = (0..40).map(|k| format!("a,p,{k},7\n")).collect();
    let message = refused(&format!("client,label,x\n{many}"), "");
    assert!(message.contains("20 or more problems"), "{message}");
    let values: String = (0..400).map(|k| format!("a,{},v{k}\n", k % 2)).collect();
    let message = refused(&format!("client,label,x\n{values}"), "");
    assert!(
        message.contains("more than 100 different values"),
        "{message}"
    );
    let empty = "client,label,x\na,p,?\na,q,\na,q,NA\na,p,\n";
    let message = refused(empty, "");
    assert!(
        message.contains("column 'x' is empty in every training row"),
        "{message}"
    );
    let message = refused(MIXED, "ignore = ['age', 'cp', 'smokes', 'when']");
    assert!(message.contains("no column is left"), "{message}");
    let message = refused(MIXED, "ignore = ['agee']");
    assert!(
        message.contains("no column 'agee' (data.ignore)"),
        "{message}"
    );
}

#[test]
fn a_test_part_leaves_validation_as_it_was() {
    let rows: String = (0..50).map(|k| format!("a,{},{k}\n", k % 2)).collect();
    let text = format!("client,label,x\n{rows}");
    let (plain, tested) = (taken(&text, ""), taken(&text, "test = 0.1"));
    assert_eq!((plain.sizes(0), plain.test_size(0)), ((40, 10), 0));
    assert_eq!((tested.sizes(0), tested.test_size(0)), ((35, 10), 5));
    assert_eq!(plain.shards[0].valid, tested.shards[0].valid);
    let problem = Spec::parse("data = { validation = 0.5, test = 0.5 }").unwrap();
    assert!(
        problem
            .plan()
            .unwrap_err()
            .to_string()
            .contains("data.test")
    );
}

/// Every client's rows as a table of its own.
fn apart(rows: &[(usize, String)]) -> Vec<String> {
    let mut tables: BTreeMap<usize, String> = BTreeMap::new();
    let mut order = Vec::new();
    for (client, row) in rows {
        if !order.contains(client) {
            order.push(*client);
        }
        let head = || "client,label,split,v,w,t\n".to_string();
        *tables.entry(*client).or_insert_with(head) += &format!("c{client},{row}\n");
    }
    order
        .into_iter()
        .map(|client| tables[&client].clone())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A table split by client, surveyed apart and merged, gives the same schema to the bit.
    #[test]
    fn surveys_made_apart_are_those_of_one_table(
        rows in prop::collection::vec(
            (0usize..4, prop::bool::ANY, -1e3f64..1e3, 0u8..5, prop::option::of(prop::bool::ANY)),
            8..40,
        )
    ) {
        let rows: Vec<(usize, String)> = rows
            .iter()
            .enumerate()
            .map(|(k, (client, train, v, w, t))| {
                // The first two rows make sure of two classes.
                let train = if k < 2 || *train { "train" } else { "valid" };
                let w = ["red", "7", "7.0", "", "blue"][usize::from(*w)];
                let t = t.map_or(String::new(), |t| t.to_string());
                let v = if k % 5 == 4 { String::new() } else { v.to_string() };
                (*client, format!("{},{train},{v},{w},{t}", ["p", "q"][k % 2]))
            })
            .collect();
        let whole: String = rows.iter().map(|(c, row)| format!("c{c},{row}\n")).collect();
        let whole = format!("client,label,split,v,w,t\n{whole}");
        let table = table("categorical = ['w']\nstandardize = true");
        let columns = ["v", "w", "t"].map(String::from);
        let together = table.survey(&stream(&whole)).unwrap();
        let merged = Survey::merged(together.surveys()).unwrap();
        let each: Vec<Survey> = apart(&rows)
            .iter()
            .flat_map(|text| table.survey(&stream(text)).unwrap().surveys().to_vec())
            .collect();
        let of_parts = Survey::merged(&each).unwrap();
        prop_assert_eq!(&merged, &of_parts);
        let (a, b) = (table.agree(&columns, &merged), table.agree(&columns, &of_parts));
        prop_assert_eq!(&a, &b);
        let through_json = |s: &Survey| -> Survey {
            serde_json::from_str(&serde_json::to_string(s).unwrap()).unwrap()
        };
        prop_assert_eq!(&through_json(&merged), &merged);
    }
}

/// The four hospitals as they are published, where they are here.
#[test]
fn the_heart_tables_train_as_they_are() {
    let Some(folder) = crate::published_data::folder("heart") else {
        return;
    };
    let names = ["cleveland", "hungarian", "switzerland", "va"];
    let file = |name: &str| folder.join(format!("processed.{name}.data"));
    let paths: Vec<String> = names
        .iter()
        .map(|n| format!("'{}'", file(n).display()))
        .collect();
    let more = "client = { file = true }\nlabel = 'num'\nstandardize = true\n\
         label_map = { '0' = 'healthy', '*' = 'ill' }\n\
         categorical = ['cp', 'restecg', 'slope', 'thal']\n\
         header = ['age', 'sex', 'cp', 'trestbps', 'chol', 'fbs', 'restecg', 'thalach', 'exang', \
         'oldpeak', 'slope', 'ca', 'thal', 'num']";
    let spec = format!(
        "[data]\nkind = 'table'\npath = [{}]\n{more}",
        paths.join(", ")
    );
    let plan = Spec::parse(&spec).unwrap().plan().unwrap();
    let data = plan.data.load().unwrap();
    assert_eq!(data.clients(), 4);
    // cp is 1, 2, 3, 4 in every hospital, whether written 1 or 1.0.
    let cp = data
        .schema()
        .features
        .iter()
        .filter(|f| f.starts_with("cp="));
    assert_eq!(cp.count(), 5);
}

#[test]
fn encodings_say_what_they_are() {
    let data = taken(MIXED, "categorical = ['cp']\nignore = ['when']");
    let json = serde_json::to_value(&data.schema).unwrap();
    let columns = &json["normalization"]["columns"];
    assert_eq!(json["normalization"]["kind"], "prepared");
    assert_eq!(columns[0]["type"], "number");
    assert_eq!(columns[1]["values"], serde_json::json!(["1", "4"]));
    assert_eq!(columns[2]["type"], "truth");
    let again: apfl::data::Schema = serde_json::from_value(json).unwrap();
    assert_eq!(again, data.schema);
    assert!(matches!(
        preparation(&data).columns[1].encoding,
        Encoding::Category { .. }
    ));
}
