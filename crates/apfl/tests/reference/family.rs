//! FedProx, Ditto, FedPer, FedRep, L2GD and HypCluster in float64. Only their random numbers,
//! L2GD's coin and the clusters' starts, are the library's.

use super::{Problem, Round, plus};
use apfl::algorithm::{Algorithm, HypCluster, L2gd};
use apfl::model::{Loss, Network, mlp::Mlp};

/// The seed that a spec has where it does not say.
const SEED: u64 = 1;

fn model(p: &Problem) -> Mlp {
    let (first, last) = (p.widths[0], p.widths[p.widths.len() - 1]);
    let hidden = &p.widths[1..p.widths.len() - 1];
    Mlp::new(first, hidden, last, Loss::Softmax, p.l2 as f32)
}

/// The local steps of every round of L2GD.
pub fn coin(p: &Problem, chance: f64, pull: f64) -> Vec<u64> {
    let l2gd = L2gd::new(chance, pull);
    let l2gd = l2gd.for_run(model(p).layout(), SEED).unwrap();
    (1..=p.rounds as u64)
        .map(|round| l2gd.steps(round))
        .collect()
}

/// The first models of HypCluster.
pub fn cluster_starts(p: &Problem, clusters: usize) -> Vec<Vec<f64>> {
    let w0: Vec<f32> = p.w0.iter().map(|w| *w as f32).collect();
    let hyp = HypCluster::new(clusters).for_run(model(p).layout(), SEED);
    let server = hyp.unwrap().start(&w0, p.clients.len());
    let models = server.models.chunks(w0.len());
    models
        .map(|model| model.iter().map(|w| f64::from(*w)).collect())
        .collect()
}

impl Problem {
    fn round(
        &self,
        shared: impl Fn(usize) -> Vec<f64>,
        localized: &[Vec<f64>],
        personal: &[Vec<f64>],
    ) -> Round {
        Round {
            shared: self.pooled(shared),
            localized: self.pooled(|i| localized[i].clone()),
            personal: self.pooled(|i| personal[i].clone()),
            mean_alpha: None,
        }
    }

    /// x − η(∇fᵢ(x) + λ(x − c))
    fn pulled(&self, i: usize, x: &[f64], lambda: f64, c: &[f64]) -> Vec<f64> {
        let g = self.gradient(x, &self.clients[i].train);
        let term = |j: usize| g[j] + lambda * (x[j] - c[j]);
        (0..x.len()).map(|j| x[j] - self.rate * term(j)).collect()
    }

    pub fn fedprox(&self, mu: f64) -> Vec<Round> {
        let mut w = self.w0.clone();
        let round = |_| {
            let mut local = vec![w.clone(); self.clients.len()];
            for (i, y) in local.iter_mut().enumerate() {
                for _ in 0..self.steps {
                    *y = self.pulled(i, y, mu, &w);
                }
            }
            w = self.mean(&local);
            self.round(|_| w.clone(), &local, &local)
        };
        (0..self.rounds).map(round).collect()
    }

    pub fn ditto(&self, lambda: f64) -> Vec<Round> {
        let mut w = self.w0.clone();
        let mut own = vec![self.w0.clone(); self.clients.len()];
        let round = |_| {
            let mut local = vec![w.clone(); self.clients.len()];
            for i in 0..self.clients.len() {
                for _ in 0..self.steps {
                    own[i] = self.pulled(i, &own[i], lambda, &w);
                    local[i] = self.pulled(i, &local[i], 0.0, &w);
                }
            }
            w = self.mean(&local);
            self.round(|_| w.clone(), &local, &own)
        };
        (0..self.rounds).map(round).collect()
    }

    /// Which parameters are the last layer's.
    fn head(&self) -> usize {
        let [.., ins, outs] = self.widths[..] else {
            panic!("two layers")
        };
        self.w0.len() - (ins * outs + outs)
    }

