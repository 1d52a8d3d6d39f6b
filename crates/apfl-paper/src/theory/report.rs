//! The report of all measurements.

use apfl::model::Loss;
use apfl::training::Setup;
use serde::Serialize;

use super::Inputs;
use super::bound::{Bound, Corollary, Measured, l1_distance, theorem3_threshold};
use super::client::{ClientMeasurements, ClientTheory};
use super::diversity::Diversity;
use super::federation::Federation;
use super::objective::{axpy, label_distribution};
use super::smoothness::Smoothness;

/// Represents Theorem 3's condition and setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Theorem3 {
    /// The least αᵢ: max{1 − 1/(4√6·κ), 1 − 1/(4√6·κ√μ)}.
    pub alpha_at_least: f64,
    /// The number of clients whose αᵢ meets it.
    pub met_by: usize,
    /// b = min{K/n, ½}
    pub b: f64,
    /// T: the local steps of the run.
    pub steps: u64,
    /// τ of the run; the largest if clients differ.
    pub tau: u64,
    /// √(T/K), the corollary's τ.
    pub tau_advised: f64,
}

/// Represents w* and the distance of the trained model from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Optimum {
    /// F(w*), ℓ2 term included.
    pub value: f64,
    /// The mean over clients of the training loss of w*, without the ℓ2 term.
    pub loss: f64,
    /// ‖w*‖
    pub norm: f64,
    /// ‖∇F‖/μ at the result: a bound on its distance from w*.
    pub certified_within: f64,
    /// Whether the search reached the requested accuracy.
    pub converged: bool,
    /// F(w) − F(w*) of the final shared model.
    pub shared_gap: f64,
    /// ‖w − w*‖² of the final shared model.
    pub shared_distance: f64,
}

/// Represents all measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The inputs.
    pub inputs: Inputs,
    /// n
    pub clients_total: usize,
    /// K
    pub cohort: usize,
    /// Rounds of the run.
    pub rounds: u64,
    /// The replay's fingerprint.
    pub fingerprint: String,
    /// The rounds after which the shared model was measured; 0 is w⁰.
    pub visited: Vec<u64>,
    /// μ, L, κ
    pub smoothness: Smoothness,
    /// ζ = Σ ζᵢ over visited points.
    pub zeta: f64,
    /// Γ over visited points.
    pub gamma: f64,
    /// The largest σ² over clients and visited points.
    pub sigma2: f64,
    /// The mean σ².
    pub sigma2_mean: f64,
    /// How σ² was determined.
    pub sigma2_how: String,
    /// Theorem 3's condition; absent if κ is.
    pub theorem3: Option<Theorem3>,
    /// min{√2/2, √(C₂/(4C₁))}: below it the mixed model can beat the local minimizer.
    pub corollary: f64,
    /// min{√2/2, √(C₂/(2C₁))}, as the corollary prints it.
    pub printed_corollary: f64,
    /// The loss.
    pub loss: String,
    /// Whether Theorem 1 is stated for it: squared hinge and squared error.
    pub theorem1_covers_loss: bool,
    /// w*; absent if not defined.
    pub optimum: Option<Optimum>,
    /// R of the bound.
    pub r: Option<f64>,
    /// The clients.
    pub clients: Vec<ClientTheory>,
    /// Notes on the numbers.
    pub notes: Vec<String>,
}

/// Represents the measurements before they are assembled to a report.
pub(super) struct Measurements {
    pub fingerprint: String,
    pub visited: Vec<u64>,
    pub smoothness: Smoothness,
    pub l_i: Vec<f64>,
    pub diversity: Diversity,
    pub optimum: Option<Optimum>,
    pub clients: Vec<ClientMeasurements>,
    /// αᵢ that the paper's rule learns, if the run's αᵢ was chosen.
    pub learned: Vec<Option<f64>>,
    /// Whether the run's αᵢ was chosen.
    pub chosen: bool,
}

