//! Surveys and responses that cannot be are refused where they arrive, and the error names their
//! site.

use std::sync::{Arc, Mutex};

use apfl::data::table::NonNumeric;

use super::wire::{Outcome, Response, SiteSurvey, opened, sealed};
use super::{Post, Room, SITES, over_sites, spec};

/// The error of a federation in which site east forges its message of an exchange.
fn error_of(
    more: &str,
    exchange: usize,
    forge: impl Fn(Vec<u8>) -> Vec<u8> + Send + 'static,
) -> (String, String) {
    let room = Room::new();
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", more)
        .plan()
        .unwrap();
    let post: Arc<Mutex<Post>> = room.post("states");
    post.lock().unwrap().forge = Some(Box::new(move |place, bytes| match place {
        place if place == (exchange, 2) => forge(bytes),
        _ => bytes,
    }));
    let run = over_sites(&plan, &post, &room.path("run"), false);
    let notes = post.lock().unwrap().notes.join("\n");
    let error = run.err().map_or(String::new(), |error| error.to_string());
    (error, notes)
}

fn forged(lie: fn(&mut SiteSurvey)) -> impl Fn(Vec<u8>) -> Vec<u8> + Send + 'static {
    move |bytes| {
        let mut response: Response = opened(&bytes);
        let Ok(Outcome::Surveyed(survey)) = response.result else {
            panic!("a survey");
        };
        let mut survey: SiteSurvey = postcard::from_bytes(&survey).unwrap();
        lie(&mut survey);
        let survey = postcard::to_stdvec(&survey).unwrap();
        response.result = Ok(Outcome::Surveyed(survey));
        sealed(&response)
    }
}

fn other(survey: &mut SiteSurvey, k: usize) -> &mut NonNumeric {
    survey.survey.columns[k].non_numeric.as_mut().unwrap()
}

