// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir exec`: runs a command against the stack of a `weir up`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use weir_intercept::control::Client;
use weir_intercept::{Backend, Launcher, NsId, Runtime};

use super::{FAILED, mode_of};
use crate::cli::Exec;

/// Connects to a stack.
pub fn connect(path: Option<&Path>) -> Result<Client, String> {
    let path = match path {
        Some(path) => path.to_path_buf(),
        None => super::up::default_socket()?,
    };
    Client::connect(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
            format!(
                "{}: no stack is running there (weir up --socket PATH)",
                path.display()
            )
        }
        _ => format!("{}: {error}", path.display()),
    })
}

fn namespace(client: &Client, name: &str) -> Result<NsId, String> {
    let missing = || format!("there is no namespace {name}");
    let runtime = Runtime::open(&client.stack().directory).map_err(|error| error.to_string())?;
    let file = std::fs::metadata(runtime.names().join(name)).map_err(|_| missing())?;
    runtime
        .namespace_of(file.dev(), file.ino())
        .ok_or_else(missing)
}

/// Runs the command and returns its status.
pub fn run(args: &Exec) -> Result<ExitCode, String> {
    let client = Arc::new(connect(args.socket.as_deref())?);
    let mut launcher = Launcher::new(&args.command[0], &args.command[1..])
        .mode(mode_of(args.client.mode))
        .provide(super::own_program())
        .host_network(args.client.host_network);
    if let Some(name) = &args.netns {
        launcher = launcher.netns(namespace(&client, name)?);
    }
    match launcher.spawn(client) {
        Ok(mut child) => Ok(ExitCode::from(
            u8::try_from(child.wait().code()).unwrap_or(u8::MAX),
        )),
        Err(error) => {
            eprintln!("weir: {error}");
            Ok(ExitCode::from(
                u8::try_from(error.exit_code()).unwrap_or(FAILED),
            ))
        }
    }
}
