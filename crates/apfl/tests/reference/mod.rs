//! The equations of FedAvg, APFL and local training, evaluated slowly in float64 with
//! full batches: plain loops over plain vectors, and nothing from the library.

pub mod family;

/// One example: features and class.
pub type Example = (Vec<f64>, usize);

/// What a client has.
pub struct Client {
    pub train: Vec<Example>,
    pub valid: Vec<Example>,
}

/// A softmax classifier with ReLU layers between `widths`, and how it is trained. The
/// parameters of a layer are W, row by row of its inputs, and then b.
pub struct Problem {
    pub widths: Vec<usize>,
    pub l2: f64,
    pub clients: Vec<Client>,
    /// The clients' weights in the mean.
    pub weights: Vec<f64>,
    pub w0: Vec<f64>,
    pub rate: f64,
    pub steps: usize,
    pub rounds: usize,
}

/// (loss, accuracy), pooled over all examples of training and of validation.
pub type Pooled = [(f64, f64); 2];

/// What is known after a round.
pub struct Round {
    pub shared: Pooled,
    pub localized: Pooled,
    pub personal: Pooled,
    pub mean_alpha: Option<f64>,
}

impl Problem {
    /// The values of every layer, the inputs first and the outputs last.
    fn layers(&self, at: &[f64], x: &[f64]) -> Vec<Vec<f64>> {
        let mut layers = vec![x.to_vec()];
        let mut offset = 0;
        for k in 1..self.widths.len() {
            let (ins, outs) = (self.widths[k - 1], self.widths[k]);
            let bias = offset + ins * outs;
            let mut next = Vec::new();
            for o in 0..outs {
                let mut z = at[bias + o];
                for i in 0..ins {
                    z += layers[k - 1][i] * at[offset + i * outs + o];
                }
                let hidden = k + 1 < self.widths.len();
                next.push(if hidden && z < 0.0 { 0.0 } else { z });
            }
            layers.push(next);
            offset = bias + outs;
        }
        layers
    }

    /// exp(zₖ)/Σexp(z)
    fn softmax(z: &[f64]) -> Vec<f64> {
        let total: f64 = z.iter().map(|z| z.exp()).sum();
        z.iter().map(|z| z.exp() / total).collect()
    }

    /// ∇f: the mean over examples of the cross-entropy's gradient, plus λ·at.
    fn gradient(&self, at: &[f64], examples: &[Example]) -> Vec<f64> {
        let mut grad = vec![0.0; at.len()];
        for (x, y) in examples {
            let layers = self.layers(at, x);
            let mut delta = Self::softmax(&layers[layers.len() - 1]);
            delta[*y] -= 1.0;
            let mut end = at.len();
            for k in (1..self.widths.len()).rev() {
                let (ins, outs) = (self.widths[k - 1], self.widths[k]);
                let (bias, weight) = (end - outs, end - outs - ins * outs);
                let mut back = vec![0.0; ins];
                for o in 0..outs {
                    grad[bias + o] += delta[o] / examples.len() as f64;
                    for i in 0..ins {
                        grad[weight + i * outs + o] +=
                            layers[k - 1][i] * delta[o] / examples.len() as f64;
                        if layers[k - 1][i] > 0.0 {
                            back[i] += at[weight + i * outs + o] * delta[o];
                        }
                    }
                }
                delta = back;
                end = weight;
            }
        }
        for (g, p) in grad.iter_mut().zip(at) {
            *g += self.l2 * p;
        }
        grad
    }

    /// Scores of each client's model on that client's examples.
    fn pooled(&self, model_of: impl Fn(usize) -> Vec<f64>) -> Pooled {
        let mut sums = [(0.0, 0.0, 0.0); 2];
        for (i, client) in self.clients.iter().enumerate() {
            let model = model_of(i);
            for (split, examples) in [&client.train, &client.valid].into_iter().enumerate() {
                for (x, y) in examples {
                    let layers = self.layers(&model, x);
                    let z = &layers[layers.len() - 1];
                    let mut best = 0;
                    for k in 1..z.len() {
                        if z[k] > z[best] {
                            best = k;
                        }
                    }
                    sums[split].0 += -Self::softmax(z)[*y].ln();
                    sums[split].1 += if best == *y { 1.0 } else { 0.0 };
                    sums[split].2 += 1.0;
                }
            }
        }
        sums.map(|(loss, hits, count)| (loss / count, hits / count))
    }

