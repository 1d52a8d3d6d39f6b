//! The number of threads, the order of processing and absent clients change no bit of the
//! results.

use std::sync::Arc;

use crate::small::{fitting, synthetic};
use apfl::algorithm::apfl::Mixing;
use apfl::algorithm::{Algorithm, Apfl, FedAvg, LocalOnly, every_algorithm};
use apfl::clients::{Clients, Finalized, Request, Response, RunContext, StateHome, StateSet};
use apfl::digest::digest_of;
use apfl::engine::{Engine, Threads};
use apfl::files::archive::ArchiveDirectory;
use apfl::local_client::Scratch;
use apfl::metrics::Tallies;
use apfl::pack::arrays_from_bytes;
use apfl::spec::Spec;
use apfl::training::{RoundRecord, Training};

/// 23 clients of 50 to 400 examples; 7 of them take part in a round.
fn spec(algorithm: &str, threads: usize) -> Spec {
    let text = format!(
        "seed = 11
         algorithm = {algorithm}
         data = {{ kind = 'synthetic', clients = 23, features = 9, classes = 4, max_examples = 400 }}
         model = {{ kind = 'mlp', hidden = [12] }}
         federation = {{ participation = 0.3 }}
         training = {{ rounds = 7, local_epochs = 2, batch = 16 }}
         evaluation = {{ every = 2 }}
         engine = {{ threads = {threads} }}"
    );
    let spec = fitting(Spec::parse(&text).unwrap());
    // Averaged outputs need the same number of steps everywhere.
    match spec.plan() {
        Ok(_) => spec,
        Err(_) => Spec::parse(&text.replace("local_epochs = 2", "local_steps = 9")).unwrap(),
    }
}

fn context() -> RunContext {
    let plan = spec("{ kind = 'fedavg' }", 1).plan().unwrap();
    plan.setup().unwrap().context
}

/// Everything a run shows but its wall time: records, fingerprint, shared model and
/// what finalization leaves at every client.
fn everything(algorithm: &str, threads: usize) -> (Vec<RoundRecord>, String, String) {
    let plan = spec(algorithm, threads).plan().unwrap();
    let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
    let mut records = Vec::new();
    while let Some(mut record) = training.next_round().unwrap() {
        record.seconds = 0.0;
        records.push(record);
    }
    let mut left = format!("{:?}", training.shared());
    let receivers = training.receivers();
    let mut keep = |finalized| {
        left += &format!("{finalized:?}");
        Ok(())
    };
    let before = training.fingerprint().unwrap();
    training.finalize(&receivers, &mut keep).unwrap();
    let after = training.fingerprint().unwrap();
    assert_eq!(before, after, "finalization changes nothing");
    (records, after, left)
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let mut fingerprints = Vec::new();
    for algorithm in every_algorithm() {
        let (records, fingerprint, left) = everything(algorithm, 1);
        assert_eq!(records.len(), 7);
        let evaluated: Vec<bool> = records.iter().map(|r| r.scores.is_some()).collect();
        let (yes, no) = (true, false);
        assert_eq!(evaluated, [no, yes, no, yes, no, yes, yes]);
        let everybody = spec(algorithm, 1).plan().unwrap().participation == 1.0;
        let cohort = if everybody { 23 } else { 7 }; // 0.3·23 = 6.9
        assert!(records.iter().all(|r| r.cohort == cohort));
        for threads in [2, 3, 8] {
            let other = everything(algorithm, threads);
            assert_eq!(other.0, records, "{algorithm}, {threads} threads");
            assert_eq!(other.1, fingerprint, "{algorithm}, {threads} threads");
            assert_eq!(other.2, left, "{algorithm}, {threads} threads");
        }
        fingerprints.push(fingerprint);
    }
    fingerprints.sort();
    fingerprints.dedup();
    let different = fingerprints.len();
    assert_eq!(different, every_algorithm().len(), "each has its own");
}

