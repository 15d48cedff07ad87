// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir netns`: adds, lists and deletes namespaces by the thousand.
//!
//! A template is a script that runs in each new namespace. It needs a program in the stack, so outside of one the
//! command runs itself there, as `weir exec` would.

use std::fs;
use std::io::{BufWriter, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode, ExitStatus};
use std::sync::Arc;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};
use weir_intercept::Launcher;

use super::FAILED;
use crate::cli::{NetnsAdd, NetnsCommand, NetnsDel, NetnsList};
use crate::engine::netns::{check, numbered};

/// The number of namespaces in one request.
const CHUNK: u64 = 1_000;
/// The bytes of names in one request.
const BYTES: usize = 16 << 10;
/// Where `ip netns` finds names.
const NAMES: &str = "/run/netns";

/// Executes the command.
pub fn run(command: &NetnsCommand) -> Result<ExitCode, String> {
    match command {
        NetnsCommand::Add(args) => add(args),
        NetnsCommand::List(args) => list(args),
        NetnsCommand::Del(args) => del(args),
    }
}

/// The names that a command adds: one, or a pattern and how many.
struct Names<'a> {
    pattern: &'a str,
    count: Option<u64>,
}

impl Names<'_> {
    fn len(&self) -> u64 {
        self.count.unwrap_or(1)
    }

    fn name(&self, number: u64) -> String {
        match self.count {
            Some(_) => numbered(self.pattern, number),
            None => self.pattern.to_owned(),
        }
    }

    /// Returns the command that does something with some of the names.
    fn command(&self, what: &str, from: u64, until: u64) -> Value {
        match self.count {
            Some(_) => json!({
                "command": "netns", "do": what,
                "pattern": self.pattern, "from": from, "until": until,
            }),
            None => json!({ "command": "netns", "do": what, "names": [self.pattern] }),
        }
    }

    /// Sends commands for the names below `until`.
    fn each(&self, socket: Option<&Path>, what: &str, until: u64) -> Result<(), (u64, String)> {
        let mut from = 0;
        while from < until {
            let next = (from + CHUNK).min(until);
            super::ask(socket, &self.command(what, from, next)).map_err(|error| (from, error))?;
            from = next;
        }
        Ok(())
    }
}

