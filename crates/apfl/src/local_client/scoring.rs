//! Scores of models on examples.

use rand::seq::SliceRandom;

use super::{Predictor, Scratch};
use crate::data::augment::Augmentation;
use crate::data::{Examples, Targets};
use crate::metrics::assessment::{ClassPrediction, ErrorSums};
use crate::metrics::{Assessment, Tally};
use crate::model::loss::predicted_class;
use crate::model::{Evaluation, Model};
use crate::rng::{Purpose, stream};

/// Batch size of evaluation.
pub(super) const EVALUATION_ROWS: usize = 256;

/// Hashes the first row and all targets of some examples (FNV-1a, word by word).
fn content_hash(examples: &Examples) -> u64 {
    let mut buffer = Vec::new();
    let first = examples.batch(0, 1);
    let row = first.numbers(&mut buffer).iter().map(|x| x.to_bits());
    let word = |all: u64, word: u32| (all ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3);
    let seen = row.fold(0xcbf2_9ce4_8422_2325, word);
    match examples.targets() {
        Targets::Classes(classes) => classes.iter().copied().fold(seen, word),
        Targets::Values(values) => values.iter().map(|y| y.to_bits()).fold(seen, word),
    }
}

impl Scratch {
    /// Returns the outputs for all examples, in their order.
    ///
    /// They are computed as the model's [`Evaluation`] says: in shuffled batches, on augmented
    /// images. The order follows from the examples' content, so a model always gets the same
    /// scores, and clients whose rows are sorted alike do not share an order.
    fn outputs(
        &mut self,
        model: &dyn Model,
        predictor: &Predictor<'_>,
        examples: &Examples,
    ) -> Vec<f32> {
        let (rows, width) = (examples.len(), model.outputs());
        let mut outputs = vec![0.0; rows * width];
        if rows == 0 {
            return outputs;
        }
        let Evaluation {
            batch: size,
            augmented,
        } = model.network().evaluation();
        let mut order: Vec<u32> = (0..rows as u32).collect();
        let hash = content_hash(examples);
        if size.is_some() {
            order.shuffle(&mut stream(hash, Purpose::Evaluation, 0, rows as u64));
        }
        let shape = model.network().augmented().filter(|_| augmented);
        let rng = stream(hash, Purpose::Evaluation, 1, rows as u64);
        let mut augmentation = shape.map(|shape| Augmentation::new(shape, rng));
        for rows in order.chunks(size.unwrap_or(EVALUATION_ROWS)) {
            let mut batch = examples.gathered(rows);
            if let Some(augmentation) = &mut augmentation {
                augmentation.apply(&mut batch);
            }
            let batch_outputs = predictor.outputs(model, &batch.all(), &mut self.workspace);
            for (row, z) in rows.iter().zip(batch_outputs.chunks_exact(width)) {
                outputs[*row as usize * width..][..width].copy_from_slice(z);
            }
        }
        outputs
    }

    /// Calls `see` with the first row and the outputs of every batch of the examples.
    fn for_each_batch(
        &mut self,
        model: &dyn Model,
        predictor: &Predictor<'_>,
        examples: &Examples,
        mut see: impl FnMut(usize, &[f32]),
    ) {
        if !model.network().evaluation().is_plain() {
            return see(0, &self.outputs(model, predictor, examples));
        }
        for start in (0..examples.len()).step_by(EVALUATION_ROWS) {
            let batch = examples.batch(start, EVALUATION_ROWS);
            see(start, predictor.outputs(model, &batch, &mut self.workspace));
        }
    }

    /// Returns the loss of every example.
    pub fn losses(
        &mut self,
        model: &dyn Model,
        predictor: &Predictor<'_>,
        examples: &Examples,
    ) -> Vec<f64> {
        let mut losses = Vec::with_capacity(examples.len());
        self.for_each_batch(model, predictor, examples, |start, outputs| {
            let rows = outputs.chunks_exact(model.outputs()).enumerate();
            losses.extend(rows.map(|(k, z)| model.tally(&examples.batch(start + k, 1), z).loss));
        });
        losses
    }

    /// Returns the sums of loss and hits of `predictor` over all examples.
    pub fn tally(
        &mut self,
        model: &dyn Model,
        predictor: &Predictor<'_>,
        examples: &Examples,
    ) -> Tally {
        let mut tally = Tally::default();
        self.for_each_batch(model, predictor, examples, |start, outputs| {
            let rows = outputs.len() / model.outputs();
            tally.add(&model.tally(&examples.batch(start, rows), outputs));
        });
        tally
    }

    /// Returns the sums that final scores are computed from. `center` is the baseline prediction
    /// for regression: the mean label of the client's training examples.
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
        self.for_each_batch(model, predictor, examples, |_, batch| {
            outputs.extend_from_slice(batch);
        });
        let truths = match examples.targets() {
            Targets::Classes(truths) => truths,
            Targets::Values(truths) => {
                let mut values = ErrorSums::default();
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
        let row = |row: usize| &outputs[row * width..][..width];
        let predictions = truths.iter().enumerate().map(|(k, truth)| ClassPrediction {
            truth: *truth as usize,
            predicted: predicted_class(row(k)) as usize,
            probabilities: loss
                .has_probabilities()
                .then(|| loss.display_scores(row(k), classes)),
        });
        let mut assessment = Assessment::of_classes(classes, predictions);
        assessment.rank(classes, truths, |k, ranks| {
            loss.ranking_scores(row(k), classes, ranks);
        });
        assessment
    }
}