/// The columns: age (number with gaps), pressure (number), colour (category), smokes (truth).
#[test]
fn a_survey_that_cannot_be_names_its_site() {
    type Lie = (fn(&mut SiteSurvey), &'static str);
    let lies: [Lie; 17] = [
        (
            |s| s.survey.columns[1].numbers.mean = f64::NAN,
            "column 'pressure': no ",
        ),
        (
            |s| s.survey.columns[1].numbers.mean = f64::NEG_INFINITY,
            "column 'pressure': no ",
        ),
        (
            |s| s.survey.columns[1].numbers.mean = -1e300,
            "column 'pressure': no ",
        ),
        (
            |s| s.survey.columns[1].numbers.m2 = -1.0,
            "column 'pressure': no ",
        ),
        (
            |s| s.survey.columns[1].numbers.m2 = f64::INFINITY,
            "column 'pressure': no ",
        ),
        (
            |s| s.survey.columns[1].numbers.n += 1,
            "column 'pressure': its cells are not",
        ),
        (
            |s| s.survey.columns[1].missing = u64::MAX,
            "column 'pressure': its cells are not",
        ),
        (
            |s| other(s, 2).texts -= 1,
            "column 'colour': its cells are not",
        ),
        (
            |s| other(s, 2).dates = 1000,
            "column 'colour': 1000 dates of",
        ),
        (
            |s| other(s, 2).values = (0..103).map(|k| k.to_string()).collect(),
            "column 'colour': 0 dates",
        ),
        (
            |s| s.rows[0] = usize::MAX,
            "training, validation and test rows",
        ),
        (|s| s.rows = [0, 1, 1], "training, validation and test rows"),
        (|s| s.survey.rows += 1, "training, validation and test rows"),
        (
            |s| s.columns[0] = "pressure".into(),
            "found 3 different names of 4 columns",
        ),
        (
            |s| {
                s.survey.labels.insert("\u{1b}[2J".into(), 0);
            },
            "found '\\u{1b}[2J' with 0 rows",
        ),
        (
            |s| *s.survey.labels.values_mut().next().unwrap() += 1,
            "its counts do not add up",
        ),
        (|s| s.survey.values.n = 7, "the label: it has moments"),
    ];
    for (lie, why) in lies {
        let (error, _) = error_of("", 1, forged(lie));
        let begin = "the survey of site 'east' is invalid: ";
        assert!(
            error.starts_with(begin) && error.contains(why),
            "{why}: {error}"
        );
        assert!(
            SITES
                .iter()
                .all(|site| *site == "east" || !error.contains(site)),
            "{error}"
        );
    }
}

/// −f32::MAX is a number that a table may have. A model that is not standardized cannot use it.
#[test]
fn a_mean_that_is_too_large_for_a_model_names_its_site() {
    let lie = |s: &mut SiteSurvey| s.survey.columns[1].numbers.mean = f64::from(-f32::MAX);
    let (error, _) = error_of("data.standardize=false", 1, forged(lie));
    assert!(
        error.starts_with("the survey of site 'east' is invalid: column 'pressure': numbers with"),
        "{error}"
    );
}

/// A column of another kind than everywhere else: the error says who has what.
#[test]
fn a_column_of_another_kind_names_every_sites_kind() {
    let lie = |s: &mut SiteSurvey| {
        let column = &mut s.survey.columns[1];
        let texts = std::mem::take(&mut column.numbers).n;
        let values = ["high".to_string(), "low".into()].into();
        column.non_numeric = Some(Box::new(NonNumeric {
            texts,
            values,
            ..NonNumeric::default()
        }));
    };
    let (error, _) = error_of("", 1, forged(lie));
    assert!(
        error.contains("column 'pressure' has numbers and text"),
        "{error}"
    );
    assert!(
        error.contains("texts, 2 different values; west: "),
        "{error}"
    );
    let east = error.split("east: ").nth(1).unwrap();
    assert!(
        !east.split(';').next().unwrap().contains("numbers"),
        "{error}"
    );
}

/// A response that cannot be read, or is to another question, is garbled.
#[test]
fn a_response_that_makes_no_sense_names_its_site() {
    let agreed = |bytes: Vec<u8>| {
        let mut response: Response = opened(&bytes);
        response.result = Ok(Outcome::Agreed);
        sealed(&response)
    };
    let surveyed = |bytes: Vec<u8>| {
        let mut response: Response = opened(&bytes);
        response.result = Ok(Outcome::Surveyed(vec![1, 2, 3]));
        sealed(&response)
    };
    type Forge = fn(Vec<u8>) -> Vec<u8>;
    let forgeries: [(usize, Forge); 4] = [
        (1, |_| b"nonsense".to_vec()),
        (1, agreed),
        (2, |_| Vec::new()),
        (2, surveyed),
    ];
    for (exchange, forge) in forgeries {
        let (error, _) = error_of("", exchange, forge);
        assert!(
            error.contains("without one: east; east: garbled"),
            "{exchange}: {error}"
        );
    }
    let (error, _) = error_of("", 1, surveyed);
    assert!(
        error.starts_with("the survey of site 'east' is invalid: "),
        "{error}"
    );
    // In a round it is as absent, and the note has its name.
    let (error, notes) = error_of("federation.participation=1", 3, |_| b"nonsense".to_vec());
    assert_eq!(error, "");
    assert!(
        notes.contains("site 'east' responded in round 1: garbled"),
        "{notes}"
    );
}

/// Replaces the model of an update, which is the message's body: its tail has the length of its
/// end.
fn model_of(x: f32) -> impl Fn(Vec<u8>) -> Vec<u8> + Send + 'static {
    move |mut bytes| {
        let (rest, tail) = bytes.split_last_chunk().unwrap();
        let body = rest.len() - u32::from_le_bytes(*tail) as usize;
        assert_eq!(body % 4, 0);
        for number in bytes[..body].chunks_exact_mut(4) {
            number.copy_from_slice(&x.to_le_bytes());
        }
        bytes
    }
}

/// An update that no model can use does not reach w; one that is only far too large is named when
/// an honest site's loss is not finite after it, in the place of the site and the learning rate.
#[test]
fn an_update_that_is_too_large_names_its_site() {
    let all = "federation.participation=1";
    let (error, notes) = error_of(all, 3, model_of(-f32::MAX));
    assert_eq!(error, "");
    let note = "site 'east' is left out in round 1: its update has numbers whose squares are not \
                finite";
    assert!(notes.contains(note), "{notes}");
    let (error, _) = error_of(all, 3, model_of(1.7e19));
    assert!(
        error.contains("after site 'east' sent an update with numbers up to 1.7e19 in round 1"),
        "{error}"
    );
    assert!(!error.contains("learning_rate"), "{error}");
}
