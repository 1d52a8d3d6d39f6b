//! Agreements that contradict the accepted terms or a site's own survey are refused, whatever the
//! server wrote into them.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::wire::{Outcome, Request, ask, survey};
use super::{Post, Room, spec};
use apfl::error::SiteCode;
use apfl::federation::{Node, Server, Site, terms_of};
use apfl::run::Program;
use apfl::spec::Plan;

/// The plan's honest agreement.
fn honest(room: &Room, plan: &Plan) -> Value {
    let post: Arc<Mutex<Post>> = room.post("honest");
    let server = Server::new(
        plan.clone(),
        Program::default(),
        post,
        room.path("run"),
        false,
    );
    let (agreement, _) = server.convene(None).unwrap();
    serde_json::from_str(&agreement.to_json()).unwrap()
}

fn agree(site: &Site, agreement: &Value) -> Result<(), SiteCode> {
    let (_, result) = ask(site, &Request::Agree(agreement.to_string().into_bytes()));
    result.map(|outcome| assert!(matches!(outcome, Outcome::Agreed)))
}

fn prepared(agreement: &mut Value) -> &mut Value {
    &mut agreement["schema"]["normalization"]
}

/// The columns: age (number with gaps), pressure (number), colour (category), smokes (truth).
fn column(agreement: &mut Value, k: usize) -> &mut Value {
    &mut prepared(agreement)["columns"][k]
}

/// Writes the features that the columns have, so that the lie is not found by their names.
fn fit_features(agreement: &mut Value) {
    let mut names: Vec<String> = Vec::new();
    for column in agreement["schema"]["normalization"]["columns"]
        .as_array()
        .unwrap()
    {
        let name = column["name"].as_str().unwrap();
        if column["type"] == "category" {
            for value in column["values"].as_array().unwrap() {
                names.push(format!("{name}={}", value.as_str().unwrap()));
            }
            names.push(format!("{name}=*"));
        } else {
            names.push(name.into());
            if column["indicator"] == true {
                names.push(format!("{name}?"));
            }
        }
    }
    agreement["schema"]["shape"] = json!([names.len()]);
    agreement["schema"]["features"] = json!(names);
}

type Lie = (&'static str, fn(&mut Value), &'static str);

/// Asserts that a site which sent its survey refuses every lie, and then accepts the truth.
fn refused(more: &str, lies: &[Lie]) {
    let room = Room::new();
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", more)
        .plan()
        .unwrap();
    let truth = honest(&room, &plan);
    let terms = terms_of(&plan, &Program::default()).unwrap();
    let site = Post::new(room.0.path(), &room.path("states")).sites[0].clone();
    survey(&site, &terms).1.unwrap();
    for (name, lie, reason) in lies {
        let mut altered = truth.clone();
        lie(&mut altered);
        assert_ne!(altered, truth, "{name}");
        fit_features(&mut altered);
        let before = log(&site).len();
        assert_eq!(
            agree(&site, &altered),
            Err(SiteCode::Order),
            "{name}: {}",
            log(&site)
        );
        let said = log(&site)[before..].to_owned();
        assert!(said.contains(reason), "{name}: {said}");
    }
    agree(&site, &truth).unwrap();
    let status = Node::status(&site.state).unwrap();
    assert_eq!(status.agreement.unwrap().1.len(), 4);
}

fn log(site: &Site) -> String {
    std::fs::read_to_string(site.state.join("log")).unwrap()
}

