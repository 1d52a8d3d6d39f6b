//! What a server can learn by asking for surveys.

use super::wire::survey;
use super::{Post, Room, spec};
use apfl::error::SiteCode;
use apfl::federation::{Accept, Node, Site, Terms, terms_of};
use apfl::run::Program;

fn terms(room: &Room, more: &str) -> Terms {
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", more)
        .plan()
        .unwrap();
    terms_of(&plan, &Program::default()).unwrap()
}

/// The first site, which accepts the first terms.
fn north(room: &Room) -> Site {
    Post::new(room.0.path(), &room.path("states")).sites[0].clone()
}

fn log(room: &Room) -> String {
    std::fs::read_to_string(room.path("states/north/log")).unwrap()
}

/// Two surveys of which one holds one row more out differ by that row: n·mean − n′·mean′ is its
/// cell. The server asks with 41 shares; one survey answers, and no cell of `pressure` is read.
#[test]
fn surveys_that_differ_by_a_row_are_not_sent() {
    let room = Room::new();
    let site = north(&room);
    let text = std::fs::read_to_string(&site.data).unwrap();
    let cells: Vec<f64> = (text.lines().skip(1))
        .map(|line| line.split(',').nth(1).unwrap().parse().unwrap())
        .collect();
    let mut surveys = Vec::new();
    for k in 0..=40 {
        let share = format!("data.test=0\ndata.validation={}", 0.05 + k as f64 / 100.0);
        match survey(&site, &terms(&room, &share)).1 {
            Ok(survey) => surveys.push(survey),
            Err(code) => assert_eq!(code, SiteCode::OtherAgreement),
        }
    }
    let read = surveys.windows(2).filter(|pair| {
        let sum = |k: usize| {
            let numbers = pair[k].survey.columns[1].numbers;
            (numbers.n as f64 * numbers.mean, numbers.n)
        };
        let ((before, n), (after, fewer)) = (sum(0), sum(1));
        n == fewer + 1 && cells.iter().any(|x| (before - after - x).abs() < 1e-6)
    });
    assert_eq!(read.count(), 0, "cells were read");
    assert_eq!(surveys.len(), 1);
    assert!(log(&room).contains("surveys under several terms would disclose rows"));
}

/// The same terms get the stored response, byte for byte, even if the table has changed since.
#[test]
fn a_survey_that_is_asked_for_again_is_the_stored_one() {
    let room = Room::new();
    let (site, terms) = (north(&room), terms(&room, ""));
    let (first, result) = survey(&site, &terms);
    assert_eq!(result.unwrap().survey.columns.len(), 4);
    let text = std::fs::read_to_string(&site.data).unwrap();
    std::fs::write(
        &site.data,
        text.replacen("\n", "\n41.5,120.25,red,True,ill\n", 1),
    )
    .unwrap();
    let (again, _) = survey(&site, &terms);
    assert!(first == again);
    // Nor do other terms get another one after the operator accepts them.
    let other = self::terms(&room, "training.rounds=6");
    let refused = Node::accept(&site.state, &other.hash()).unwrap_err();
    assert!(
        refused.to_string().contains("use a new state directory"),
        "{refused}"
    );
    std::fs::write(site.state.join("accepted"), other.hash()).unwrap();
    assert_eq!(survey(&site, &other).1, Err(SiteCode::OtherAgreement));
}

/// The first terms bind even if their survey was refused: which terms are refused tells something
/// of the rows too. The operator may accept others, as no survey was sent.
#[test]
fn the_first_terms_bind_whatever_comes_of_them() {
    let room = Room::new();
    let site = north(&room);
    let by_age = terms(&room, "data.label=age\ndata.missing=['none']");
    assert_eq!(survey(&site, &by_age).1, Err(SiteCode::Data)); // some are empty
    let right = terms(&room, "");
    assert_eq!(survey(&site, &right).1, Err(SiteCode::OtherAgreement));
    assert!(
        log(&room).contains(&format!("apfl site accept {}", site.state.display())),
        "{}",
        log(&room)
    );
    Node::accept(&site.state, &right.hash()).unwrap();
    assert!(survey(&site, &right).1.is_ok());
}

/// Each refused one would disclose single rows, whatever `federation.rare` says; the accepted one
/// after it is the way out.
#[test]
fn statistics_of_few_rows_stay() {
    let room = Room::new();
    let cases: [(&str, Result<(), &str>); 9] = [
        // Every label with its count.
        ("data.label=pressure", Err("label 'pressure'")),
        ("data.label=colour", Ok(())),
        // A label of three rows, declared, but its count would leave with the scores.
        (
            "data.label=pressure\ndata.label_map={ '*' = 'other', PRESSURES }
             data.classes=['one', 'other']",
            Err("label 'pressure'"),
        ),
        (
            "data.label=pressure\ndata.label_map={ '*' = 'other', PRESSURES }
             data.classes=['one', 'other']\ntraining.class_weights=none\nfederation.disclose=[]",
            Ok(()),
        ),
        // Two training rows, or the mean of three known cells.
        (
            "data.validation=0.9\ndata.test=0.07",
            Err("fewer than 5 training rows"),
        ),
        ("data.missing=ALL_BUT_PRESSURE", Err("column 'pressure'")),
        (
            "data.missing=ALL_BUT_PRESSURE\ndata.moments={ pressure = { mean = 130, deviation = 25 } }",
            Ok(()),
        ),
        // Numbers as categories are not text, which `rare` is about.
        ("data.categorical=['pressure']", Err("column 'pressure'")),
        ("data.ignore=['pressure']", Ok(())),
    ];
    let text = std::fs::read_to_string(room.path("north.csv")).unwrap();
    let cells: Vec<&str> = (text.lines().skip(1))
        .map(|line| line.split(',').nth(1).unwrap())
        .collect();
    // A number is the same in any notation, and the name of a label.
    let name = |cell: &str| cell.parse::<f64>().unwrap().to_string();
    // All but four cells mean "not known".
    let gone: Vec<String> = cells[4..].iter().map(|cell| format!("'{cell}'")).collect();
    let three: Vec<String> = (cells[..3].iter())
        .map(|cell| format!("'{}' = 'one'", name(cell)))
        .collect();
    for (k, (more, expected)) in cases.into_iter().enumerate() {
        for rare in ["refuse", "send"] {
            let more = more
                .replace("ALL_BUT_PRESSURE", &format!("['', {}]", gone.join(", ")))
                .replace("PRESSURES", &three.join(", "));
            let site = Site {
                state: room.path(&format!("states-{k}-{rare}")),
                accept: Accept::First,
                ..north(&room)
            };
            // All rows train but one at most, unless the case says otherwise.
            let more =
                format!("data.validation=0.001\ndata.test=0\n{more}\nfederation.rare={rare}");
            let terms = terms(&room, &more);
            let (_, result) = survey(&site, &terms);
            let log = std::fs::read_to_string(site.state.join("log")).unwrap();
            match expected {
                Ok(()) => assert!(result.is_ok(), "{more}: {log}"),
                Err(what) => {
                    assert_eq!(result, Err(SiteCode::Rare), "{more}: {log}");
                    assert!(log.contains(what), "{log}");
                }
            }
        }
    }
}

/// A label that is not declared does not travel beside declared ones.
#[test]
fn labels_beside_declared_classes_stay() {
    let room = Room::new();
    let site = north(&room);
    let terms = terms(&room, "data.label=colour\ndata.classes=['red', 'blue']");
    assert_eq!(survey(&site, &terms).1, Err(SiteCode::Data));
    assert!(log(&room).contains("found 'green', allowed by data.classes"));
}
