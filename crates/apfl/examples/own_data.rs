//! Custom data: three shops with different demand, in memory, without a spec.
//!
//! ```text
//! cargo run --release -p apfl --example own_data
//! ```

use apfl::{Apfl, Examples, InMemory, Loss, Mlp, Result, Run};

/// Returns the sales of a shop at temperatures and prices (both in ±1). Each shop weighs the two
/// in its own way.
fn rows(shop: usize) -> Result<Examples> {
    let (warm, cheap) = [(3.0, -1.0), (1.0, -3.0), (-2.0, -1.0)][shop];
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for k in 0..60 {
        let (temperature, price) = ((k % 9) as f32 / 4.0 - 1.0, (k % 7) as f32 / 3.0 - 1.0);
        x.extend([temperature, price]);
        y.push(warm * temperature + cheap * price);
    }
    Examples::values(2, x, y)
}

/// Trains and prints the error of each model.
pub fn main() -> Result<()> {
    let mut data = InMemory::values(["temperature", "price"]);
    for (shop, name) in ["harbour", "market", "station"].into_iter().enumerate() {
        data.add(name, rows(shop)?, 0.2)?; // a fifth is held out to score on
    }
    let model = Mlp::new(2, &[], 1, Loss::SquaredError, 0.0);
    let run = Run::builder(data, model)
        .algorithm(Apfl::adaptive(0.1))
        .rounds(40)
        .learning_rate(0.05)
        .build()?
        .train()?;
    println!("shop      rmse: shared  personal      α");
    for client in run.clients()? {
        let rmse = |scores: &apfl::metrics::FinalScores| scores.valid.rmse.unwrap_or(f64::NAN);
        println!(
            "{:<9} {:>12.3} {:>9.3} {:>6.2}",
            client.client,
            rmse(&client.scores.shared),
            rmse(&client.scores.personal),
            client.alpha().unwrap_or(f64::NAN)
        );
    }
    Ok(())
}
