// SPDX-License-Identifier: Apache-2.0 OR MIT
//! While captures are played: progress on a terminal, and an orderly end by Ctrl-C.
//!
//! A run longer than a second shows, on standard error if that is a terminal, how far virtual time has
//! come and how many packets a second move. The first SIGINT or SIGTERM interrupts virtual time, so
//! that the run reports what there is; the second one ends the program. While a script runs, the
//! launcher hands signals on to it instead.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use weir_stack::Stack;

use crate::report::units;

/// How long a run goes on before it shows anything, and how often it does then.
const FIRST: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_millis(250);

/// Catches SIGINT and SIGTERM until it is dropped.
pub struct Interruption {
    signals: Vec<SigId>,
    interrupt: Arc<AtomicBool>,
}

impl Interruption {
    /// Interrupts the stack's virtual time by the first signal, ends the program by the second.
    pub fn catch(stack: &Stack) -> Self {
        let interrupt = stack.interrupt.clone();
        let mut signals = Vec::new();
        for signal in [SIGINT, SIGTERM] {
            // Actions run in the order they are registered. `interrupt` is first, so that no signal is lost
            // while the others are being registered.
            let first = signal_hook::flag::register(signal, interrupt.clone());
            let again = Arc::new(AtomicBool::new(false));
            let end = signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                again.clone(),
            );
            let arm = signal_hook::flag::register(signal, again);
            // Without a handler a signal ends the program, as it would have anyway.
            signals.extend(first.into_iter().chain(end).chain(arm));
        }
        Self { signals, interrupt }
    }

    /// Whether a signal has interrupted the run.
    pub fn has_come(&self) -> bool {
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

/// Shows how far a run has come until it is dropped.
pub struct Progress {
    done: Arc<(Mutex<bool>, Condvar)>,
    shown: Option<JoinHandle<()>>,
}

/// Packets that all devices have received.
fn packets(stack: &Stack) -> u64 {
    let namespaces = stack.all_namespaces();
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
        // A terminal that is gone needs no progress.
        let _ = write!(std::io::stderr(), "\r{text}{gap}");
        before = now;
    }
    if shown > 0 {
        let _ = write!(std::io::stderr(), "\r{}\r", " ".repeat(shown));
    }
}

impl Progress {
    /// Shows it from now on. `until`: where the clock is to stop, if that is known.
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
            // It cannot fail but by a panic, which has been shown.
            let _ = shown.join();
        }
    }
}
