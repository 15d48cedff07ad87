// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The threads of a stack in real time: one loop for each CPU.

use std::sync::Arc;
use std::thread::JoinHandle;

use weir_stack::{Cpu, Stack};

use super::pin;
use crate::engine::Engine;
use crate::engine::ports::worker::{self, Pollers};

/// What the loops of a stack sleep on.
pub struct Wakers(Arc<Pollers>);

impl Wakers {
    /// Makes what the loops of `cpus` CPUs sleep on, and connects the stack to it.
    pub fn new(stack: &Stack, cpus: usize) -> Result<Self, String> {
        let pollers = Pollers::new(cpus).map_err(|error| format!("epoll: {error}"))?;
        let pollers = Arc::new(pollers);
        let bell = pollers.clone();
        stack.set_waker(Box::new(move || bell.ring()));
        let bell = pollers.clone();
        stack.softnet.set_waker(Box::new(move |cpu| bell.wake(cpu)));
        Ok(Self(pollers))
    }

    /// Lets the engine's ports wake the loops.
    pub fn attach(&self, engine: &Engine) {
        engine.ports.start(self.0.clone());
    }

    /// Starts the loops. `processors` are those to which they are pinned, if they are.
    pub fn start(
        self,
        engine: &Arc<Engine>,
        cpus: usize,
        processors: &[usize],
    ) -> Result<Loops, String> {
        let mut loops = Loops {
            pollers: self.0,
            threads: Vec::new(),
        };
        for id in 0..cpus {
            let (engine, pollers) = (engine.clone(), loops.pollers.clone());
            let processor = processors.get(id).copied();
            let run = move || {
                if let Some(processor) = processor
                    && let Err(error) = pin::pin(processor)
                {
                    eprintln!("weir: cpu {id} cannot be pinned to processor {processor}: {error}");
                }
                if id == 0 {
                    // Commands, which are short, share the engine's own CPU. This CPU also runs the RCU
                    // callbacks of control threads, which may never run again.
                    let idle = || {
                        engine.end_dead_captures();
                        engine.ports.settle(&engine);
                        engine.settle_sysctls();
                        engine.stack.domain.poll_in_place();
                    };
                    worker::run(&engine, &pollers, id, |work| work(&mut engine.cpu()), idle);
                } else {
                    let mut cpu = Cpu::new(&engine.stack, id);
                    worker::run(&engine, &pollers, id, |work| work(&mut cpu), || {});
                }
            };
            let thread = std::thread::Builder::new()
                .name(format!("cpu {id}"))
                .spawn(run);
            let thread = thread.map_err(|error| format!("cpu {id}: {error}"))?;
            loops.threads.push(thread);
        }
        Ok(loops)
    }
}

/// The running loops of a stack.
pub struct Loops {
    pollers: Arc<Pollers>,
    threads: Vec<JoinHandle<()>>,
}

impl Loops {
    /// Waits for the loops of an engine that has been stopped.
    pub fn join(self) {
        self.pollers.ring();
        for thread in self.threads {
            // The thread has already printed its panic, if any.
            let _ = thread.join();
        }
    }
}