/// Assembles the report.
pub(super) fn assemble(
    inputs: &Inputs,
    setup: &Setup,
    federation: &Federation<'_>,
    measurements: Measurements,
) -> Report {
    let n = federation.clients();
    let k = setup.cohort_size();
    let Measurements {
        smoothness,
        diversity,
        optimum,
        clients: measured_clients,
        ..
    } = measurements;
    let classes = setup.context.dataset.schema().task.classes();
    let labels =
        |client: usize| label_distribution(federation.shard(client).train.targets(), classes);
    let mut average = vec![0.0; classes];
    for client in 0..n {
        axpy(&mut average, 1.0 / n as f64, &labels(client));
    }
    let threshold = smoothness
        .kappa
        .map(|kappa| theorem3_threshold(kappa, smoothness.mu));
    let largest = |norms: &mut dyn Iterator<Item = f64>| norms.fold(0.0, f64::max);
    let r = optimum.as_ref().map(|optimum| {
        let norms = &mut measured_clients
            .iter()
            .filter_map(|measured| Some(measured.optimum?.norm));
        inputs
            .constants
            .r
            .unwrap_or(optimum.norm.max(largest(norms)))
    });
    let m: usize = (0..n).map(|c| federation.shard(c).train.len()).sum();
    let d = inputs.constants.d.unwrap_or(federation.parameters() as f64);
    let clients: Vec<ClientTheory> = measured_clients
        .iter()
        .enumerate()
        .map(|(client, measured)| {
            let label_distance = l1_distance(&labels(client), &average);
            let bound = optimum
                .as_ref()
                .zip(measured.optimum)
                .zip(r)
                .map(|((w, v), r)| {
                    let measured = Measured {
                        shared_loss: w.loss,
                        label_distance,
                        m: m as f64,
                        local_loss: v.loss,
                        m_i: measured.examples as f64,
                        mean_norm: measured.mean_norm,
                        d,
                        r,
                    };
                    Bound::new(&measured, &inputs.constants)
                });
            ClientTheory {
                client: federation.shard(client).name.clone(),
                examples: measured.examples,
                mixing: measured.mixing,
                learned: if measurements.chosen {
                    measurements.learned.get(client).copied().flatten()
                } else {
                    measured.mixing
                },
                chosen: measured.mixing.filter(|_| measurements.chosen),
                line_search: measured.line_search,
                l: (measurements.l_i[client] > 0.0).then_some(measurements.l_i[client]),
                zeta: diversity.zeta_i[client],
                sigma2: diversity.sigma2_i[client],
                label_distance,
                meets_theorem3: threshold.zip(measured.mixing).map(|(t, alpha)| alpha >= t),
                below_corollary: measured.mixing.map(|a| a <= inputs.constants.corollary()),
                below_printed_corollary: measured
                    .mixing
                    .map(|a| a <= inputs.constants.printed_corollary()),
                optimum: measured.optimum,
                corollary: bound.zip(measured.mixing).zip(measured.optimum).map(
                    |((bound, alpha), optimum)| {
                        let left = optimum.validation_gap;
                        Corollary::new(&bound, &inputs.constants, alpha, left)
                    },
                ),
                bound,
            }
        })
        .collect();
    let tau = (0..n)
        .map(|c| {
            setup
                .context
                .local_training
                .steps(federation.shard(c).train.len())
        })
        .max()
        .unwrap_or(0);
    let steps = tau.saturating_mul(setup.rounds);
    let theorem3 = threshold.map(|alpha_at_least| Theorem3 {
        alpha_at_least,
        met_by: clients
            .iter()
            .filter(|c| c.meets_theorem3 == Some(true))
            .count(),
        b: (k as f64 / n as f64).min(0.5),
        steps,
        tau,
        tau_advised: (steps as f64 / k as f64).sqrt(),
    });
    let (loss, theorem1_covers_loss) = loss(federation.model().loss());
    let notes = notes(federation, &optimum, &clients, classes);
    Report {
        inputs: *inputs,
        clients_total: n,
        cohort: k,
        rounds: setup.rounds,
        fingerprint: measurements.fingerprint,
        visited: measurements.visited,
        zeta: diversity.zeta,
        gamma: diversity.gamma,
        sigma2: diversity.sigma2,
        sigma2_mean: diversity.sigma2_mean,
        sigma2_how: diversity.sigma2_how,
        smoothness,
        theorem3,
        corollary: inputs.constants.corollary(),
        printed_corollary: inputs.constants.printed_corollary(),
        loss: loss.into(),
        theorem1_covers_loss,
        optimum,
        r,
        clients,
        notes,
    }
}

/// Returns a loss's name and whether Theorem 1 is stated for it.
fn loss(loss: Loss) -> (&'static str, bool) {
    match loss {
        Loss::Softmax => ("softmax", false),
        Loss::Logistic => ("logistic", false),
        Loss::SquaredHinge => ("squared hinge", true),
        Loss::SquaredError => ("squared error", true),
        _ => ("another", false),
    }
}

fn notes(
    federation: &Federation<'_>,
    optimum: &Option<Optimum>,
    clients: &[ClientTheory],
    classes: usize,
) -> Vec<String> {
    let mut notes =
        vec!["ζᵢ, ζ, Γ and σ² are suprema over the visited points, not over all of ℝᵈ".to_string()];
    match optimum {
        None if !federation.linear() => notes.push(
            "w*, vᵢ*, Δᵢ and the bound are not defined: the model is not linear, so its \
             objective is not strongly convex"
                .into(),
        ),
        None => notes.push(
            "w*, vᵢ*, Δᵢ and the bound are not defined: without an ℓ2 term (model.l2 = 0) \
             μ may be 0"
                .into(),
        ),
        Some(w) => {
            notes.push(
                "‖D̄−Dᵢ‖₁ is replaced by the distance of label distributions, a lower bound of it; \
                 λ_H(Sᵢ) ≤ 2R·mean‖(x, 1)‖ is an upper bound; L_Dᵢ(hᵢ*) is estimated by the \
                 training loss of vᵢ*"
                    .into(),
            );
            notes.push(
                "the two-phase target is h = (vᵢ* − (1−αᵢ)w*)/αᵢ: without a bound on ‖h‖ the \
                 mixture αᵢh + (1−αᵢ)w* reaches vᵢ* itself for every αᵢ > 0"
                    .into(),
            );
            let open = clients.iter().filter_map(|c| c.optimum);
            let open = open.filter(|v| !v.converged).count() + usize::from(!w.converged);
            if open > 0 {
                notes.push(format!(
                    "{open} of the searches for an optimum ended before the requested accuracy; \
                     'certified within' bounds their errors"
                ));
            }
        }
    }
    if classes == 0 {
        notes.push("regression: the label distance is set to 0, its trivial lower bound".into());
    }
    if clients.iter().all(|c| c.mixing.is_none()) {
        notes.push("the algorithm has no α: conditions on αᵢ are left out".into());
    }
    notes
}
