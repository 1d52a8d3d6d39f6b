//! What a spec may say of a choice.

use apfl::Spec;

#[test]
fn what_does_not_go_with_a_choice_is_refused() {
    let problems = |algorithm: &str| {
        let text = format!("algorithm = {{ kind = 'apfl', {algorithm} }}");
        let error = Spec::parse(&text).unwrap().plan().unwrap_err();
        error.to_string()
    };
    let chosen = "mixing = { chosen = [0, 1] }";
    for (more, key) in [
        (
            "output = 'averaged', averaging_shift = 1",
            "algorithm.output",
        ),
        ("alpha_every = 'step'", "algorithm.alpha_every"),
        ("alpha_l2 = 0.1", "algorithm.alpha_l2"),
        ("alpha_rate = 0.1", "algorithm.alpha_rate"),
        ("alpha_on = 'aside'", "algorithm.alpha_on"),
        ("preset = 'authors'", "algorithm.preset"),
    ] {
        let said = problems(&format!("{chosen}, {more}"));
        assert!(said.contains(key), "{said}");
    }
    for (mixing, key) in [
        ("chosen = []", "mixing.chosen"),
        ("chosen = [0.5, 0.5]", "mixing.chosen"),
        ("chosen = [2]", "mixing.chosen"),
        ("chosen = 0.5", "mixing.chosen"),
        ("chosen = [0, 1], folds = 0", "mixing.folds"),
        ("chosen = [0, 1], prior = -1", "mixing.prior"),
        ("chosen = [0, 1], aside = 0.3", "mixing.aside"),
        ("chosen = [0, 1], refit = false", "mixing.refit"),
        ("chosen = [0, 1], fold = 2", "mixing.fold"),
        ("chosen = [0, 1], fixed = 1", "mixing.fixed"),
    ] {
        let said = problems(&format!("mixing = {{ {mixing} }}"));
        assert!(
            said.contains(&format!("algorithm.{key}")),
            "{mixing}: {said}"
        );
    }
    // Settings of a choice are set one by one; another mixing replaces it.
    let mut spec =
        Spec::parse("algorithm = { kind = 'apfl', mixing = { chosen = [0, 1] } }").unwrap();
    spec.set("algorithm.mixing.folds=1").unwrap();
    let text = spec.plan().unwrap().to_toml();
    assert!(
        text.contains("folds = 1") && text.contains("aside = 0.2"),
        "{text}"
    );
    spec.set("algorithm.mixing.fixed=0.5").unwrap();
    assert!(!spec.plan().unwrap().to_toml().contains("folds"));
}
