// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The offload thread. It is started by the first mode that needs it, and sleeps while no callback
//! waits; a producer wakes it with the first callback of its queue. While a reader blocks a grace
//! period, the thread checks again every 100 microseconds. While only lazy callbacks wait, it
//! sleeps for up to [`LAZY`]. It holds the domain only while it works, and exits with it.
//!
//! Models have no such thread: they do its work on one of their own.

/// What waits for the offload thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Left {
    Nothing,
    Lazy,
    Urgent,
}

#[cfg(not(loom))]
pub(super) use real::Offload;

/// Notes whether the thread would be awake.
#[cfg(loom)]
pub(super) struct Offload {
    woken: crate::primitive::Mutex<bool>,
}

#[cfg(loom)]
#[allow(clippy::unwrap_used)] // loom's mutex is never poisoned
impl Offload {
    pub(super) fn new() -> Self {
        Self {
            woken: crate::primitive::Mutex::new(false),
        }
    }

    pub(super) fn start(&self, _: impl FnMut(bool) -> Option<Left>) -> std::io::Result<()> {
        Ok(())
    }

    pub(super) fn wake(&self) {
        *self.woken.lock().unwrap() = true;
    }

    #[cfg(test)]
    pub(super) fn take_woken(&self) -> bool {
        core::mem::take(&mut *self.woken.lock().unwrap())
    }

    pub(super) fn stop(&self) {}
}

#[cfg(not(loom))]
mod real {
    use super::Left;
    use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
    use std::thread::JoinHandle;
    use std::time::Duration;

    const RETRY: Duration = Duration::from_micros(100);
    /// How long lazy callbacks wait for company, as Linux's `jiffies_lazy_flush`.
    const LAZY: Duration = Duration::from_secs(10);

    #[derive(Default)]
    struct Signal {
        state: Mutex<State>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct State {
        wake: bool,
        stop: bool,
    }

    impl Signal {
        fn lock(&self) -> MutexGuard<'_, State> {
            self.state.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    pub(in crate::rcu) struct Offload {
        signal: Arc<Signal>,
        thread: Mutex<Option<JoinHandle<()>>>,
    }

    impl Offload {
        pub(in crate::rcu) fn new() -> Self {
            Self {
                signal: Arc::default(),
                thread: Mutex::default(),
            }
        }

        /// Starts the thread, unless it runs. When it is woken it calls `work`, with true once lazy
        /// callbacks have waited long enough. `work` returns `None` while the domain is being dropped,
        /// which signals again.
        pub(in crate::rcu) fn start(
            &self,
            work: impl FnMut(bool) -> Option<Left> + Send + 'static,
        ) -> std::io::Result<()> {
            let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            if thread.is_none() {
                let heard = self.signal.clone();
                let builder = std::thread::Builder::new().name("weir-rcu".to_owned());
                *thread = Some(builder.spawn(move || run(work, &heard))?);
            }
            Ok(())
        }

        pub(in crate::rcu) fn wake(&self) {
            self.signal.lock().wake = true;
            self.signal.changed.notify_one();
        }

        /// Stops the thread and waits for it, unless it is itself the thread that drops the domain.
        pub(in crate::rcu) fn stop(&self) {
            self.signal.lock().stop = true;
            self.signal.changed.notify_one();
            let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(thread) = thread.take()
                && thread.thread().id() != std::thread::current().id()
            {
                let _ = thread.join();
            }
        }
    }

    fn run(mut work: impl FnMut(bool) -> Option<Left>, signal: &Signal) {
        let mut left = Left::Nothing;
        loop {
            let limit = match left {
                Left::Nothing => None,
                Left::Lazy => Some(LAZY),
                Left::Urgent => Some(RETRY),
            };
            let mut state = signal.lock();
            let mut timed_out = false;
            while !state.wake && !state.stop && !timed_out {
                state = match limit {
                    None => {
                        let woken = signal.changed.wait(state);
                        woken.unwrap_or_else(PoisonError::into_inner)
                    }
                    Some(limit) => {
                        let woken = signal.changed.wait_timeout(state, limit);
                        let (state, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
                        timed_out = timeout.timed_out();
                        state
                    }
                };
            }
            if state.stop {
                return;
            }
            state.wake = false;
            drop(state);
            if let Some(now) = work(timed_out && left == Left::Lazy) {
                left = now;
            }
        }
    }
}
