//! A custom model: least squares on a parabola, y = a + bx + cx², in one file.
//!
//! ```text
//! cargo run --release -p apfl --example own_model
//! ```
//!
//! A network defines the layout of its parameters and the forward and backward pass of a batch.
//! A model is a network with a loss. Gradients, descents, mixtures, scores and files follow.
//! Values of the forward pass that the backward pass needs, such as hidden activations, go into
//! `Workspace::kept`.

use apfl::data::Batch;
use apfl::model::{Layout, Step, Workspace};
use apfl::rng::Stream;
use apfl::{Apfl, Examples, InMemory, Loss, Model, Network, Params, Result, Run};

/// Three parameters over one feature.
#[derive(Debug)]
pub struct Parabola {
    layout: Layout,
}

impl Parabola {
    /// y = a + bx + cx²
    pub fn new() -> Self {
        let mut layout = Layout::default();
        layout.push("coefficients", &[3], 1);
        Self { layout }
    }
}

impl Default for Parabola {
    fn default() -> Self {
        Self::new()
    }
}

impl Network for Parabola {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn inputs(&self) -> Option<usize> {
        Some(1)
    }
    fn outputs(&self) -> usize {
        1
    }
    fn initial(&self, _rng: &mut Stream) -> Params {
        self.layout.zeros()
    }

    /// z = a + bx + cx², row by row.
    fn forward(&self, at: &[f32], batch: &Batch<'_>, ws: &mut Workspace) {
        let value = |x: &f32| at[0] + at[1] * x + at[2] * x * x;
        let mut buffer = Vec::new(); // used if the features are bytes
        ws.outputs.clear();
        ws.outputs
            .extend(batch.numbers(&mut buffer).iter().map(value));
    }

    /// into ← into − decay·at + scale·Σ δ·(1, x, x²), where δ = ∂(mean loss)/∂z.
    fn backward(
        &self,
        at: Option<&[f32]>,
        into: &mut [f32],
        step: Step,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        let mut slope = [0.0f32; 3];
        let mut buffer = Vec::new();
        for (x, delta) in batch.numbers(&mut buffer).iter().zip(&ws.delta) {
            let powers = [1.0, *x, x * x];
            slope
                .iter_mut()
                .zip(powers)
                .for_each(|(s, p)| *s += delta * p);
        }
        for k in 0..3 {
            let point = at.map_or(into[k], |at| at[k]);
            into[k] += step.scale * slope[k] - step.decay * point;
        }
    }
}

/// The network with its loss.
impl Model for Parabola {
    fn network(&self) -> &dyn Network {
        self
    }
    fn loss(&self) -> Loss {
        Loss::SquaredError
    }
    fn l2(&self) -> f32 {
        0.0
    }
}

/// Trains three clients whose parabolas differ only in height.
pub fn main() -> Result<()> {
    let mut data = InMemory::values(["x"]);
    for (client, height) in [("low", -1.0), ("middle", 0.0), ("high", 1.0)] {
        let x: Vec<f32> = (0..40).map(|k| k as f32 / 20.0 - 1.0).collect();
        let y = x.iter().map(|x| height + 0.5 * x - 2.0 * x * x).collect();
        data.add(client, Examples::values(1, x, y)?, 0.2)?;
    }
    let run = Run::builder(data, Parabola::new())
        .algorithm(Apfl::fixed(0.5))
        .rounds(60)
        .full_batch()
        .learning_rate(0.5)
        .build()?
        .train()?;
    println!("          a      b      c");
    println!("shared  {}", format_params(run.shared()?.params()));
    for client in ["low", "middle", "high"] {
        println!(
            "{client:<7} {}",
            format_params(run.personal(client)?.params())
        );
    }
    Ok(())
}

fn format_params(params: &[f32]) -> String {
    let numbers: Vec<String> = params.iter().map(|p| format!("{p:>6.2}")).collect();
    numbers.join(" ")
}
