//! Areas under the ROC curve: exact for one client, from histograms for a sum over clients.

use std::collections::BTreeMap;

use super::assessment::mean;

/// Number of bins of the logit.
pub(super) const BINS: usize = 1000;
/// Logits beyond ± this value are in the outermost bins.
const MAX_LOGIT: f64 = 20.0;

/// Per bin of the logit: the number of examples (of the class, of others).
pub(super) type LogitBins = BTreeMap<u16, (u64, u64)>;

/// Returns the number of ranked classes: with two classes the second only.
pub(super) fn ranked(classes: usize) -> usize {
    if classes == 2 { 1 } else { classes }
}

/// Returns the area under the curve, for more than two classes the mean of one against the rest
/// over the classes that occur; `None` if no class has both its own and other examples. Counts
/// every logit in `bins`, which is empty or has an element for every ranked class.
///
/// The area of a class is the share of pairs (example of the class, other example) in which the
/// first has the higher score; ties count half. Only the scores of a class's own examples are kept
/// and sorted, and every other example is searched among them. So the work grows with
/// examples × classes, and the memory with the number of examples.
pub(super) fn exact(
    classes: usize,
    truths: &[u32],
    mut ranks: impl FnMut(usize, &mut Vec<(f64, f64)>),
    bins: &mut [LogitBins],
) -> Option<f64> {
    let of_class = |truth: u32| match classes {
        2 => (truth == 1).then_some(0),
        _ => Some(truth as usize),
    };
    let mut own = vec![Vec::new(); ranked(classes)];
    let mut scores = Vec::new();
    for (row, truth) in truths.iter().enumerate() {
        if let Some(class) = of_class(*truth) {
            ranks(row, &mut scores);
            own[class].push(scores[class].0 + 0.0); // −0 becomes 0
        }
    }
    own.iter_mut()
        .for_each(|scores| scores.sort_unstable_by(f64::total_cmp));
    // Twice the number of pairs in the right order.
    let mut halves = vec![0u64; own.len()];
    for (row, truth) in truths.iter().enumerate() {
        ranks(row, &mut scores);
        let class = of_class(*truth);
        for (k, (score, logit)) in scores.iter().enumerate() {
            let is = class == Some(k);
            if let Some(bins) = bins.get_mut(k) {
                let counts = bins.entry(bin_of(*logit)).or_default();
                if is { counts.0 += 1 } else { counts.1 += 1 }
            }
            if !is {
                halves[k] += half_pairs(&own[k], score + 0.0);
            }
        }
    }
    mean(own.iter().zip(halves).filter_map(|(own, halves)| {
        let (of, others) = (own.len() as f64, (truths.len() - own.len()) as f64);
        (of > 0.0 && others > 0.0).then(|| 0.5 * halves as f64 / (of * others))
    }))
}

/// Returns twice the number of sorted scores above `score`, plus the number of equal ones.
fn half_pairs(sorted: &[f64], score: f64) -> u64 {
    let up_to = sorted.partition_point(|own| own.total_cmp(&score).is_le());
    let below = sorted[..up_to].partition_point(|own| own.total_cmp(&score).is_lt());
    (2 * (sorted.len() - up_to) + (up_to - below)) as u64
}

/// Returns the area of one class from its histogram; `None` without pairs.
pub(super) fn binned(bins: &LogitBins) -> Option<f64> {
    let (mut of, mut others, mut pairs) = (0.0, 0.0, 0.0);
    for (a, b) in bins.values() {
        let (a, b) = (*a as f64, *b as f64);
        pairs += a * (others + 0.5 * b);
        of += a;
        others += b;
    }
    (of > 0.0 && others > 0.0).then(|| pairs / (of * others))
}

fn bin_of(logit: f64) -> u16 {
    let place = (logit + MAX_LOGIT) / (2.0 * MAX_LOGIT) * BINS as f64;
    place.clamp(0.0, BINS as f64 - 1.0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Classes 0, 1, 2 with scores by hand. Class 0: own 3 and 1, others 2, 1 and 0: 3 is above
    /// three, 1 above one and equal to one: 4.5 of 6 pairs. Class 1: own 5, others 5, 4, 6 and −0:
    /// 2.5 of 4. Class 2: own 0 and 7, others −0, 8 and 8: 0 equals −0, 7 is above it: 1.5 of 6.
    #[test]
    fn pairs_by_hand() {
        let truths = [0, 0, 1, 2, 2];
        let scores = [
            [3.0, 5.0, -0.0],
            [1.0, 4.0, 8.0],
            [2.0, 5.0, 8.0],
            [1.0, 6.0, 0.0],
            [0.0, -0.0, 7.0],
        ];
        let mut bins = vec![LogitBins::new(); 3];
        let ranks = |row: usize, out: &mut Vec<(f64, f64)>| {
            out.clear();
            out.extend(scores[row].map(|score| (score, score)));
        };
        let auc = exact(3, &truths, ranks, &mut bins).unwrap();
        let expected = (4.5 / 6.0 + 2.5 / 4.0 + 1.5 / 6.0) / 3.0;
        assert!((auc - expected).abs() < 1e-15, "{auc} {expected}");
        // Bins of 0.04: these scores are in different bins, and ±0 is in one.
        let binned = mean(bins.iter().filter_map(binned)).unwrap();
        assert!((binned - expected).abs() < 1e-15, "{binned} {expected}");
        assert_eq!(exact(3, &[1, 1], ranks, &mut []), None);
    }
}
