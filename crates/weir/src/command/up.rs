// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir up`: keeps a stack in real time until SIGINT or SIGTERM.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use weir_intercept::Runtime;
use weir_intercept::control::Server;
use weir_stack::Config;

use super::loops::Wakers;
use super::{FAILED, files, pin};
use crate::cli::Up;
use crate::engine::Engine;
use crate::engine::ports::start;
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
    let wakers = Wakers::new(&stack, args.cpus)?;
    let runtime = Runtime::create(None)
        .map_err(|error| format!("cannot create the stack's directory: {error}"))?;
    let inputs = (&args.inputs[..], &args.generators[..]);
    let playback = Playback::open_live(&stack, inputs, &args.outputs)?;
    let ports = start::open(&args.ports)?;
    let engine = Engine::new(stack, runtime, playback);
    wakers.attach(&engine);
    engine.expect(ports);
    let loops = wakers.start(&engine, args.cpus, &processors)?;
    engine.open_gateway(&args.gateway)?;
    let server = Server::bind(&path, engine.clone()).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => format!("{}: a stack already runs there", path.display()),
        _ => format!("{}: {error}", path.display()),
    })?;
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
    loops.join();
    let finished = engine.finish();
    for error in &finished.errors {
        eprintln!("weir: {error}");
    }
    if !finished.errors.is_empty() {
        return Ok(ExitCode::from(FAILED));
    }
    Ok(ExitCode::SUCCESS)
}
