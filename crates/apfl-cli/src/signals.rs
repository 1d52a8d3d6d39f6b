//! Signals: which of them end a run, and which the shell asked to be ignored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apfl::error::{Error, Result};

/// A flag that Ctrl-C, a termination signal or a closed terminal raises; a second signal ends
/// the process at once. A signal that was ignored when the program began (`nohup`, a job in
/// the background of a script) stays so.
pub fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = stop.clone();
    listen(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        crate::output::tell("\nstopping as soon as it can be continued; once more to stop at once");
    })
    .map_err(|e| Error::Engine(format!("cannot listen for signals: {e}")))?;
    Ok(stop)
}

/// Lets the leader of a job decide what a signal means: launchers give it to everybody. A
/// second one ends this process.
#[cfg(feature = "mpi")]
pub fn leave_to_leader() {
    let seen = AtomicBool::new(false);
    let handler = move || {
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    let _ = listen(handler); // where it cannot be, a signal ends the process
}

#[cfg(unix)]
fn listen(mut handler: impl FnMut() + Send + 'static) -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;
    let ignored = ignored();
    let heeded = |signal: &i32| ignored & (1 << (signal - 1)) == 0;
    let wanted: Vec<i32> = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(heeded)
        .collect();
    let mut signals = Signals::new(wanted)?;
    // A file beyond the limit is an error of the write, with a message, and no sudden end.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let forever = move || signals.forever().for_each(|_| handler());
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(forever)?;
    Ok(())
}

/// The signals that this process ignores, as Linux tells: bit k − 1 is signal k. Elsewhere
/// none is known to be.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(not(unix))]
fn listen(handler: impl FnMut() + Send + 'static) -> std::io::Result<()> {
    ctrlc::set_handler(handler).map_err(std::io::Error::other)
}
