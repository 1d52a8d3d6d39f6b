//! Formats counts, sizes, times and the cost of privacy.

use apfl::privacy::Spent;

/// Formats a count with its noun: `1 client`, `3 clients`.
pub fn counted(n: usize, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

/// Formats bytes: `31.4 kB`.
pub fn bytes(n: f64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut n = n;
    let mut unit = 0;
    while n >= 1000.0 && unit + 1 < UNITS.len() {
        n /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n:.0} B"),
        _ => format!("{n:.1} {}", UNITS[unit]),
    }
}

/// Formats a duration: `12 ms`, `10 min`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", 1000.0 * s),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Describes the cost of privacy in one line.
pub fn describe_privacy(spent: &Spent) -> String {
    let epsilon = spent.epsilon.map_or("∞".into(), |e| format!("{e:.4}"));
    let source = if spent.simulation {
        "; the noise follows from the seed, so this is a simulation"
    } else {
        "; the noise is the operating system's, so the fingerprint differs in every run"
    };
    let lost = match spent.lost as usize {
        0 => String::new(),
        n => format!("; includes {} lost and repeated", counted(n, "round")),
    };
    format!(
        "privacy by {}: ε = {epsilon} at δ = {:e} (noise {:.4} × clip {}, {} steps){source}{lost}",
        spent.level, spent.delta, spent.noise, spent.clip, spent.steps
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_read_well() {
        assert_eq!(bytes(31_400.0), "31.4 kB");
        assert_eq!(bytes(12.0), "12 B");
        assert_eq!(duration(0.0123), "12 ms");
        assert_eq!(duration(600.0), "10 min");
        assert_eq!(counted(1, "client"), "1 client");
    }
}
