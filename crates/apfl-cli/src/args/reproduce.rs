//! Arguments of `apfl reproduce`.

use std::path::PathBuf;

use super::Overrides;

/// `apfl reproduce`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl reproduce fig4                        seconds: synthetic data, no download
  apfl reproduce fig2 fig3 table2            MNIST: apfl data get mnist
  apfl reproduce all --quick                 a fifth of the rounds, one seed
  apfl reproduce table1 --seeds 1            CIFAR-10 and the CNN: hours

Items of the paper: fig1 fig2 fig3 fig4 table1 fig5 table2 fig6, or all of them. Further items:
robustness (attacking clients against robust aggregators), privacy (ε of shared and personal
models), fedrep (CIFAR-10 as in FedRep's table), pfllib (Fashion-MNIST as in PFLlib's) and heart
(four hospitals as in FLamby's).

Tables 1 and 2 are run twice: as the paper's text and as the authors' released code describe them
(preset = \"authors\"). OUT/<item> gets verdict.json, verdict.md, the figure as SVG and PNG, the
tables as CSV and Markdown, and every run's directory. A claim holds if its margin is above
t standard errors over seeds (Student's t, one-sided 95%: 2.92 for three seeds), fails if it is
below minus that, and is within noise otherwise; with one seed the sign decides. If a figure's
claim fails, APFL's runs are repeated with the variants of public implementations, and the verdict
says whether it holds then.

Finished runs are not repeated. --set algorithm.mixing=… changes only runs whose algorithm has
that key.")]
pub struct Reproduce {
    /// Figures and tables: fig1 fig2 fig3 fig4 table1 fig5 table2 fig6 robustness privacy
    /// fedrep pfllib heart, or all
    #[arg(value_name = "ITEM", required = true)]
    pub items: Vec<String>,
    /// Seeds 1, 2, … N [default: 3; 10 for fig6; 1 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,
    /// A reduced version that takes minutes: a fifth of the rounds, a tenth of the CNN's
    #[arg(long)]
    pub quick: bool,
    /// Do not try variants where a claim fails
    #[arg(long)]
    pub no_variants: bool,
    #[command(flatten)]
    pub overrides: Overrides,
    /// The output directory
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    pub out: PathBuf,
    /// Threads; 0 for all cores. Does not change any result
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=4096))]
    pub threads: usize,
    /// Print no progress; errors are still printed
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
