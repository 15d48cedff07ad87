// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir join`: runs a program in a kernel network namespace of its own whose only device leads to a
//! device of the stack.
//!
//! The program has the kernel's own sockets, so any program works. Where user namespaces are allowed no
//! privilege is needed. The device is a TAP, or, where `/dev/net/tun` cannot be opened, one end of a
//! veth pair whose other end a packet socket serves.
//!
//! This process enters the namespaces, passes the port to the stack and then *becomes* the program. A
//! pipe that the program and its children inherit tells the stack when the last of them has ended.

mod kernel;
mod message;

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::json;
use weir_intercept::{Backend, NsId};

use crate::cli::{Join, Role};
use kernel::Kernel;
use message::Setup;

/// The exit status when the program cannot be executed, and when it is not found.
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs the program. Returns only if it could not be started.
pub fn run(args: &Join) -> Result<ExitCode, String> {
    let client = super::port::connect(args.socket.as_deref())?;
    let about = |action: &str| {
        json!({
            "command": "port",
            "do": action,
            "netns": args.device.netns,
            "device": args.device.device,
        })
    };
    let look = client.command(&about("look"))?;
    let number = |key: &str| look[key].as_u64().unwrap_or_default();
    let host = match args.role {
        Some(role) => role == Role::Host,
        None => look["host"] == true,
    };
    let mut setup = Setup {
        mtu: number("mtu") as u32,
        ..Setup::default()
    };
    if host {
        let address = look["address"].as_array().into_iter().flatten();
        setup.mac = address
            .filter_map(|byte| byte.as_u64().map(|byte| byte as u8))
            .collect();
    }
    for address in &args.addresses {
        setup.add_address(*address);
    }
    if args.addresses.is_empty() && host {
        let ask = |request: &[u8]| {
            client
                .request(NsId(number("ns") as u32), request)
                .map_err(|error| format!("{}: {error}", args.device))
        };
        setup.copy(number("ifindex") as u32, ask)?;
    }
    if setup.has_no_address() {
        return Err(format!(
            "the program needs an address: {} has none to copy; give --address ADDR/LEN",
            args.device
        ));
    }
    for route in &args.routes {
        setup.add_route(*route);
    }
    let kernel = Kernel::enter(&args.device.device)?;
    let (kind, keys, mut files) = kernel.port()?;
    let (read, write) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("a pipe: {error}"))?;
    files.push(read);
    let mut command = about("add");
    command["kind"] = kind.into();
    command["keys"] = keys.into();
    command["life"] = true.into();
    command["as"] = args.role.map(Role::name).into();
    client.command_with(&command, files)?;
    kernel.configure(&setup)?;
    become_program(args, write)
}

/// Replaces this process by the program, which keeps the pipe open.
fn become_program(args: &Join, life: OwnedFd) -> Result<ExitCode, String> {
    fcntl_setfd(&life, FdFlags::empty()).map_err(|error| format!("a pipe: {error}"))?;
    let [program, arguments @ ..] = &args.command[..] else {
        return Err("no program is given".into());
    };
    let error = Command::new(program).args(arguments).exec();
    eprintln!("weir: {}: {error}", program.to_string_lossy());
    Ok(ExitCode::from(match error.kind() {
        std::io::ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_EXECUTE,
    }))
}
