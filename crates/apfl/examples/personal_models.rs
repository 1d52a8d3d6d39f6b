//! A run in a directory that is stopped and resumed, and predictions of its personal models.
//!
//! ```text
//! cargo run --release -p apfl --example personal_models
//! ```

use std::ops::ControlFlow;

use apfl::{Apfl, Ended, Event, Examples, InMemory, Loss, Mlp, Result, Run, WhichModel};

/// Returns two clinics that label the same measurement in opposite ways.
fn data() -> Result<InMemory> {
    let mut data = InMemory::classes(["measurement"], ["healthy", "ill"]);
    for (clinic, flipped) in [("east", 0), ("west", 1)] {
        let x: Vec<f32> = (0..50).map(|k| k as f32 / 25.0 - 1.0).collect();
        let y = x.iter().map(|x| u32::from(*x > 0.1) ^ flipped).collect();
        data.add(clinic, Examples::classes(1, x, y)?, 0.2)?;
    }
    Ok(data)
}

/// Starts a run in a directory, stops it, resumes it, and predicts with its models.
pub fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("personal-models-{}", std::process::id()));
    let build = |resume| {
        let model = Mlp::new(1, &[], 2, Loss::Softmax, 1e-4);
        Run::builder(data()?, model)
            .algorithm(Apfl::adaptive(0.5))
            .rounds(30)
            .directory(&directory)
            .resume(resume)
            .build()
    };
    // A caller may stop a run after any round; it can be resumed.
    let ended = build(false)?.watch(&mut |event| match event {
        Event::Round(round) if round.round == 12 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })?;
    if let Ended::Stopped(round) = ended {
        println!("stopped after round {round}");
    }
    let run = build(true)?.train()?;
    println!("finished with {}", run.summary.fingerprint);

    for clinic in ["east", "west"] {
        for which in [WhichModel::Shared, WhichModel::Personal] {
            let model = run.model(which, clinic)?;
            let predictions = model.predict(&[-0.8, 0.9])?;
            let names = predictions
                .iter()
                .filter_map(|p| model.class_name(p.class()?))
                .collect::<Vec<_>>();
            println!(
                "{clinic}, {which:?} model: −0.8 and 0.9 are {}",
                names.join(" and ")
            );
        }
    }
    std::fs::remove_dir_all(&directory).ok();
    Ok(())
}