fn add(args: &NetnsAdd) -> Result<ExitCode, String> {
    let names = Names {
        pattern: &args.name,
        count: args.count,
    };
    if args.count.is_some() && !args.name.contains("%d") {
        return Err(format!(
            "{}: the name of several namespaces contains %d, which stands for the number",
            args.name
        ));
    }
    // The last name is the longest.
    check(&names.name(names.len() - 1))?;
    if let Some(script) = &args.template {
        let file =
            fs::metadata(script).map_err(|error| format!("{}: {error}", script.display()))?;
        if !file.is_file() {
            return Err(format!("{}: a template is a file", script.display()));
        }
        let inside = args.socket.is_none() && directory_inside()?.is_some();
        if !inside {
            return elsewhere(args);
        }
    }
    let socket = args.socket.as_deref();
    // What was made before an error goes again.
    let undo = |made: u64, error: String| match names.each(socket, "del", made) {
        Ok(()) => format!("{error}; no namespace was added"),
        Err((_, other)) => format!("{error}; namespaces remain: {other}"),
    };
    names
        .each(socket, "add", names.len())
        .map_err(|(made, error)| match made {
            0 => error,
            made => undo(made, error),
        })?;
    if let Some(script) = &args.template {
        for number in 0..names.len() {
            configure(script, &names.name(number), number).map_err(|e| undo(names.len(), e))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the directory of names, if this process runs in a stack.
fn directory_inside() -> Result<Option<Value>, String> {
    let command = json!({ "command": "netns", "do": "directory" });
    Ok(crate::inside::ask(&command)?.map(|(answer, _)| answer))
}

/// Runs the command as a program of the stack.
fn elsewhere(args: &NetnsAdd) -> Result<ExitCode, String> {
    let client = Arc::new(super::exec::connect(args.socket.as_deref())?);
    let me = super::own_program().ok_or("cannot find this program")?;
    let mut words = vec!["netns".into(), "add".into()];
    if let Some(count) = args.count {
        words.push(format!("--count={count}").into());
    }
    if let Some(script) = &args.template {
        words.push("--template".into());
        words.push(script.clone().into_os_string());
    }
    words.push("--".into());
    words.push((&args.name).into());
    let launched = Launcher::new(&me, words)
        .provide(super::own_program())
        .spawn(client);
    match launched {
        Ok(mut child) => Ok(ExitCode::from(
            u8::try_from(child.wait().code()).unwrap_or(FAILED),
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs a template in a namespace.
fn configure(script: &Path, name: &str, number: u64) -> Result<(), String> {
    // The thread's program inherits the namespace; this thread stays where it is.
    let ran = std::thread::scope(|scope| {
        let thread = scope.spawn(|| -> Result<ExitStatus, String> {
            let fail = |error: std::io::Error| format!("namespace {name}: {error}");
            let file = fs::File::open(Path::new(NAMES).join(name)).map_err(fail)?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| fail(error.into()))?;
            let mode = fs::metadata(script).map(|file| file.permissions().mode());
            let mut program = match mode {
                Ok(mode) if mode & 0o111 != 0 => process::Command::new(path_of(script)),
                _ => {
                    let mut shell = process::Command::new("sh");
                    shell.arg(path_of(script));
                    shell
                }
            };
            program
                .env("NETNS", name)
                .env("NUMBER", number.to_string())
                .stdin(process::Stdio::null())
                .status()
                .map_err(|error| format!("{}: {error}", script.display()))
        });
        thread
            .join()
            .unwrap_or_else(|_| Err(format!("namespace {name}: the template did not run")))
    })?;
    let script = script.display();
    match (ran.code(), ran.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(format!(
            "{script} ended with status {code} in namespace {name}"
        )),
        (None, signal) => Err(format!(
            "{script} was ended by signal {} in namespace {name}",
            signal.unwrap_or_default()
        )),
    }
}

/// Returns a path that is not looked up in PATH.
fn path_of(script: &Path) -> PathBuf {
    match script.components().count() {
        1 => Path::new(".").join(script),
        _ => script.to_path_buf(),
    }
}

/// Calls `each` for all names, in the order of the directory.
fn each_name(
    socket: Option<&Path>,
    mut each: impl FnMut(String) -> Result<bool, String>,
) -> Result<(), String> {
    let command = json!({ "command": "netns", "do": "directory" });
    let answer = super::ask(socket, &command)?;
    let path = answer["path"].as_str().unwrap_or(NAMES);
    // Not every program in a stack sees the stack's directory, but each sees the names.
    let entries = fs::read_dir(path).or_else(|_| fs::read_dir(NAMES));
    let entries = match entries {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| format!("{path}: {error}"))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| format!("{path}: {error}"))?;
        if !each(entry.file_name().to_string_lossy().into_owned())? {
            break;
        }
    }
    Ok(())
}

fn list(args: &NetnsList) -> Result<ExitCode, String> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut first = true;
    let mut write = |text: &str| match out.write_all(text.as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("standard output: {error}")),
    };
    each_name(args.socket.as_deref(), |name| {
        let line = match args.json {
            false => name + "\n",
            true => {
                let comma = if std::mem::take(&mut first) { "[" } else { "," };
                format!("{comma}\n{}", json!({ "name": name }))
            }
        };
        write(&line)
    })?;
    if args.json {
        write(if first { "[]\n" } else { "\n]\n" })?;
    }
    match out.flush() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}"))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn del(args: &NetnsDel) -> Result<ExitCode, String> {
    let socket = args.socket.as_deref();
    if !args.all {
        // Nothing is deleted unless all names are there.
        in_requests(socket, "find", &args.names)?;
        in_requests(socket, "del", &args.names)?;
        return Ok(ExitCode::SUCCESS);
    }
    // A directory may hide names while others are removed from it.
    let mut before = Vec::new();
    loop {
        let mut some = Vec::new();
        each_name(socket, |name| {
            some.push(name);
            Ok((some.len() as u64) < CHUNK)
        })?;
        if some.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let done = in_requests(socket, "del", &some);
        // Another program may delete the same ones. Names that stay are not the stack's.
        if let Err(error) = done
            && (some == before || !error.starts_with("there is no namespace"))
        {
            return Err(error);
        }
        before = some;
    }
}

/// Sends commands about names, of which each has some.
fn in_requests(socket: Option<&Path>, what: &str, names: &[String]) -> Result<(), String> {
    let mut rest = names;
    while !rest.is_empty() {
        let mut bytes = 0;
        let mut fits = |name: &String| {
            bytes += name.len() + 3;
            bytes <= BYTES
        };
        let count = rest.iter().take_while(|name| fits(name)).count().max(1);
        let (now, later) = rest.split_at(count);
        super::ask(
            socket,
            &json!({ "command": "netns", "do": what, "names": now }),
        )?;
        rest = later;
    }
    Ok(())
}