#[test]
fn other_numbers_than_possible() {
    refused(
        "",
        &[
            (
                "a mean far from the site's own, with the true deviation",
                |a| {
                    let mean = 1e4;
                    column(a, 1)["fill"] = json!(mean);
                    column(a, 1)["scale"]["mean"] = json!(mean);
                },
                "column 'pressure': a deviation of",
            ),
            (
                "a tenth of the deviation",
                |a| {
                    let deviation = column(a, 1)["scale"]["deviation"].as_f64().unwrap();
                    column(a, 1)["scale"]["deviation"] = json!(deviation / 10.0);
                },
                "column 'pressure': a deviation of",
            ),
            (
                "a mean that others' numbers cannot make",
                |a| {
                    column(a, 1)["fill"] = json!(3.405e38);
                    column(a, 1)["scale"] = json!({ "mean": 3.405e38, "deviation": 3e37 });
                },
                "column 'pressure': a deviation of",
            ),
            (
                "a negative deviation",
                |a| column(a, 1)["scale"]["deviation"] = json!(-25.0),
                "column 'pressure': the deviation -2.5e1 is out of range",
            ),
            (
                "no deviation",
                |a| column(a, 1)["scale"]["deviation"] = json!(0.0),
                "the deviation 0e0 is out of range",
            ),
            (
                "a deviation that is not a number",
                |a| column(a, 1)["scale"]["deviation"] = Value::Null,
                "the agreement is invalid",
            ),
            (
                "a fill of 1e300",
                |a| column(a, 0)["fill"] = json!(1e300),
                "column 'age': the value 1e300 of missing cells is out of range",
            ),
            (
                "another fill than the mean",
                |a| column(a, 0)["fill"] = json!(40.5),
                "column 'age' is a number filled with 40.5",
            ),
            (
                "no standardization",
                |a| {
                    column(a, 0).as_object_mut().unwrap().remove("scale");
                },
                "column 'age' is a number filled with",
            ),
            (
                "no mark of missing cells",
                |a| column(a, 0)["indicator"] = json!(false),
                "without a mark of missing cells, the terms make it",
            ),
            (
                "fewer missing cells than the site's own",
                |a| column(a, 0)["missing"] = json!(1),
                "column 'age': found 1 missing cells, this site alone has",
            ),
            (
                "more missing cells than rows",
                |a| column(a, 0)["missing"] = json!(u64::MAX),
                "column 'age' has more missing cells than there are training rows",
            ),
            (
                "a share of true cells above 1",
                |a| column(a, 3)["fill"] = json!(1.5),
                "column 'smokes': the share 1.5e0",
            ),
            (
                "a share of true cells that no number of rows has",
                |a| column(a, 3)["fill"] = json!(0.333),
                "column 'smokes' is true or false filled with 0.333",
            ),
            (
                "fewer true cells than the site's own",
                |a| column(a, 3)["fill"] = json!(0.0),
                "column 'smokes': found 0 true cells",
            ),
            (
                "scales of one client",
                |a| {
                    let own = json!({ "north": [null, null, null, null] });
                    prepared(a)["clients"] = own;
                },
                "scales of single clients",
            ),
            (
                "a standardized label",
                |a| prepared(a)["label"] = json!({ "mean": 1.0, "deviation": 2.0 }),
                "the label's standardization",
            ),
        ],
    );
}

#[test]
fn other_categories_classes_and_words() {
    refused(
        "",
        &[
            (
                "another order of categories",
                |a| column(a, 2)["values"].as_array_mut().unwrap().reverse(),
                "column 'colour' is a category of 3 values: 'red'",
            ),
            (
                "a category twice",
                |a| column(a, 2)["values"] = json!(["blue", "green", "green", "red"]),
                "column 'colour' is a category of 4 values",
            ),
            (
                "a lost category",
                |a| column(a, 2)["values"] = json!(["blue", "red"]),
                "column 'colour': this site's value 'green' is missing",
            ),
            (
                "too many categories",
                |a| {
                    let values: Vec<String> = (100..201).map(|k| format!("v{k}")).collect();
                    column(a, 2)["values"] = json!(values);
                },
                "column 'colour' has more than 100 different values",
            ),
            (
                "numbers as categories",
                |a| {
                    let name = column(a, 1)["name"].clone();
                    *column(a, 1) = json!({ "name": name, "missing": 0, "type": "category",
                        "values": ["100", "101"] });
                },
                "column 'pressure': it is a category, which this table does not allow",
            ),
            (
                "text as numbers",
                |a| {
                    let name = column(a, 2)["name"].clone();
                    *column(a, 2) = json!({ "name": name, "missing": 0, "type": "number",
                        "fill": 1.0, "scale": { "mean": 1.0, "deviation": 1.0 },
                        "indicator": false });
                },
                "column 'colour': it is a number, which this table does not allow",
            ),
            (
                "another order of classes",
                |a| a["schema"]["classes"].as_array_mut().unwrap().reverse(),
                "its task or its classes, or their order",
            ),
            (
                "one class more, which nobody has",
                |a| {
                    a["schema"]["classes"] = json!(["dead", "ill", "well"]);
                    a["classes"].as_array_mut().unwrap().insert(0, json!(0));
                },
                "class 'dead' has 0 training rows",
            ),
            (
                "other classes",
                |a| a["schema"]["classes"] = json!(["sick", "sound"]),
                "this site's label 'ill' is missing",
            ),
            (
                "fewer rows of a class than the site's own",
                |a| a["classes"][0] = json!(1),
                "class 'ill' has 1 training rows",
            ),
            (
                "counts that overflow",
                |a| a["classes"][0] = json!(u64::MAX),
                "its class counts do not add up",
            ),
            (
                "fewer counts than classes",
                |a| a["classes"] = json!([100]),
                "its class counts do not match its classes",
            ),
            (
                "another word for missing cells",
                |a| {
                    prepared(a)["missing"]
                        .as_array_mut()
                        .unwrap()
                        .push(json!("red"))
                },
                "its cells that mean \"not known\" are not data.missing",
            ),
            (
                "ignored columns",
                |a| prepared(a)["ignored"] = json!(["age"]),
                "its columns to leave out are not data.ignore",
            ),
            (
                "regression",
                |a| {
                    a["schema"]["task"] = json!("regression");
                    a["schema"].as_object_mut().unwrap().remove("classes");
                    a["classes"] = json!([]);
                },
                "its task or its classes, or their order",
            ),
        ],
    );
}

