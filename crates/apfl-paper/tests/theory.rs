//! The theory's measurements against numbers derived by hand.

use apfl::spec::Spec;
use apfl_paper::theory::{Inputs, Report, measure};

fn report(spec: &str, points: usize) -> Report {
    let plan = Spec::parse(spec).unwrap().plan().unwrap();
    let inputs = Inputs {
        points,
        accuracy: 1e-6,
        ..Inputs::default()
    };
    measure(&plan, &inputs, &mut |_, _, _| {}).unwrap()
}

fn close(found: f64, by_hand: f64) {
    let scale = by_hand.abs().max(1.0);
    assert!((found - by_hand).abs() < 2e-6 * scale, "{found} {by_hand}");
}

/// Ridge regression with λ = ¼ at three clients that all see x = −1 and x = 1, so that the
/// second moment of (x, 1) is the identity and
///
/// ```text
/// fᵢ(u) = ½‖u − sᵢ‖² + ⅛‖u‖² + constant,   sᵢ = (mean x·t, mean t)
/// targets   a: 0, 2    s = (1, 1)
///           b: 4, 2    s = (−1, 3)
///           c: −1, −1  s = (0, −1)         mean (0, 1)
/// ```
fn ridge(directory: &std::path::Path, training: &str) -> String {
    let path = directory.join("ridge.csv");
    let mut text = String::from("client,x,label,split\n");
    for split in ["train", "valid"] {
        for (client, left, right) in [("a", 0, 2), ("b", 4, 2), ("c", -1, -1)] {
            text.push_str(&format!("{client},-1,{left},{split}\n"));
            text.push_str(&format!("{client},1,{right},{split}\n"));
        }
    }
    std::fs::write(&path, text).unwrap();
    format!(
        "[data]\nkind = 'table'\ntask = 'regression'\npath = '{}'\n\
         [model]\nkind = 'logistic'\nl2 = 0.25\n{training}",
        path.display()
    )
}

