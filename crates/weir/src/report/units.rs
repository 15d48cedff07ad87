// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats numbers, rates, times and emphasis in text reports.

use std::time::Duration;

/// The style of a text report.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// Emphasis by ANSI escape sequences.
    pub colour: bool,
    /// Whether to show rows whose counters are all zero.
    pub all: bool,
}

impl Style {
    /// Uses colour if standard output is a terminal, unless `NO_COLOR` is set
    /// (<https://no-color.org>).
    pub fn of_stdout(all: bool) -> Self {
        use std::io::IsTerminal;
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            colour: std::io::stdout().is_terminal() && !refused,
            all,
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self.colour {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    /// Formats a heading.
    pub fn heading(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Emphasises a fault.
    pub fn fault(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Dims text of less interest.
    pub fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }
}

/// Formats a count with separated thousands: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with three significant digits and an SI prefix: `3.02 M`.
fn scaled(value: f64) -> String {
    let (mut value, mut prefix) = (value, "");
    for next in ["k", "M", "G", "T"] {
        // 999.5 would round to 1000 of the smaller unit.
        if value < 999.5 {
            break;
        }
        (value, prefix) = (value / 1000.0, next);
    }
    let decimals = match value {
        v if v < 9.995 && (!prefix.is_empty() || v.fract() != 0.0) => 2,
        v if v < 99.95 && (!prefix.is_empty() || v.fract() != 0.0) => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {prefix}")
}

/// Returns the count per second, or `None` for a time of zero.
pub fn per_second(count: u64, over: Duration) -> Option<f64> {
    let seconds = over.as_secs_f64();
    (seconds > 0.0).then(|| count as f64 / seconds)
}

/// Formats bytes over a time as a rate: `3.02 Mbit/s`; `-` for zero.
pub fn bit_rate(octets: u64, over: Duration) -> String {
    let rate = per_second(octets.saturating_mul(8), over).filter(|rate| *rate > 0.0);
    rate.map_or("-".to_owned(), |rate| format!("{}bit/s", scaled(rate)))
}

/// Formats packets over a time as a rate: `1.20 kp/s`; `-` for zero.
pub fn packet_rate(packets: u64, over: Duration) -> String {
    let rate = per_second(packets, over).filter(|rate| *rate > 0.0);
    rate.map_or("-".to_owned(), |rate| format!("{}p/s", scaled(rate)))
}

/// Formats a share in per cent: `3.2 %`; `-` for none.
pub fn share(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) | (_, 0) => "-".to_owned(),
        _ => {
            let percent = part as f64 * 100.0 / whole as f64;
            match percent {
                p if p < 0.1 => "<0.1 %".to_owned(),
                p => format!("{p:.1} %"),
            }
        }
    }
}

/// Formats nanoseconds in a suitable unit: `2.4 ms`.
pub fn time(ns: u64) -> String {
    let of = |unit: f64, name: &str| {
        let value = ns as f64 / unit;
        let decimals = if value < 9.995 {
            2
        } else {
            usize::from(value < 99.95)
        };
        format!("{value:.decimals$} {name}")
    };
    match ns {
        0 => "0".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => of(1e3, "us"),
        1_000_000..1_000_000_000 => of(1e6, "ms"),
        _ => of(1e9, "s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ];
        for (number, text) in cases {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn rates_have_three_digits() {
        let second = Duration::from_secs(1);
        assert_eq!(bit_rate(377_625, second), "3.02 Mbit/s");
        assert_eq!(bit_rate(124_950, second), "1.00 Mbit/s");
        assert_eq!(packet_rate(1, Duration::from_secs(4)), "0.25 p/s");
        assert_eq!(packet_rate(0, second), "-");
        assert_eq!(bit_rate(10, Duration::ZERO), "-");
    }

    #[test]
    fn times_have_a_suitable_unit() {
        let cases = [
            (17, "17 ns"),
            (2_400_000, "2.40 ms"),
            (526_000_000, "526 ms"),
            (1_500_000_000, "1.50 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(time(ns), text);
        }
    }

    #[test]
    fn a_share_of_nothing_is_none() {
        assert_eq!(share(1, 0), "-");
        assert_eq!(share(1, 3), "33.3 %");
        assert_eq!(share(1, 10_000), "<0.1 %");
    }
}