#[test]
fn other_rows_and_sites() {
    refused(
        "",
        &[
            (
                "2⁶⁴ − 1 rows of another site",
                |a| a["roster"][1]["rows"][0] = json!(u64::MAX),
                "rows of site 'south'; allowed are 1 or more for training and at most 4294967294",
            ),
            (
                "rows whose sum overflows",
                |a| a["roster"][1]["rows"] = json!([1, u64::MAX, u64::MAX]),
                "rows of site 'south'",
            ),
            (
                "no training rows",
                |a| a["roster"][3]["rows"][0] = json!(0),
                "rows of site 'west'",
            ),
            (
                "one row less of another site, whose classes are counted",
                |a| {
                    let rows = a["roster"][1]["rows"][0].as_u64().unwrap();
                    a["roster"][1]["rows"][0] = json!(rows - 1);
                },
                "column 'smokes' is true or false",
            ),
            (
                "another site",
                |a| a["roster"][2]["name"] = json!("elsewhere"),
                "sites differ from federation.sites",
            ),
            (
                "columns of another order than those that are prepared",
                |a| a["columns"].as_array_mut().unwrap().reverse(),
                "prepares other columns than it lists",
            ),
        ],
    );
}

/// What the spec declares is as the spec says, not as the server says.
#[test]
fn declared_properties_are_those_of_the_spec() {
    let more = "data.categories={ colour = ['red', 'green', 'blue'] }
         data.moments={ age = { mean = 50, deviation = 17.5 } }
         data.classes=['well', 'ill']
         training.class_weights=none\nfederation.disclose=[]";
    refused(
        more,
        &[
            (
                "another mean",
                |a| {
                    column(a, 0)["fill"] = json!(51.0);
                    column(a, 0)["scale"]["mean"] = json!(51.0);
                },
                "column 'age' is a number filled with 51, by mean 51 and deviation 17.5, with a \
                 mark of missing cells, the terms make it a number filled with 50",
            ),
            (
                "another category",
                |a| column(a, 2)["values"] = json!(["blue", "green", "violet"]),
                "column 'colour' is a category of 3 values: 'blue', 'green', 'violet', the terms",
            ),
            (
                "another class",
                |a| a["schema"]["classes"] = json!(["ill", "unwell"]),
                "its task or its classes",
            ),
            (
                "counts that nobody sent",
                |a| a["classes"] = json!([100, 100]),
                "it counts classes that nobody counted",
            ),
        ],
    );
}

/// Means that others' rows could make are accepted: the site cannot know. But then the hash that
/// `apfl site status` shows is another than at the other sites.
#[test]
fn sites_that_were_told_different_things_have_different_hashes() {
    let room = Room::new();
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", "")
        .plan()
        .unwrap();
    let truth = honest(&room, &plan);
    let terms = terms_of(&plan, &Program::default()).unwrap();
    let sites = Post::new(room.0.path(), &room.path("states")).sites;
    let mut altered = truth.clone();
    let deviation = column(&mut altered, 1)["scale"]["deviation"]
        .as_f64()
        .unwrap();
    column(&mut altered, 1)["scale"]["deviation"] = json!(deviation * 1.5);
    let hash = |site: &Site, agreement: &Value| {
        survey(site, &terms).1.unwrap();
        agree(site, agreement).unwrap();
        Node::status(&site.state).unwrap().agreement.unwrap().0
    };
    let (north, south, east) = (
        hash(&sites[0], &truth),
        hash(&sites[1], &altered),
        hash(&sites[2], &truth),
    );
    assert_eq!(north, east);
    assert_ne!(north, south);
}

/// A table that changed after its survey is not trained on.
#[test]
fn a_changed_table_is_noticed() {
    let room = Room::new();
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", "")
        .plan()
        .unwrap();
    let truth = honest(&room, &plan);
    let terms = terms_of(&plan, &Program::default()).unwrap();
    let site = Post::new(room.0.path(), &room.path("states")).sites[0].clone();
    survey(&site, &terms).1.unwrap();
    let text = std::fs::read_to_string(&site.data).unwrap();
    std::fs::write(&site.data, text.replace(",green,", ",blue,")).unwrap();
    assert_eq!(agree(&site, &truth), Err(SiteCode::Data));
    assert!(log(&site).contains("the table has changed since its survey was sent"));
    std::fs::write(&site.data, text).unwrap();
    agree(&site, &truth).unwrap();
}

/// A message that is no agreement is refused as one, not as a damaged state directory.
#[test]
fn text_that_is_no_agreement_is_an_order() {
    let room = Room::new();
    let site = Post::new(room.0.path(), &room.path("states")).sites[0].clone();
    let (_, result) = ask(&site, &Request::Agree(b"{}".to_vec()));
    assert_eq!(result.unwrap_err(), SiteCode::Order);
}