    /// Heads that stay; of every round's steps, `parts` says which move head and base.
    fn with_heads(&self, parts: impl Fn(usize) -> (bool, bool)) -> Vec<Round> {
        let cut = self.head();
        let mut shared = self.w0.clone();
        let mut heads = vec![self.w0[cut..].to_vec(); self.clients.len()];
        let round = |_| {
            let mut local = Vec::new();
            for (i, head) in heads.iter_mut().enumerate() {
                let mut x = [&shared[..cut], head].concat();
                for s in 0..self.steps {
                    let next = self.pulled(i, &x, 0.0, &self.w0);
                    let (of_head, of_base) = parts(s);
                    if of_base {
                        x[..cut].copy_from_slice(&next[..cut]);
                    }
                    if of_head {
                        x[cut..].copy_from_slice(&next[cut..]);
                    }
                }
                *head = x[cut..].to_vec();
                local.push(x);
            }
            shared[..cut].copy_from_slice(&self.mean(&local)[..cut]);
            self.round(|_| shared.clone(), &local, &local)
        };
        (0..self.rounds).map(round).collect()
    }

    pub fn fedper(&self) -> Vec<Round> {
        self.with_heads(|_| (true, true))
    }

    /// That many steps of the head, then the base's.
    pub fn fedrep(&self, head: usize) -> Vec<Round> {
        self.with_heads(|s| (s < head, s >= head))
    }

    /// Local steps and one averaging in every round; scored between the two.
    pub fn l2gd(&self, p: f64, lambda: f64, steps: &[u64]) -> Vec<Round> {
        let mut x = vec![self.w0.clone(); self.clients.len()];
        let round = |steps: &u64| {
            for (x, client) in x.iter_mut().zip(&self.clients) {
                for _ in 0..*steps {
                    let g = self.gradient(x, &client.train);
                    *x = plus(x, -self.rate / (1.0 - p), &g);
                }
            }
            let (before, mean) = (x.clone(), self.mean(&x));
            for x in &mut x {
                let away: Vec<f64> = x.iter().zip(&mean).map(|(x, m)| x - m).collect();
                *x = plus(x, -self.rate * lambda / p, &away);
            }
            self.round(|_| mean.clone(), &before, &before)
        };
        steps.iter().map(round).collect()
    }

    fn objective(&self, at: &[f64], i: usize) -> f64 {
        let examples = &self.clients[i].train;
        let loss = |(x, y): &(Vec<f64>, usize)| {
            let layers = self.layers(at, x);
            -Self::softmax(&layers[layers.len() - 1])[*y].ln()
        };
        let mean = examples.iter().map(loss).sum::<f64>() / examples.len() as f64;
        mean + 0.5 * self.l2 * at.iter().map(|w| w * w).sum::<f64>()
    }

    pub fn hypcluster(&self, mut models: Vec<Vec<f64>>) -> Vec<Round> {
        let round = |_| {
            let mut members = vec![Vec::new(); models.len()];
            let (mut local, mut cluster) = (Vec::new(), Vec::new());
            for i in 0..self.clients.len() {
                let mut best = 0;
                for k in 1..models.len() {
                    if self.objective(&models[k], i) < self.objective(&models[best], i) {
                        best = k;
                    }
                }
                let mut w = models[best].clone();
                for _ in 0..self.steps {
                    w = self.pulled(i, &w, 0.0, &self.w0);
                }
                members[best].push(w.clone());
                local.push(w);
                cluster.push(best);
            }
            for (model, members) in models.iter_mut().zip(&members) {
                if !members.is_empty() {
                    let sum = |j: usize| members.iter().map(|w| w[j]).sum::<f64>();
                    let mean = |j| sum(j) / members.len() as f64;
                    *model = (0..model.len()).map(mean).collect();
                }
            }
            self.round(|i| models[cluster[i]].clone(), &local, &local)
        };
        (0..self.rounds).map(round).collect()
    }
}
