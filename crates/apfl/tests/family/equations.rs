//! Whole runs against slow float64 evaluations: every loss and accuracy of twelve rounds.

use crate::equations::{agree, problem};
use crate::reference::family::{cluster_starts, coin};

#[test]
fn fedprox() {
    let p = problem(&[]);
    for mu in [0.1, 1.0] {
        let algorithm = format!("{{ kind = 'fedprox', proximal = {mu} }}");
        agree(&p, &algorithm, "uniform", p.fedprox(mu));
    }
}

#[test]
fn ditto() {
    for hidden in [&[][..], &[6, 5]] {
        let p = problem(hidden);
        let algorithm = "{ kind = 'ditto', proximal = 0.75 }";
        agree(&p, algorithm, "uniform", p.ditto(0.75));
    }
}

/// Seven steps a round: 6 and 1, and 4 and 3.
#[test]
fn fedrep() {
    let p = problem(&[6, 5]);
    for (share, head) in [(0.9, 6), (0.5, 4)] {
        let algorithm = format!("{{ kind = 'fedrep', head_share = {share} }}");
        agree(&p, &algorithm, "uniform", p.fedrep(head));
    }
}

#[test]
fn fedper() {
    let p = problem(&[6, 5]);
    agree(&p, "{ kind = 'fedper' }", "uniform", p.fedper());
}

#[test]
fn l2gd() {
    let p = problem(&[]);
    let (chance, pull) = (0.2, 0.3);
    let steps = coin(&p, chance, pull);
    assert!(steps.contains(&0) || steps.iter().any(|k| *k != steps[0]));
    let algorithm = format!("{{ kind = 'l2gd', averaging = {chance}, pull = {pull} }}");
    agree(&p, &algorithm, "uniform", p.l2gd(chance, pull, &steps));
}

#[test]
fn hypcluster() {
    let p = problem(&[]);
    for clusters in [2, 3] {
        let expected = p.hypcluster(cluster_starts(&p, clusters));
        let algorithm = format!("{{ kind = 'hypcluster', clusters = {clusters} }}");
        agree(&p, &algorithm, "uniform", expected);
    }
}
