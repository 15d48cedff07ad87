// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forwards signals of the launcher to the programs it runs.
//!
//! While at least one program runs, `SIGTERM`, `SIGINT`, `SIGHUP`, `SIGQUIT`, `SIGUSR1` and
//! `SIGUSR2` have a handler. It forwards a signal that a process sent (`kill`) to the keepers of
//! all running programs. A signal that the kernel sends for a terminal reaches the whole foreground
//! group without help; the handler only keeps it from killing the launcher. The former handlers are
//! restored after the last program ends.
#![allow(unsafe_code)] // Signal handlers: they only load atomics and call send(2).
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

const SIGNALS: [i32; 6] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];
/// The maximum number of programs to forward to. Further launches run without forwarding.
const MAX_TARGETS: usize = 128;
/// Control descriptors of the keepers, -1 for a free slot. The handler reads them.
static TARGETS: [AtomicI32; MAX_TARGETS] = [const { AtomicI32::new(-1) }; MAX_TARGETS];
/// The number of targets, and the handlers installed before the first.
static STATE: Mutex<State> = Mutex::new(State {
    targets: 0,
    before: Vec::new(),
});

struct State {
    targets: usize,
    before: Vec<libc::sigaction>,
}

/// Forwarding to one keeper, until dropped. The descriptor must outlive it.
#[derive(Debug)]
pub(crate) struct Forwarding(usize);

/// Starts forwarding to the keeper at the other end of this control descriptor.
pub(crate) fn forward(control: BorrowedFd<'_>) -> Option<Forwarding> {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let slot = TARGETS
        .iter()
        .position(|t| t.load(Ordering::Relaxed) == -1)?;
    TARGETS[slot].store(control.as_raw_fd(), Ordering::Release);
    if state.targets == 0 {
        state.before = SIGNALS.iter().map(|&s| install(s, None)).collect();
    }
    state.targets += 1;
    Some(Forwarding(slot))
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        TARGETS[self.0].store(-1, Ordering::Release);
        state.targets -= 1;
        if state.targets == 0 {
            for (&signal, before) in SIGNALS.iter().zip(&state.before) {
                install(signal, Some(before));
            }
            state.before.clear();
        }
    }
}

/// Installs this module's handler, or restores a former action, and returns the previous one.
fn install(signal: i32, action: Option<&libc::sigaction>) -> libc::sigaction {
    // SAFETY: all-zero is a valid sigaction; the handler has the SA_SIGINFO signature and is
    // async-signal-safe; both structures live during the call.
    unsafe {
        let mut before: libc::sigaction = MaybeUninit::zeroed().assume_init();
        let mut ours: libc::sigaction = MaybeUninit::zeroed().assume_init();
        ours.sa_sigaction = handler as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&mut ours.sa_mask);
        libc::sigaction(signal, action.unwrap_or(&ours), &mut before);
        before
    }
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler.
    let by_process = unsafe { (*info).si_code } <= 0;
    if !by_process {
        return;
    }
    let mut message = [b'S', 0, 0, 0, 0];
    message[1..].copy_from_slice(&signal.to_ne_bytes());
    // SAFETY: errno belongs to the interrupted code; it is restored below.
    let errno = unsafe { *libc::__errno_location() };
    for target in &TARGETS {
        let fd = target.load(Ordering::Acquire);
        if fd >= 0 {
            // SAFETY: send(2) is async-signal-safe; five readable bytes.
            unsafe {
                libc::send(
                    fd,
                    message.as_ptr().cast(),
                    message.len(),
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}