    fn mean(&self, models: &[Vec<f64>]) -> Vec<f64> {
        let total: f64 = self.weights.iter().sum();
        let mut mean = vec![0.0; self.w0.len()];
        for (weight, model) in self.weights.iter().zip(models) {
            for (m, p) in mean.iter_mut().zip(model) {
                *m += weight * p / total;
            }
        }
        mean
    }

    pub fn fedavg(&self) -> Vec<Round> {
        let mut rounds = Vec::new();
        let mut w = self.w0.clone();
        for _ in 0..self.rounds {
            let mut local = vec![w.clone(); self.clients.len()];
            for (wi, client) in local.iter_mut().zip(&self.clients) {
                for _ in 0..self.steps {
                    let g = self.gradient(wi, &client.train);
                    *wi = plus(wi, -self.rate, &g);
                }
            }
            w = self.mean(&local);
            rounds.push(Round {
                shared: self.pooled(|_| w.clone()),
                localized: self.pooled(|i| local[i].clone()),
                personal: self.pooled(|i| local[i].clone()),
                mean_alpha: None,
            });
        }
        rounds
    }

    pub fn local(&self) -> Vec<Round> {
        let mut rounds = Vec::new();
        let mut v = vec![self.w0.clone(); self.clients.len()];
        for _ in 0..self.rounds {
            for (vi, client) in v.iter_mut().zip(&self.clients) {
                for _ in 0..self.steps {
                    let g = self.gradient(vi, &client.train);
                    *vi = plus(vi, -self.rate, &g);
                }
            }
            rounds.push(Round {
                shared: self.pooled(|_| self.w0.clone()),
                localized: self.pooled(|i| v[i].clone()),
                personal: self.pooled(|i| v[i].clone()),
                mean_alpha: None,
            });
        }
        rounds
    }

    pub fn apfl(&self, alpha0: f64, adaptive: bool) -> Vec<Round> {
        let n = self.clients.len();
        let mut rounds = Vec::new();
        let mut w = self.w0.clone();
        let mut v = vec![self.w0.clone(); n];
        let mut alpha = vec![alpha0; n];
        for _ in 0..self.rounds {
            let mut local = vec![w.clone(); n];
            let mut v_bar = Vec::new();
            for i in 0..n {
                let train = &self.clients[i].train;
                let mut mixed = mixture(alpha[i], &v[i], &local[i]);
                for s in 0..self.steps {
                    // Every right-hand side at the values before the step.
                    let g_w = self.gradient(&local[i], train);
                    let g = self.gradient(&mixed, train);
                    let mut slope = 0.0;
                    for k in 0..g.len() {
                        slope += (v[i][k] - local[i][k]) * g[k];
                    }
                    local[i] = plus(&local[i], -self.rate, &g_w);
                    v[i] = plus(&v[i], -self.rate * alpha[i], &g);
                    if adaptive && s == 0 {
                        alpha[i] = (alpha[i] - self.rate * slope).clamp(0.0, 1.0);
                    }
                    mixed = mixture(alpha[i], &v[i], &local[i]);
                }
                v_bar.push(mixed);
            }
            w = self.mean(&local);
            rounds.push(Round {
                shared: self.pooled(|_| w.clone()),
                localized: self.pooled(|i| local[i].clone()),
                personal: self.pooled(|i| v_bar[i].clone()),
                mean_alpha: Some(alpha.iter().sum::<f64>() / n as f64),
            });
        }
        rounds
    }
}

fn plus(x: &[f64], factor: f64, y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| x + factor * y).collect()
}

fn mixture(alpha: f64, v: &[f64], w: &[f64]) -> Vec<f64> {
    v.iter()
        .zip(w)
        .map(|(v, w)| alpha * v + (1.0 - alpha) * w)
        .collect()
}