/// Trains `cohort` in one round and gives the digests of all client states.
fn round<A: Algorithm>(
    engine: &mut Threads<A>,
    algorithm: &A,
    number: u64,
    cohort: &[usize],
) -> Vec<[u8; 32]> {
    let w: Vec<f32> = (0..context().w0.len())
        .map(|k| (k % 13) as f32 / 50.0)
        .collect();
    let sent = algorithm.broadcast(&algorithm.start(&w, 23));
    let mut order = Vec::new();
    let train = Request::Train {
        round: number,
        sent,
        score: false,
    };
    let mut see = |client, _| {
        order.push(client);
        Ok(())
    };
    engine.exchange(&train, cohort, &mut see).unwrap();
    assert_eq!(order, cohort, "responses come in the order of the clients");
    let all: Vec<usize> = (0..23).collect();
    let mut digests = Vec::new();
    let mut see = |_, response| {
        if let Response::Digest(digest) = response {
            digests.push(digest);
        }
        Ok(())
    };
    engine.exchange(&Request::Digest, &all, &mut see).unwrap();
    digests
}

fn clients_outside_keep_their_state<A: Algorithm + Clone>(algorithm: A) {
    let engine =
        || Threads::new(context(), Arc::new(algorithm.clone()), 3, &StateHome::Ram).unwrap();
    let mut old = engine();
    round(
        &mut old,
        &algorithm,
        1,
        &(0..23).filter(|k| k % 5 > 0).collect::<Vec<_>>(),
    );
    let before = round(&mut old, &algorithm, 2, &[1, 4, 7]);
    let cohort = [3, 4, 11, 15];
    let after = round(&mut old, &algorithm, 3, &cohort);
    for client in 0..23 {
        let same = before[client] == after[client];
        assert_eq!(same, !cohort.contains(&client), "client {client}");
    }
    // Client 15 was sampled for the first time: its state is that of a new process.
    let joined = digest_of(&algorithm.join(&context().w0));
    assert_eq!(
        before[15], joined,
        "a client that was never sampled is as if just joined"
    );
    assert_eq!(round(&mut engine(), &algorithm, 3, &[15])[15], after[15]);
}

#[test]
fn clients_outside_the_cohort_keep_their_state() {
    clients_outside_keep_their_state(Apfl::paper(Mixing::Fixed(0.25)));
    clients_outside_keep_their_state(Apfl::paper(Mixing::Adaptive(0.5)));
    clients_outside_keep_their_state(LocalOnly);
}

fn order_is_irrelevant<A: Algorithm<Broadcast: Clone>>(algorithm: A) {
    let context = context();
    let algorithm = Arc::new(algorithm);
    let sent = algorithm.broadcast(&algorithm.start(&context.w0, 23));
    let processed = |order: &[usize]| {
        let clients = Clients::new(context.clone(), algorithm.clone(), &StateHome::Ram).unwrap();
        // One scratch for all: nothing a client leaves on it may reach the next.
        let mut scratch = Scratch::default();
        let mut results = vec![None; 23];
        for number in 1..=2 {
            for client in order {
                let train = Request::Train {
                    round: number,
                    sent: sent.clone(),
                    score: true,
                };
                let response = clients.handle((0, *client), &train, &mut scratch);
                let Response::Trained(Some(reply)) = response.unwrap() else {
                    panic!("a finite loss");
                };
                let state = clients.digest(*client).unwrap();
                results[*client] = Some((digest_of(&reply.update), reply.tallies, state));
            }
        }
        results
    };
    let forward: Vec<usize> = (0..23).collect();
    let backward: Vec<usize> = (0..23).rev().collect();
    let mixed: Vec<usize> = (0..23).map(|k| k * 7 % 23).collect();
    let expected = processed(&forward);
    assert!(expected == processed(&backward));
    assert!(expected == processed(&mixed));
}

#[test]
fn the_order_of_processing_changes_nothing() {
    order_is_irrelevant(Apfl::paper(Mixing::Adaptive(0.5)));
    order_is_irrelevant(FedAvg);
    order_is_irrelevant(LocalOnly);
}

