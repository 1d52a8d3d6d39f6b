//! Scores of models over examples.

use rand::seq::SliceRandom;

use super::{Predictor, Scratch};
use crate::data::augment::Augmentation;
use crate::data::{Examples, Targets};
use crate::metrics::assessment::{Answer, Values};
use crate::metrics::{Assessment, Tally};
use crate::model::loss::predicted;
use crate::model::{Evaluation, Model};
use crate::rng::{Purpose, stream};

/// Rows of evaluation that go through a model at once.
pub(super) const EVALUATION_ROWS: usize = 256;

/// A number that tells examples apart: of their first row and all targets (FNV-1a, word by word).
fn address(examples: &Examples) -> u64 {
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
    /// The outputs of every one of those examples, in their order, taken as the model's
    /// [`Evaluation`] says: in batches of an order that follows from the examples, of images that
    /// are changed likewise. So one model always has the same scores, and no two clients, whose
    /// rows may lie sorted alike, share an order.
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
        let Evaluation { batch, augmented } = model.network().evaluation();
        let size = batch.unwrap_or(EVALUATION_ROWS);
        let mut order: Vec<u32> = (0..rows as u32).collect();
        let of = address(examples);
        if batch.is_some() {
            order.shuffle(&mut stream(of, Purpose::Evaluation, 0, rows as u64));
        }
        let shape = model.network().augmented().filter(|_| augmented);
        let changes = stream(of, Purpose::Evaluation, 1, rows as u64);
        let mut changes = shape.map(|shape| Augmentation::new(shape, changes));
        for rows in order.chunks(size) {
            let mut some = examples.gathered(rows);
            if let Some(changes) = &mut changes {
                changes.apply(&mut some);
            }
            let found = predictor.outputs(model, &some.all(), &mut self.workspace);
            for (row, z) in rows.iter().zip(found.chunks_exact(width)) {
                outputs[*row as usize * width..][..width].copy_from_slice(z);
            }
        }
        outputs
    }

    /// Hands over all of those examples batch by batch, each with its outputs.
    fn each(
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

    /// The loss of every one of those examples.
    pub fn losses(
        &mut self,
        model: &dyn Model,
        predictor: &Predictor<'_>,
        examples: &Examples,
    ) -> Vec<f64> {
        let mut losses = Vec::with_capacity(examples.len());
        self.each(model, predictor, examples, |start, outputs| {
            let rows = outputs.chunks_exact(model.outputs()).enumerate();
            losses.extend(rows.map(|(k, z)| model.tally(&examples.batch(start + k, 1), z).loss));
        });
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
        self.each(model, predictor, examples, |start, outputs| {
            let rows = outputs.len() / model.outputs();
            tally.add(&model.tally(&examples.batch(start, rows), outputs));
        });
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
        self.each(model, predictor, examples, |_, some| {
            outputs.extend_from_slice(some);
        });
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
