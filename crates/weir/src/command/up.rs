// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir up`: keeps a stack in real time until SIGINT or SIGTERM.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use weir_intercept::Runtime;
use weir_intercept::control::Server;
use weir_stack::{Config, Cpu};

use super::{FAILED, files, pin};
use crate::cli::Up;
use crate::engine::Engine;
use crate::engine::ports::start;
use crate::engine::ports::worker::{self, Pollers};
use crate::playback::Playback;

/// Returns the default control socket, in a directory that only the user may write to:
/// `XDG_RUNTIME_DIR`, `/run/user/UID`, or for root `/run`.
pub fn default_socket() -> Result<PathBuf, String> {
    let uid = rustix::process::geteuid().as_raw();
    let folder = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) => PathBuf::from(folder),
        None if uid == 0 => PathBuf::from("/run"),
        None => PathBuf::from(format!("/run/user/{uid}")),
    };
    let private = |data: &std::fs::Metadata| {
        data.is_dir() && (data.uid() == uid || data.uid() == 0) && data.mode() & 0o022 == 0
    };
    match std::fs::metadata(&folder) {
        Ok(data) if private(&data) => Ok(folder.join("weir.sock")),
        Ok(_) => Err(format!(
            "{}: other users may write there, so the control socket cannot be trusted; set one with --socket PATH",
            folder.display()
        )),
        Err(error) => Err(format!(
            "no directory for the control socket ({}: {error}); set XDG_RUNTIME_DIR or use --socket PATH",
            folder.display()
        )),
    }
}

/// Runs the stack until a signal.
pub fn run(args: &Up) -> Result<ExitCode, String> {
    if args.cpus == 0 || args.cpus > 64 {
        return Err("--cpus must be 1 to 64".into());
    }
    let processors = match &args.pin {
        Some(list) => pin::choose(list.as_deref(), args.cpus)?,
        None => Vec::new(),
    };
    files::check(args)?;
    let path = match &args.socket {
        Some(path) => path.clone(),
        None => default_socket()?,
    };
    // Installs signal handlers first, so that a signal during the start ends it cleanly.
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| format!("cannot install signal handlers: {error}"))?;
    let config = Config {
        virtual_time: false,
        seed: args.seed,
        link_chatter: true,
        max_rules: args.budget.max_rules,
        max_memory: args.budget.max_memory.map(|size| size.0),
        cpus: args.cpus,
        rcu: weir_sync::rcu::Config {
            mode: args.rcu.clone(),
            ..weir_sync::rcu::Config::default()
        },
        ..Config::default()
    };
    let stack = weir_stack::build(config);
    if stack.domain.mode() != args.rcu {
        return Err(format!("--rcu {}: cannot start the thread", args.rcu));
    }
    stack.domain.on_stall(|stall| eprintln!("weir: {stall}"));
    let pollers = Pollers::new(args.cpus).map_err(|error| format!("epoll: {error}"))?;
    let pollers = Arc::new(pollers);
    let bell = pollers.clone();
    stack.set_waker(Box::new(move || bell.ring()));
    let bell = pollers.clone();
    stack.softnet.set_waker(Box::new(move |cpu| bell.wake(cpu)));
    let runtime = Runtime::create(None)
        .map_err(|error| format!("cannot create the stack's directory: {error}"))?;
    let inputs = (&args.inputs[..], &args.generators[..]);
    let playback = Playback::open_live(&stack, inputs, &args.outputs)?;
    let ports = start::open(&args.ports)?;
    let engine = Engine::new(stack, runtime, playback);
    engine.ports.start(pollers.clone());
    engine.expect(ports);
    let server = Server::bind(&path, engine.clone()).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => format!("{}: a stack already runs there", path.display()),
        _ => format!("{}: {error}", path.display()),
    })?;
    let mut cpus = Vec::new();
    for id in 0..args.cpus {
        let (engine, pollers) = (engine.clone(), pollers.clone());
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
        cpus.push(thread.map_err(|error| format!("cpu {id}: {error}"))?);
    }
    let said = format!(
        "weir: the stack is up; run commands with weir exec --socket {} -- COMMAND\n",
        path.display()
    );
    if files::writes_standard_output(args) {
        eprint!("{said}");
    } else {
        super::print(&said)?;
    }
    let signal = signals.forever().next();
    eprintln!(
        "weir: {}: the stack is shutting down",
        if signal == Some(SIGINT) {
            "SIGINT"
        } else {
            "SIGTERM"
        }
    );
    drop(server);
    engine.stop();
    pollers.ring();
    for cpu in cpus {
        // The thread has already printed its panic, if any.
        let _ = cpu.join();
    }
    let finished = engine.finish();
    for error in &finished.errors {
        eprintln!("weir: {error}");
    }
    if !finished.errors.is_empty() {
        return Ok(ExitCode::from(FAILED));
    }
    Ok(ExitCode::SUCCESS)
}
