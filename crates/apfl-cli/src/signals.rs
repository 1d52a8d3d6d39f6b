//! Signals that end a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apfl::error::{Error, Result};

/// Returns a flag that Ctrl-C, a termination signal or a closed terminal sets; a second signal
/// ends the process at once. Signals ignored at the program's start (`nohup`, a background job
/// of a script) stay ignored.
pub fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = stop.clone();
    listen(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        crate::output::tell("\nstopping as soon as the run can be resumed; repeat to stop at once");
    })
    .map_err(|e| Error::Engine(format!("cannot listen for signals: {e}")))?;
    Ok(stop)
}

/// Ignores the first signal, which launchers send to all ranks and the leader handles. A second
/// one ends this process.
#[cfg(feature = "mpi")]
pub fn leave_to_leader() {
    let seen = AtomicBool::new(false);
    let handler = move || {
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    let _ = listen(handler); // on failure a signal ends the process
}

#[cfg(unix)]
fn listen(mut handler: impl FnMut() + Send + 'static) -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;
    let ignored = ignored();
    let handled = |signal: &i32| ignored & (1 << (signal - 1)) == 0;
    let numbers: Vec<i32> = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(handled)
        .collect();
    let mut signals = Signals::new(numbers)?;
    // With SIGXFSZ handled, a file beyond the size limit is a write error with a message.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let forever = move || signals.forever().for_each(|_| handler());
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(forever)?;
    Ok(())
}

/// Returns the signals that this process ignores (bit k − 1 is signal k); 0 except on Linux.
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
