//! The objectives of all clients.

use std::sync::Arc;

use apfl::data::{Dataset, Shard};
use apfl::engine::threads::WorkerPool;
use apfl::error::{Error, Result};
use apfl::model::Model;

use super::minimize::{Accuracy, Minimum, minimize};
use super::objective::{Objective, axpy};

/// Represents the clients' data in memory, their model, and a pool of threads.
pub struct Federation<'a> {
    model: &'a dyn Model,
    linear: bool,
    shards: Vec<Arc<Shard>>,
    pool: WorkerPool,
}

impl<'a> Federation<'a> {
    /// Loads every client's data. `linear`: whether the model is one dense layer.
    pub fn new(
        dataset: &dyn Dataset,
        model: &'a dyn Model,
        linear: bool,
        threads: usize,
    ) -> Result<Self> {
        let shards: Result<_> = (0..dataset.clients()).map(|c| dataset.shard(c)).collect();
        Ok(Self {
            model,
            linear,
            shards: shards?,
            pool: WorkerPool::new(threads, 8 * model.layout().len())?,
        })
    }

    /// Returns n.
    pub fn clients(&self) -> usize {
        self.shards.len()
    }

    /// Returns the number of parameters.
    pub fn parameters(&self) -> usize {
        self.model.layout().len()
    }

    /// Returns the model.
    pub fn model(&self) -> &'a dyn Model {
        self.model
    }

    /// Returns whether the model is one dense layer.
    pub fn linear(&self) -> bool {
        self.linear
    }

    /// Returns a client's data.
    pub fn shard(&self, client: usize) -> &Shard {
        &self.shards[client]
    }

    /// Returns fᵢ.
    pub fn local(&self, client: usize) -> Objective<'_> {
        Objective::new(self.model, self.linear, &self.shards[client].train)
    }

    /// Returns fᵢ on the client's validation examples.
    pub fn held_out(&self, client: usize) -> Objective<'_> {
        Objective::new(self.model, self.linear, &self.shards[client].valid)
    }

    /// Runs `work` for every client and passes the results to `sink` in client order.
    pub fn each<R: Send>(
        &self,
        work: impl Fn(usize) -> Result<R> + Sync,
        sink: impl FnMut(usize, R) + Send,
    ) -> Result<()> {
        self.each_of(&(0..self.clients()).collect::<Vec<_>>(), work, sink)
    }

    /// Runs `work` for some clients and passes the results to `sink` in client order.
    pub fn each_of<R: Send>(
        &self,
        clients: &[usize],
        work: impl Fn(usize) -> Result<R> + Sync,
        mut sink: impl FnMut(usize, R) + Send,
    ) -> Result<()> {
        self.pool.in_order(
            clients.len(),
            |k| self.shards[clients[k]].name.clone(),
            |k, _| work(clients[k]),
            |k, result| {
                sink(clients[k], result);
                Ok(())
            },
        )
    }

    /// Computes F(x) = (1/n) Σ fᵢ(x) and its gradient, summed in client order. Returns F and the
    /// mean loss without the ℓ2 term.
    pub fn evaluate(&self, x: &[f64], grad: &mut [f64]) -> Result<(f64, f64)> {
        let share = 1.0 / self.clients() as f64;
        let (mut value, mut loss) = (0.0, 0.0);
        grad.fill(0.0);
        let total = &mut *grad;
        self.each(
            |client| {
                let mut g = vec![0.0; x.len()];
                let pass = self.local(client).evaluate(x, &mut g);
                Ok((pass, g))
            },
            |_, (pass, g)| {
                value += share * pass.value;
                loss += share * pass.loss;
                axpy(total, share, &g);
            },
        )?;
        Ok((value, loss))
    }

    /// Finds w* = argmin F. Calls `progress` with the number of evaluations.
    pub fn optimum(
        &self,
        start: Vec<f64>,
        accuracy: Accuracy,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Minimum> {
        let mut count = 0;
        minimize(
            |x, g| {
                count += 1;
                progress(count);
                let (value, _) = self.evaluate(x, g)?;
                require_number(value, "the shared objective")
            },
            start,
            accuracy,
        )
    }

    /// Finds vᵢ* = argmin fᵢ.
    pub fn local_optimum(
        &self,
        client: usize,
        start: Vec<f64>,
        accuracy: Accuracy,
    ) -> Result<Minimum> {
        let f = self.local(client);
        let name = &self.shard(client).name;
        minimize(
            |x, g| require_number(f.evaluate(x, g).value, name),
            start,
            accuracy,
        )
    }
}

/// Returns an error if a value is NaN; it may be infinite, as the line search may overflow.
fn require_number(value: f64, name: &str) -> Result<f64> {
    if value.is_nan() {
        Err(Error::data(format!(
            "the objective of {name} is not a number at a point of the search; check that the \
             features are finite, and scale them with data.standardize"
        )))
    } else {
        Ok(value)
    }
}
