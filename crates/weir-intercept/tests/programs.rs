// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs real programs under interception, against the stand-in stack.
//!
//! Without arguments it runs every case in every way (as this user and, for root, also as nobody;
//! in mode U and in mode A) and compares the output. An argument selects cases by name. The cases
//! run this program again with one of these subcommands:
//!
//! * `host [--mode U|A] [--host-network] [--stat] -- CMD...`: one launch with a stack of its own,
//!   like `weir run`;
//! * `up PATH`: a stack behind a control socket, like `weir up`;
//! * `exec PATH [--mode U|A] [--netns N] -- CMD...`: a launch against that stack, like `weir exec`.
#![allow(clippy::unwrap_used)] // A test without the harness that clippy recognises.
mod cases;
mod stand_in;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use weir_intercept::control::{Client, Server};
use weir_intercept::{Backend, Launcher, Mode, NsId};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let code = match words[..] {
        ["host", ref rest @ ..] => {
            let stack = stand_in::StandIn::new();
            let backend = Arc::new(stand_in::Shared(stack));
            // The server receives commands from programs inside.
            let path = backend.stack().directory.join("control");
            let _server = Server::bind(&path, backend.clone()).unwrap();
            launch(backend, rest)
        }
        ["up", path] => up(Path::new(path)),
        ["exec", path, ref rest @ ..] => match Client::connect(Path::new(path)) {
            Ok(client) => launch(Arc::new(client), rest),
            Err(error) => {
                eprintln!("weir: {path}: {error}");
                125
            }
        },
        _ => cases::run_all(words.iter().find(|w| !w.starts_with('-')).copied()),
    };
    ExitCode::from(code as u8)
}

fn up(path: &Path) -> i32 {
    let backend = Arc::new(stand_in::Shared(stand_in::StandIn::new()));
    match Server::bind(path, backend) {
        Ok(_server) => {
            println!("up");
            loop {
                std::thread::park();
            }
        }
        Err(error) => {
            eprintln!("weir: {}: {error}", path.display());
            1
        }
    }
}

fn launch(backend: Arc<dyn Backend>, arguments: &[&str]) -> i32 {
    let mut words = arguments.iter().copied();
    let (mut mode, mut host_network, mut netns, mut stat) = (Mode::Auto, false, None, false);
    while let Some(word) = words.next() {
        match word {
            "--mode" if words.next() == Some("U") => mode = Mode::Namespaces,
            "--mode" => mode = Mode::PathTraps,
            "--host-network" => host_network = true,
            "--netns" => netns = words.next().and_then(|n| n.parse().ok()).map(NsId),
            "--stat" => stat = true,
            _ => break,
        }
    }
    let program = words.next().unwrap();
    let mut launcher = Launcher::new(program, words)
        .mode(mode)
        .host_network(host_network)
        .env("WEIR_TEST", std::env::current_exe().unwrap())
        .env("WEIR_STACK", &backend.stack().directory);
    if let Some(ns) = netns {
        launcher = launcher.netns(ns);
    }
    match launcher.spawn(backend.clone()) {
        Ok(mut child) => {
            let code = child.wait().code();
            let used = child.mode();
            drop(child);
            if stat {
                let dropped = backend.command(&"dropped".into());
                eprintln!("mode {used:?} dropped {}", dropped.unwrap_or_default());
            }
            code
        }
        Err(error) => {
            eprintln!("weir: {error}");
            error.exit_code()
        }
    }
}
