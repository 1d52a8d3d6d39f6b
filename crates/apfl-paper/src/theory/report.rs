//! Everything that was measured, in one place.

use apfl::training::Setup;
use serde::Serialize;

use super::Inputs;
use super::bound::{Bound, Measured, l1_distance, theorem3_threshold};
use super::client::{ClientTheory, Look};
use super::diversity::Diversity;
use super::federation::Federation;
use super::objective::{axpy, label_distribution};
use super::smoothness::Smoothness;

/// Theorem 3's setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Theorem3 {
    /// max{1 − 1/(4√6·κ), 1 − 1/(4√6·κ√μ)}: what αᵢ must reach.
    pub alpha_at_least: f64,
    /// Clients whose αᵢ does.
    pub met_by: usize,
    /// b = min{K/n, ½}
    pub b: f64,
    /// T: local steps of the run.
    pub steps: u64,
    /// τ of the run; where clients differ, the largest.
    pub tau: u64,
    /// √(T/K), the corollary's τ.
    pub tau_advised: f64,
}

/// w* and how close training came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Optimum {
    /// F(w*), ℓ2 term included.
    pub value: f64,
    /// The mean over clients of the training loss of w*, without the ℓ2 term.
    pub loss: f64,
    /// ‖w*‖
    pub norm: f64,
    /// ‖∇F‖/μ at what was found: how far w* can be from it.
    pub certified_within: f64,
    /// Whether the search reached the accuracy asked for.
    pub converged: bool,
    /// F(w) − F(w*) of the final shared model.
    pub shared_gap: f64,
    /// ‖w − w*‖² of the final shared model.
    pub shared_distance: f64,
}

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was asked.
    pub inputs: Inputs,
    /// n
    pub clients_total: usize,
    /// K
    pub cohort: usize,
    /// Rounds of the run.
    pub rounds: u64,
    /// The replay's fingerprint.
    pub fingerprint: String,
    /// The rounds after which the shared model was looked at; 0 is w⁰.
    pub visited: Vec<u64>,
    /// μ, L, κ
    pub smoothness: Smoothness,
    /// ζ = Σ ζᵢ over visited points.
    pub zeta: f64,
    /// Γ over visited points.
    pub gamma: f64,
    /// σ² over clients and visited points: the largest.
    pub sigma2: f64,
    /// Its mean.
    pub sigma2_mean: f64,
    /// How it was found.
    pub sigma2_how: String,
    /// Theorem 3's condition; absent where κ is.
    pub theorem3: Option<Theorem3>,
    /// min{√2/2, √(C₂/(2C₁))}: below it the mixed model can beat the local minimizer.
    pub corollary: f64,
    /// w*; absent where it is not defined.
    pub optimum: Option<Optimum>,
    /// R of the bound.
    pub r: Option<f64>,
    /// Client by client.
    pub clients: Vec<ClientTheory>,
    /// What a reader must know about these numbers.
    pub notes: Vec<String>,
}

/// What the measurements gave, before it is put together.
pub(super) struct Found {
    pub fingerprint: String,
    pub looked_at: Vec<u64>,
    pub smoothness: Smoothness,
    pub l_i: Vec<f64>,
    pub diversity: Diversity,
    pub optimum: Option<Optimum>,
    pub looks: Vec<Look>,
    /// αᵢ that the paper's rule learns, where the run's own is chosen.
    pub learned: Vec<Option<f64>>,
    /// Whether it is.
    pub chosen: bool,
}

/// Puts the report together.
pub(super) fn assemble(
    inputs: &Inputs,
    setup: &Setup,
    federation: &Federation<'_>,
    found: Found,
) -> Report {
    let n = federation.clients();
    let k = setup.cohort_size();
    let Found {
        smoothness,
        diversity,
        optimum,
        looks,
        ..
    } = found;
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
        let norms = &mut looks.iter().filter_map(|look| Some(look.optimum?.norm));
        inputs
            .constants
            .r
            .unwrap_or(optimum.norm.max(largest(norms)))
    });
    let m: usize = (0..n).map(|c| federation.shard(c).train.len()).sum();
    let d = inputs.constants.d.unwrap_or(federation.parameters() as f64);
    let clients: Vec<ClientTheory> = looks
        .iter()
        .enumerate()
        .map(|(client, look)| {
            let label_distance = l1_distance(&labels(client), &average);
            let bound = optimum
                .as_ref()
                .zip(look.optimum)
                .zip(r)
                .map(|((w, v), r)| {
                    let measured = Measured {
                        shared_loss: w.loss,
                        label_distance,
                        m: m as f64,
                        local_loss: v.loss,
                        m_i: look.examples as f64,
                        mean_norm: look.mean_norm,
                        d,
                        r,
                    };
                    Bound::new(&measured, &inputs.constants)
                });
            ClientTheory {
                client: federation.shard(client).name.clone(),
                examples: look.examples,
                mixing: look.mixing,
                learned: if found.chosen {
                    found.learned.get(client).copied().flatten()
                } else {
                    look.mixing
                },
                chosen: look.mixing.filter(|_| found.chosen),
                line_search: look.line_search,
                l: (found.l_i[client] > 0.0).then_some(found.l_i[client]),
                zeta: diversity.zeta_i[client],
                sigma2: diversity.sigma2_i[client],
                label_distance,
                meets_theorem3: threshold.zip(look.mixing).map(|(t, alpha)| alpha >= t),
                below_corollary: look.mixing.map(|a| a <= inputs.constants.corollary()),
                optimum: look.optimum,
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
    let notes = notes(federation, &optimum, &clients, classes);
    Report {
        inputs: *inputs,
        clients_total: n,
        cohort: k,
        rounds: setup.rounds,
        fingerprint: found.fingerprint,
        visited: found.looked_at,
        zeta: diversity.zeta,
        gamma: diversity.gamma,
        sigma2: diversity.sigma2,
        sigma2_mean: diversity.sigma2_mean,
        sigma2_how: diversity.sigma2_how,
        smoothness,
        theorem3,
        corollary: inputs.constants.corollary(),
        optimum,
        r,
        clients,
        notes,
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
             μ is not known to be above 0"
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
                    "{open} of the searches for an optimum ended before the accuracy asked for; \
                     'certified within' says how far each can be off"
                ));
            }
        }
    }
    if classes == 0 {
        notes.push("regression: the label distance is taken as 0, its trivial lower bound".into());
    }
    if clients.iter().all(|c| c.mixing.is_none()) {
        notes.push("the algorithm has no α: conditions on αᵢ are left out".into());
    }
    notes
}