#[test]
fn a_cohort_is_sampled_uniformly_without_replacement() {
    let plan = spec("{ kind = 'fedavg' }", 1).plan().unwrap();
    let setup = plan.setup().unwrap();
    let rounds = 4000;
    let mut sampled = [0; 23];
    for round in 1..=rounds {
        let cohort = setup.cohort(round);
        assert_eq!(cohort.len(), 7);
        assert!(
            cohort.windows(2).all(|pair| pair[0] < pair[1]),
            "{cohort:?}"
        );
        cohort.iter().for_each(|client| sampled[*client] += 1);
    }
    // Each count is binomial with p = 7/23: mean 1217, deviation 29. Five of them is ample.
    let mean = rounds as f64 * 7.0 / 23.0;
    let bound = 5.0 * (mean * 16.0 / 23.0).sqrt();
    for (client, count) in sampled.into_iter().enumerate() {
        assert!(
            (f64::from(count) - mean).abs() < bound,
            "client {client}: {count}"
        );
    }
}

/// With full batches the last local round is what one more round of training would be;
/// with mini-batches it has random numbers of its own.
#[test]
fn finalization_goes_on_from_client_states() {
    for (batch, same) in [("'full'", true), ("16", false)] {
        for algorithm in [
            "{ kind = 'apfl', mixing = { fixed = 0.25 } }",
            "{ kind = 'apfl', mixing = { adaptive = 0.5 } }",
            "{ kind = 'fedavg' }",
            "{ kind = 'local' }",
        ] {
            let start = |rounds: u64| {
                let mut spec = spec(algorithm, 2);
                spec.set("federation.participation=1").unwrap();
                spec.set(&format!("training.batch={batch}")).unwrap();
                spec.set(&format!("training.rounds={rounds}")).unwrap();
                let plan = spec.plan().unwrap();
                Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap()
            };
            let mut longer = start(4);
            let records: Vec<_> = std::iter::from_fn(|| longer.next_round().unwrap()).collect();
            let one_more = records[3].scores.unwrap();

            let mut training = start(3);
            while training.next_round().unwrap().is_some() {}
            let (mut localized, mut personal) = (Tallies::default(), Tallies::default());
            let mut add = |finalized: Finalized| {
                localized.add(&finalized.tallies().localized);
                personal.add(&finalized.tallies().personal);
                Ok(())
            };
            let receivers = training.receivers();
            training.finalize(&receivers, &mut add).unwrap();
            let found = (localized.scores(false), personal.scores(false));
            let expected = (one_more.localized, one_more.personal);
            assert_eq!(found == expected, same, "{algorithm}, batch {batch}");
        }
    }
}

#[test]
fn client_states_pass_from_engine_to_engine_through_an_archive() {
    for algorithm in every_algorithm() {
        let more = "training = { rounds = 4, local_steps = 2, batch = 16 }
             federation = { participation = 0.6 }";
        let plan = synthetic(algorithm, more);
        let training = || Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
        let mut whole = training();
        let directory = tempfile::tempdir().unwrap();
        let archive = ArchiveDirectory(directory.path().into());
        whole.next_round().unwrap();
        whole.next_round().unwrap();
        let sampled = whole.sampled();
        let parts = whole
            .save(&archive, "memories", StateSet::Current, &sampled)
            .unwrap();
        let (fields, server) = whole.server_bytes();

        let mut other = training();
        let server = arrays_from_bytes(&fields, &server).unwrap();
        other.restore_server(2, whole.step(), server).unwrap();
        for (part, clients) in parts {
            other
                .restore_clients(&archive, &part.name, StateSet::Current, &clients)
                .unwrap();
        }
        assert_eq!(other.sampled(), sampled);
        for training in [&mut whole, &mut other] {
            while training.next_round().unwrap().is_some() {}
        }
        let both = (whole.fingerprint().unwrap(), other.fingerprint().unwrap());
        assert_eq!(both.0, both.1, "{algorithm}");
    }
}
