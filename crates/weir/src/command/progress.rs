// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress on a terminal and a clean stop on Ctrl-C, while captures play.
//!
//! A run that takes longer than a second shows, if standard error is a terminal, how far virtual
//! time has advanced and how many packets a second move. The first SIGINT or SIGTERM interrupts
//! virtual time, so that the run reports its results so far. The second ends the program. While a
//! script runs, the launcher forwards signals to it instead.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use weir_stack::Stack;

use crate::report::units;

/// The time before the first progress line. `EVERY` is the interval after that.
const FIRST: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_millis(250);

/// Catches SIGINT and SIGTERM until it is dropped.
pub struct Interruption {
    signals: Vec<SigId>,
    interrupt: Arc<AtomicBool>,
}

impl Interruption {
    /// Makes the first signal interrupt the stack's virtual time, and the second end the program.
    pub fn catch(stack: &Stack) -> Self {
        let interrupt = stack.interrupt.clone();
        let mut signals = Vec::new();
        for signal in [SIGINT, SIGTERM] {
            // Actions run in the order of registration. `interrupt` comes first, so that no signal
            // is lost while the others are being registered.
            let first = signal_hook::flag::register(signal, interrupt.clone());
            let again = Arc::new(AtomicBool::new(false));
            let end = signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                again.clone(),
            );
            let arm = signal_hook::flag::register(signal, again);
            // Without a handler a signal ends the program, which is its default.
            signals.extend(first.into_iter().chain(end).chain(arm));
        }
        Self { signals, interrupt }
    }

    /// Returns whether a signal has interrupted the run.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.load(Relaxed)
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        for signal in self.signals.drain(..) {
            signal_hook::low_level::unregister(signal);
        }
    }
}

/// Shows the progress of a run until it is dropped.
pub struct Progress {
    done: Arc<(Mutex<bool>, Condvar)>,
    shown: Option<JoinHandle<()>>,
}

/// Returns the number of packets that all devices have received.
fn packets(stack: &Stack) -> u64 {
    let namespaces = stack.used_namespaces();
    let devices = namespaces.iter().flat_map(|ns| ns.all_devices());
    devices.map(|device| device.totals().rx_packets).sum()
}

fn show(stack: &Stack, until: Option<u64>, done: &(Mutex<bool>, Condvar)) {
    let (mut wait, mut before, mut shown) = (FIRST, (Instant::now(), packets(stack)), 0);
    loop {
        let ended = done.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = done.1.wait_timeout_while(ended, wait, |ended| !*ended);
        let (ended, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *ended {
            break;
        }
        drop(ended);
        wait = EVERY;
        let now = (Instant::now(), packets(stack));
        let rate = units::packet_rate(now.1.saturating_sub(before.1), now.0 - before.0);
        let time = stack.clock.now() as f64 / 1e9;
        let total = until.map_or_else(String::new, |until| {
            format!(" of {:.1}", until as f64 / 1e9)
        });
        let text = format!("virtual time {time:.1}{total} s, {rate}");
        let gap = " ".repeat(usize::saturating_sub(shown, text.len()));
        shown = text.len();
        // A closed terminal needs no progress.
        let _ = write!(std::io::stderr(), "\r{text}{gap}");
        before = now;
    }
    if shown > 0 {
        let _ = write!(std::io::stderr(), "\r{}\r", " ".repeat(shown));
    }
}

impl Progress {
    /// Starts to show progress. `until` is the time at which the clock stops, if it is known.
    pub fn start(stack: &Stack, until: Option<u64>) -> Self {
        let done = Arc::default();
        let shown = std::io::stderr().is_terminal().then(|| {
            let (stack, done) = (stack.clone(), Arc::clone(&done));
            let watch = move || show(&stack, until, &done);
            std::thread::Builder::new()
                .name("progress".into())
                .spawn(watch)
        });
        Self {
            done,
            shown: shown.and_then(Result::ok),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *self.done.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.done.1.notify_all();
        if let Some(shown) = self.shown.take() {
            // The thread fails only by a panic, which has already been printed.
            let _ = shown.join();
        }
    }
}
