//! Invariants 1 to 4: what the mixing weight may and may not touch.

use std::sync::Arc;

use apfl::training::RoundRecord;

use super::{
    LOGISTIC, MLP, SMALL, apfl, bits, finalized, finish, in_memory, spec, start, start_with,
};

#[test]
fn i01_the_shared_path_is_fedavgs_whatever_the_mixing() {
    for model in [LOGISTIC, MLP] {
        let mut fedavg = start(&spec(SMALL, "{ kind = 'fedavg' }", model));
        let mixings = [
            "fixed = 0",
            "fixed = 0.25",
            "fixed = 1",
            "adaptive = 0.01",
            "adaptive = 0.9",
        ];
        let mut others = mixings.map(|m| start(&spec(SMALL, &apfl(m), model)));
        let mut last = Vec::new();
        while let Some(record) = fedavg.next_round().unwrap() {
            let w = bits(&fedavg.shared());
            assert_ne!(w, last, "w moves");
            for (other, mixing) in others.iter_mut().zip(mixings) {
                let its = other.next_round().unwrap().expect("as many rounds");
                assert_eq!(bits(&other.shared()), w, "{mixing}, round {}", record.round);
                let (ours, its) = (record.scores.unwrap(), its.scores.unwrap());
                assert_eq!((ours.shared, ours.localized), (its.shared, its.localized));
            }
            last = w;
        }
    }
}

#[test]
fn i02_mixing_zero_leaves_the_local_model_alone() {
    for model in [LOGISTIC, MLP] {
        let mut training = start(&spec(SMALL, &apfl("fixed = 0"), model));
        for record in finish(&mut training) {
            let scores = record.scores.unwrap();
            assert_eq!(scores.personal, scores.localized);
        }
        // The localized model is FedAvg's, and it is what is served.
        let mut fedavg = start(&spec(SMALL, "{ kind = 'fedavg' }", model));
        finish(&mut fedavg);
        let w0 = bits(&training.setup().context.w0);
        for (ours, its) in finalized(&mut training).iter().zip(finalized(&mut fedavg)) {
            assert_eq!(bits(&ours.local), w0, "v never moves");
            assert_eq!(bits(&ours.personal), bits(&its.local));
        }
    }
}

#[test]
fn i03_mixing_one_is_local_training() {
    for model in [LOGISTIC, MLP] {
        let mut apfl = start(&spec(SMALL, &apfl("fixed = 1"), model));
        let mut local = start(&spec(SMALL, "{ kind = 'local' }", model));
        for (ours, its) in finish(&mut apfl).iter().zip(finish(&mut local)) {
            let (ours, its) = (ours.scores.unwrap(), its.scores.unwrap());
            assert_eq!(ours.personal, its.personal);
            assert_eq!(its.localized, its.personal);
        }
        let w0 = bits(&local.setup().context.w0);
        assert_eq!(bits(&local.shared()), w0, "nothing is shared");
        for (ours, its) in finalized(&mut apfl).iter().zip(finalized(&mut local)) {
            assert_eq!(bits(&ours.local), bits(&its.local));
            assert_eq!(bits(&ours.personal), bits(&its.personal));
            assert_ne!(bits(&ours.local), w0);
        }
    }
}

#[test]
fn i03_mixing_one_does_not_see_the_other_clients() {
    let first_of = |algorithm: &str, changed: bool| {
        let mut training = start_with(&spec(SMALL, algorithm, LOGISTIC), |setup| {
            let mut data = in_memory(setup);
            if changed {
                // Everyone but client 0 gets the data of the last client.
                let last = data.shards[7].clone();
                data.shards[1..7].fill(last);
            }
            setup.participation = 1.0;
            setup.context.dataset = Arc::new(data);
        });
        finish(&mut training);
        let models = finalized(&mut training);
        (bits(&models[0].local), bits(&training.shared()))
    };
    let (before, after) = (
        first_of(&apfl("fixed = 1"), false),
        first_of(&apfl("fixed = 1"), true),
    );
    assert_eq!(before.0, after.0);
    assert_ne!(before.1, after.1, "the shared model does see them");
    // And it would be seen at any smaller α.
    let half = |changed| first_of(&apfl("fixed = 0.5"), changed).0;
    assert_ne!(half(false), half(true));
}

#[test]
fn i04_learned_mixing_does_not_move_in_the_first_round() {
    for model in [LOGISTIC, MLP] {
        let mut training = start_with(&spec(SMALL, &apfl("adaptive = 0.3"), model), |setup| {
            setup.participation = 1.0;
        });
        let alpha = |record: RoundRecord| record.mixing.expect("APFL has an α");
        let first = alpha(training.next_round().unwrap().unwrap());
        let start = f64::from(0.3f32);
        assert_eq!((first.min, first.max), (start, start));
        let second = alpha(training.next_round().unwrap().unwrap());
        assert!(second.min < second.max, "then clients go their own ways");
    }
}
