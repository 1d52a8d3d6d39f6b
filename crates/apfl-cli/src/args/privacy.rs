//! Arguments of `apfl privacy`.

use apfl::privacy::LEAST_NOISE;

/// `apfl privacy`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl privacy --noise 1.1 --sampling 0.1 --steps 100      ε of 100 rounds with a tenth of the clients
  apfl privacy --epsilon 8 --sampling 0.1 --steps 100      the noise needed for ε = 8
  apfl privacy --noise 1.5 --sampling 0.04 --steps 2250 --json

With federation.privacy.level = \"client\", a step is a round and the sampling rate is the
participation. With level = \"example\", a step is a local step and the rate is batch/m for a client
with m training examples. Both accountants give upper bounds; ε is the smaller one. See
docs/PRIVACY.md.")]
pub struct Privacy {
    /// σ: the noise's standard deviation, in units of the clip
    #[arg(long, value_name = "σ", value_parser = noise, required_unless_present = "epsilon", conflicts_with = "epsilon")]
    pub noise: Option<f64>,
    /// ε: compute the noise that gives it
    #[arg(long, value_name = "ε", value_parser = epsilon)]
    pub epsilon: Option<f64>,
    /// q: the probability of being sampled in a step
    #[arg(long, value_name = "q", value_parser = sampling)]
    pub sampling: f64,
    /// T: the number of steps
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub steps: u64,
    /// δ: the probability of exceeding ε
    #[arg(long, value_name = "δ", default_value_t = 1e-5, value_parser = delta)]
    pub delta: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn number(text: &str, allowed: &str, fits: impl Fn(f64) -> bool) -> Result<f64, String> {
    let found: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if fits(found) {
        Ok(found)
    } else {
        Err(format!("allowed is {allowed}"))
    }
}

fn noise(text: &str) -> Result<f64, String> {
    number(text, "0, or 0.01 to 1e6", |x| {
        x == 0.0 || (LEAST_NOISE..=1e6).contains(&x)
    })
}

fn epsilon(text: &str) -> Result<f64, String> {
    number(text, "1e-6 to 1e6", |x| (1e-6..=1e6).contains(&x))
}

fn sampling(text: &str) -> Result<f64, String> {
    number(text, "above 0, at most 1", |x| x > 0.0 && x <= 1.0)
}

fn delta(text: &str) -> Result<f64, String> {
    number(text, "1e-15 to 0.5", |x| (1e-15..=0.5).contains(&x))
}