#[test]
fn ridge_regression_in_closed_form() {
    let directory = tempfile::tempdir().unwrap();
    let spec = ridge(
        directory.path(),
        "[algorithm]\nkind = 'apfl'\nmixing = { fixed = 1.0 }\n\
         [training]\nrounds = 2\nlocal_steps = 1\nbatch = 'full'\nlearning_rate = 1.2\n\
         schedule = 'constant'\n",
    );
    let r = report(&spec, 2);
    assert_eq!(r.visited, [0, 2]);
    // The Hessian is (1 + ¼)·I.
    close(r.smoothness.mu, 0.25);
    close(r.smoothness.l, 1.25);
    close(r.smoothness.kappa.unwrap(), 5.0);
    // ∇F − ∇fᵢ = sᵢ − mean s, at every point.
    close(r.zeta, 10.0);
    let zeta: Vec<f64> = r.clients.iter().map(|c| c.zeta).collect();
    [1.0, 5.0, 4.0]
        .iter()
        .zip(&zeta)
        .for_each(|(h, f)| close(*f, *h));
    // vᵢ* = 0.8·sᵢ, w* = (0, 0.8): Δᵢ = 0.64·ζᵢ.
    for client in &r.clients {
        close(client.optimum.unwrap().delta, 0.64 * client.zeta);
        assert_eq!(client.sigma2, 0.0); // full batches
    }
    // One step of rate 1.2 multiplies the distance to an optimum by 1 − 1.5 = −½: the
    // shared model goes 0, 1.2, 0.6 along (0, 1).
    let w = r.optimum.as_ref().unwrap();
    close(w.norm, 0.8);
    close(w.shared_distance, 0.04);
    close(w.shared_gap, 0.625 * 0.04);
    close(r.gamma, (1.25f64 * 0.6).powi(2)); // from w⁰ = 0 to (0, 0.6)
    // α = 1: after delivery's step vᵢ = 0.9·sᵢ.
    let a = r.clients[0].optimum.unwrap();
    close(a.personal_distance, 0.02);
    close(a.target_distance.unwrap(), 0.02);
    close(a.personal_gap, 0.625 * 0.02);
    // ½‖0.9s − s‖² − ½‖0.8s − s‖² = ½(0.01 − 0.04)·‖s‖², ‖s‖² = 2.
    close(a.validation_gap, -0.03);
    // The best α between w = (0, 0.6) and vᵢ: ⟨vᵢ−w, vᵢ*−w⟩/‖vᵢ−w‖².
    for (client, by_hand) in r.clients.iter().zip([0.78 / 0.9, 4.5 / 5.22, 1.4 / 1.5]) {
        close(client.line_search.unwrap(), by_hand);
        assert_eq!(client.mixing, Some(1.0));
        assert_eq!(client.meets_theorem3, Some(true));
        assert_eq!(client.below_corollary, Some(false));
        assert_eq!(client.label_distance, 0.0);
    }
    let theorem = r.theorem3.as_ref().unwrap();
    close(theorem.alpha_at_least, 1.0 - 1.0 / (20.0 * 6f64.sqrt()));
    assert_eq!((theorem.met_by, theorem.steps, theorem.tau), (3, 2, 1));
    close(theorem.b, 0.5);
    close(theorem.tau_advised, (2.0f64 / 3.0).sqrt());
    // R = ‖v_b*‖ = 0.8·√10; every ‖(x, 1)‖ is √2; G·2R√2 > B = 1.
    close(r.r.unwrap(), 0.8 * 10f64.sqrt());
    let bound = r.clients[0].bound.unwrap();
    close(bound.disagreement_uncapped, 1.6 * 20f64.sqrt());
    close(bound.disagreement, 1.0);
    let complexity = |m: f64| ((2.0 + 20f64.ln()) / m).sqrt();
    close(bound.shared_complexity, complexity(6.0));
    close(bound.local_complexity, 2.0 * complexity(2.0));
    // ½‖0.8s − s‖² + ½(mean t² − ‖s‖²), mean t² = 2.
    close(bound.local_loss, 0.04);
    // Both sides of the corollary at α = 1 with C₁ = C₂ = 1: L* + 3·√(…) + 2Gλ, and one
    // factor of 2 less as printed; the left side is the difference on validation examples.
    let sides = r.clients[0].corollary.unwrap();
    close(sides.left, -0.03);
    close(sides.right, 0.04 + 3.0 * complexity(2.0) + 2.0);
    close(sides.right_printed, 0.04 + complexity(2.0) + 2.0);
    assert!(sides.holds);
    assert_eq!((r.corollary, r.printed_corollary), (0.5, 0.5f64.sqrt()));
    assert!(r.theorem1_covers_loss);
    assert!(!apfl_paper::theory::text(&r).contains("Theorem 1 and its corollary are stated for"));
}

/// Batches of one: σᵢ² is the variance of one example's gradient. At w⁰ = 0 the gradients
/// are −t·(x, 1): a: 0 and (−2, −2), variance 2; b: (4, −4) and (−2, −2), variance 10;
/// c: (−1, 1) and (1, 1), variance 1. A tiny rate keeps the run there.
#[test]
fn the_variance_of_batches_of_one() {
    let directory = tempfile::tempdir().unwrap();
    let spec = ridge(
        directory.path(),
        "[training]\nrounds = 1\nlocal_steps = 1\nbatch = 1\nlearning_rate = 1e-9\n",
    );
    let r = report(&spec, 5);
    assert_eq!(r.visited, [0, 1]);
    close(r.sigma2, 10.0);
    close(r.sigma2_mean, 13.0 / 3.0);
    let each: Vec<f64> = r.clients.iter().map(|c| c.sigma2).collect();
    [2.0, 10.0, 1.0]
        .iter()
        .zip(&each)
        .for_each(|(h, f)| close(*f, *h));
}

