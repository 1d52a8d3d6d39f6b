//! A thread's own memory, and what models score with it.

use super::{Predictor, Sampler};
use crate::data::{Examples, Features, Targets};
use crate::metrics::assessment::{Answer, Values};
use crate::metrics::{Assessment, Tally};
use crate::model::loss::predicted;
use crate::model::{Model, Workspace};
use crate::params::Params;

/// A thread's own memory, reused from client to client.
#[derive(Clone, Debug)]
pub struct Scratch {
    pub(super) workspace: Workspace,
    pub(super) batch: Examples,
    pub(super) whole: Sampler,
    pub(super) rest: Sampler,
    pub(super) aside: Sampler,
    pub(super) spare: Vec<Params>,
    /// Batches drawn: the name of the latest.
    pub(super) drawn: u64,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            workspace: Workspace::default(),
            batch: Examples::new(
                0,
                Features::Floats(Vec::new()),
                Targets::Classes(Vec::new()),
            ),
            whole: Sampler::default(),
            rest: Sampler::default(),
            aside: Sampler::default(),
            spare: Vec::new(),
            drawn: 0,
        }
    }
}

/// Rows of evaluation that go through a model at once.
pub(super) const EVALUATION_ROWS: usize = 256;

impl Scratch {
    /// The loss of every one of those examples.
    pub fn losses(
        &mut self,
        model: &dyn Model,
        predictor: &Predictor<'_>,
        examples: &Examples,
    ) -> Vec<f64> {
        let mut losses = Vec::with_capacity(examples.len());
        for start in (0..examples.len()).step_by(EVALUATION_ROWS) {
            let batch = examples.batch(start, EVALUATION_ROWS);
            let outputs = predictor.outputs(model, &batch, &mut self.workspace);
            let rows = outputs.chunks_exact(model.outputs()).enumerate();
            losses.extend(rows.map(|(k, z)| model.tally(&examples.batch(start + k, 1), z).loss));
        }
        losses
    }

    /// Loss and hits of `predictor` on all of those examples.
    pub fn tally(
        &mut self,
        model: &dyn Model,
        predictor: &Predictor<'_>,
        examples: &Examples,
    ) -> Tally {
        let mut tally = Tally::default();
        for start in (0..examples.len()).step_by(EVALUATION_ROWS) {
            let batch = examples.batch(start, EVALUATION_ROWS);
            let outputs = predictor.outputs(model, &batch, &mut self.workspace);
            tally.add(&model.tally(&batch, outputs));
        }
        tally
    }

    /// The sums that final scores are made of; `center` is what a client without a model would
    /// answer where numbers are predicted: the mean of its training examples.
    pub fn assess(
        &mut self,
        model: &dyn Model,
        predictor: &Predictor<'_>,
        examples: &Examples,
        classes: usize,
        center: f64,
    ) -> Assessment {
        let (loss, width) = (model.loss(), model.outputs());
        let mut outputs = Vec::with_capacity(examples.len() * width);
        for start in (0..examples.len()).step_by(EVALUATION_ROWS) {
            let batch = examples.batch(start, EVALUATION_ROWS);
            outputs.extend_from_slice(predictor.outputs(model, &batch, &mut self.workspace));
        }
        let truths = match examples.targets() {
            Targets::Classes(truths) => truths,
            Targets::Values(truths) => {
                let mut values = Values::default();
                for (z, truth) in outputs.iter().zip(truths) {
                    let truth = f64::from(*truth);
                    let (error, plain) = (f64::from(*z) - truth, center - truth);
                    values.truth.add(truth);
                    values.absolute += error.abs();
                    values.squared += error * error;
                    values.mean_absolute += plain.abs();
                    values.mean_squared += plain * plain;
                }
                return Assessment {
                    values: Some(values),
                    ..Assessment::default()
                };
            }
        };
        let mut said = Vec::with_capacity(truths.len());
        for z in outputs.chunks_exact(width) {
            let mut ranks = Vec::new();
            loss.ranks(z, classes, &mut ranks);
            said.push((loss.present(z, classes), ranks));
        }
        let rows = outputs.chunks_exact(width).zip(truths).zip(&said);
        Assessment::of_classes(
            classes,
            rows.map(|((z, truth), (scores, ranks))| Answer {
                truth: *truth as usize,
                answer: predicted(z) as usize,
                probabilities: loss.has_probabilities().then_some(&scores[..]),
                ranks,
            }),
        )
    }
}