/// The measured quantities tell IID data from diverse data.
#[test]
fn iid_data_has_little_diversity_and_a_small_alpha() {
    let spec = |iid: bool| {
        format!(
            "[data]\nkind = 'synthetic'\niid = {iid}\nclients = 12\nexamples = 600\n\
             features = 20\nclasses = 5\n[model]\nl2 = 1e-3\n[training]\nrounds = 10\n"
        )
    };
    let mean = |r: &Report, f: fn(&apfl_paper::theory::ClientTheory) -> f64| {
        r.clients.iter().map(f).sum::<f64>() / r.clients.len() as f64
    };
    let (iid, diverse) = (report(&spec(true), 5), report(&spec(false), 5));
    assert!(mean(&iid, |c| c.zeta) < 0.05 * mean(&diverse, |c| c.zeta));
    assert!(mean(&iid, |c| c.label_distance) < 0.15);
    assert!(mean(&diverse, |c| c.label_distance) > 0.8);
    let alpha = |r: &Report| mean(r, |c| c.bound.unwrap().alpha);
    assert!(
        alpha(&iid) < 0.6 * alpha(&diverse),
        "{} {}",
        alpha(&iid),
        alpha(&diverse)
    );
    let delta = |r: &Report| {
        mean(r, |c| {
            c.optimum.unwrap().delta / c.optimum.unwrap().norm.powi(2)
        })
    };
    assert!(delta(&iid) < delta(&diverse));
    for text in [&iid, &diverse].map(apfl_paper::theory::text) {
        assert!(
            text.contains("stated for squared hinge and squared error; the loss here is softmax")
        );
    }
    assert!(iid.optimum.unwrap().converged && diverse.optimum.unwrap().converged);
}

/// A network has no optimum to speak of, and says so; the rest is measured.
#[test]
fn a_network_has_no_optimum() {
    let r = report(
        "[data]\nkind = 'synthetic'\nclients = 4\nexamples = 60\nfeatures = 5\nclasses = 3\n\
         [model]\nkind = 'mlp'\nhidden = [8]\n[training]\nrounds = 3\nbatch = 10\n",
        3,
    );
    assert!(r.optimum.is_none() && r.theorem3.is_none() && r.smoothness.estimate);
    assert!(r.notes.iter().any(|note| note.contains("not linear")));
    assert!(r.smoothness.l > 0.0 && r.zeta > 0.0 && r.sigma2 > 0.0 && r.gamma > 0.0);
    for client in &r.clients {
        assert!(client.bound.is_none() && client.optimum.is_none());
        assert!((0.0..=1.0).contains(&client.line_search.unwrap()));
    }
}

/// A network without hidden layers is the linear model under another name: the theory has
/// the same to say of it, in the spec, in the step sizes and in the report.
#[test]
fn a_network_without_hidden_layers_is_linear() {
    let with = |model: &str| {
        format!(
            "[data]\nkind = 'synthetic'\nclients = 4\nexamples = 60\nfeatures = 5\nclasses = 3\n\
             [model]\n{model}\nl2 = 0.1\n[algorithm]\nmixing = {{ fixed = 0.5 }}\n\
             [training]\nrounds = 3\nbatch = 10\nschedule = {{ kind = 'theory', theorem = 2 }}\n"
        )
    };
    let linear = with("kind = 'logistic'");
    let network = with("kind = 'mlp'\nhidden = []\ninit = 'zeros'");
    let setup = |spec: &str| Spec::parse(spec).unwrap().plan().unwrap().setup().unwrap();
    let (a, b) = (setup(&linear), setup(&network));
    assert_eq!(a.context.local_training, b.context.local_training);
    assert_eq!(a.notes, b.notes);
    assert!(
        b.notes
            .iter()
            .any(|note| note.contains("a bound from the data"))
    );
    let (a, b) = (report(&linear, 3), report(&network, 3));
    assert!(b.optimum.is_some() && !b.smoothness.estimate);
    assert_eq!(a, b);
}
