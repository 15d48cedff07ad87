// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir run`: runs a script as the client of a private stack in virtual time, plays captures,
//! prints a report.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_intercept::waits::Waits;
use weir_intercept::{Child, Launcher, Runtime};
use weir_stack::Config;

use super::files::{self, ReportFile};
use super::progress::{Interruption, Progress};
use super::{FAILED, mode_of, own_program};
use crate::cli::{DeviceGenerator, Run};
use crate::engine::ports::start;
use crate::engine::{Engine, Goal};
use crate::playback::Playback;
use crate::report::units::Style;
use crate::report::{self, Report};

/// The exit status of a script that SIGINT ended, and of an interrupted run.
const INTERRUPTED: u8 = 130;

/// The time limit for processes that a script left in the background: machine time until they all
/// sleep, and stack time while they sleep and no packet is in flight.
const LEFTOVERS: Duration = Duration::from_secs(5);

/// Runs the script, plays the remaining packets, reports.
pub fn run(args: &Run) -> Result<ExitCode, String> {
    if let Some(flag) = args.gateway.flag() {
        return Err(format!(
            "{flag} leads to a live outside, which virtual time cannot wait for; use it with --real-time"
        ));
    }
    let stack = weir_stack::build(Config {
        seed: args.seed,
        link_chatter: args.link_chatter,
        max_rules: args.budget.max_rules,
        max_memory: args.budget.max_memory.map(|size| size.0),
        trace: true,
        ..Config::default()
    });
    let endless = |made: &&DeviceGenerator| made.parameters.endless();
    if let Some(made) = args.generators.iter().find(endless)
        && args.until.is_none()
    {
        let name = &made.device;
        return Err(format!(
            "--gen {name}: the generator never ends; set count or stop, or use --until"
        ));
    }
    for port in &args.ports {
        let name = &port.device;
        match port.kind.virtual_time {
            None => return Err(format!("--port {name}: {}", start::refusal(port.kind))),
            Some(is_endless) if args.until.is_none() && is_endless(&port.keys) => {
                return Err(format!(
                    "--port {name}: the {} port never ends; set count, stop or loop, or use --until",
                    port.kind.name
                ));
            }
            Some(_) => {}
        }
    }
    // Everything that can be refused is refused before anything runs or is written.
    files::check(args)?;
    let traces = super::trace::of_run(&args.traces)?;
    let json = args.json.as_deref().map(ReportFile::open).transpose()?;
    let playback = Playback::open(
        &stack,
        (&args.inputs, &args.generators),
        &args.outputs,
        (args.drops.as_deref(), args.capture_all.as_deref()),
    )?;
    let ports = start::open(&args.ports)?;
    let runtime = Runtime::create(None)
        .map_err(|error| format!("cannot create the stack's directory: {error}"))?;
    let expanded = expand(args, &runtime)?;
    let interruption = Interruption::catch(&stack);
    let engine = Engine::new(stack, runtime, playback);
    engine.trace_later(traces);
    engine.expect(ports);
    let (status, leftovers) = run_script(args, expanded.as_deref(), &engine)?;
    if status == INTERRUPTED {
        engine.stack.interrupt.store(true, Relaxed);
    } else if status != 0 {
        // A partial report would follow the script's own error message.
        eprintln!(
            "weir: {} ended with status {status}; nothing was played after it",
            name(args)
        );
        drop(leftovers);
        engine.stop();
        engine.finish();
        return Ok(ExitCode::from(status));
    }
    engine.settle_sysctls();
    if let Some(device) = engine.ports.missing().first() {
        drop(leftovers);
        engine.stop();
        engine.finish();
        return Err(format!("--port {device}: there is no such device"));
    }
    let until = args.until.map(|time| time.0);
    let progress = Progress::start(&engine.stack, until);
    let grace = engine.stack.clock.now() + LEFTOVERS.as_nanos() as u64;
    let played = engine.play(until.map_or(Goal::Packets(Some(grace)), Goal::Until), false);
    let partial = interruption.is_interrupted();
    drop(progress);
    let mut report = report::collect(&engine, engine.recording());
    report.partial = partial;
    let (journeys, traced): (Vec<_>, Vec<_>) = engine.finish_traces().into_iter().unzip();
    report.traces = (!args.traces.is_empty()).then_some(traced);
    drop(leftovers);
    engine.stop();
    let finished = engine.finish();
    played?;
    let report = report.with_files(&finished);
    for journey in journeys {
        print_report(args, &(journey + "\n"))?;
    }
    print(args, &report, json)?;
    for error in &finished.errors {
        eprintln!("weir: {error}");
    }
    Ok(match (finished.errors.is_empty(), partial) {
        (false, _) => ExitCode::from(FAILED),
        (true, true) => ExitCode::from(INTERRUPTED),
        (true, false) => ExitCode::SUCCESS,
    })
}

/// Prints the report, and writes it as JSON, as the command line wants it.
pub fn print(args: &Run, report: &Report, json: Option<ReportFile>) -> Result<(), String> {
    if !args.quiet {
        print_report(args, &report.to_text(Style::of_stdout(args.all)))?;
    }
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&report.to_json());
        file.write(&(text.map_err(|error| error.to_string())? + "\n"))?;
    }
    Ok(())
}

/// Returns whether a capture on standard input belongs to the stack, so that the script has none.
pub fn takes_input(args: &Run) -> bool {
    let inputs = args.inputs.iter();
    let mut ports = args.ports.iter();
    inputs
        .map(|input| &input.file)
        .any(|file| files::is_standard(file))
        || ports.any(|port| port.keys.get("file") == Some("-"))
}

/// Returns the name of the script or command for messages.
fn name(args: &Run) -> std::borrow::Cow<'_, str> {
    if is_standard_input(args) {
        return "the script on standard input".into();
    }
    let name = args.script.as_ref().or(args.command.first());
    name.map(|name| name.to_string_lossy()).unwrap_or_default()
}

/// Returns whether the script is on standard input.
fn is_standard_input(args: &Run) -> bool {
    args.script.as_ref().is_some_and(|script| script == "-")
}

/// Prints to standard output, or to standard error if another output uses standard output.
fn print_report(args: &Run, text: &str) -> Result<(), String> {
    use std::io::Write;
    if files::writes_standard_output(args) {
        return std::io::stderr()
            .write_all(text.as_bytes())
            .map_err(|error| format!("standard error: {error}"));
    }
    super::print(text)
}

/// Writes the script of a topology into the stack's directory. Returns its path, or `None` if the
/// script is no topology.
pub fn expand(args: &Run, runtime: &Runtime) -> Result<Option<PathBuf>, String> {
    let Some(file) = args.script.as_ref().map(Path::new) else {
        return Ok(None);
    };
    if !crate::topology::is_topology(file) || !file.is_file() {
        return Ok(None);
    }
    let topology = super::topology::read(file)?;
    let text = crate::topology::script::write(&topology, &file.display().to_string());
    let path = runtime.path().join("topology.sh");
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Some(path))
}

/// Returns the program and its arguments. `sh` runs a script that is not executable.
pub fn program(args: &Run, expanded: Option<&Path>) -> (OsString, Vec<OsString>) {
    if let Some(path) = expanded {
        return ("sh".into(), vec![path.into()]);
    }
    let Some(script) = &args.script else {
        let program = args.command.first().cloned().unwrap_or_default();
        return (program, args.command.get(1..).unwrap_or_default().to_vec());
    };
    if is_standard_input(args) {
        return ("sh".into(), vec!["-s".into()]);
    }
    let path = Path::new(script);
    let is_file = |data: &std::fs::Metadata| data.is_file();
    match std::fs::metadata(path).ok().filter(is_file) {
        Some(data) if data.permissions().mode() & 0o111 == 0 => ("sh".into(), vec![script.clone()]),
        // Without a directory in its name, the program would be looked up in PATH.
        Some(_) if path.components().count() == 1 => (Path::new(".").join(path).into(), Vec::new()),
        _ => (script.clone(), Vec::new()),
    }
}

/// Moves the clock as the script's programs wait, until it is dropped.
struct Follower(Arc<Waits>, Option<JoinHandle<()>>);

impl Follower {
    fn start(engine: &Arc<Engine>, waits: &Arc<Waits>) -> Self {
        let engine = engine.clone();
        let thread = std::thread::Builder::new().name("clock".into());
        // Without the thread, programs sleep by the machine's clock.
        let thread = thread.spawn(move || engine.follow()).ok();
        if thread.is_none() {
            waits.release();
        }
        Self(waits.clone(), thread)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.unfollow();
        if let Some(thread) = self.1.take() {
            // The thread fails only by a panic, which has already been printed.
            let _ = thread.join();
        }
    }
}

/// Runs the script. Returns its status and the processes that it left in the background. These run
/// until the value is dropped, so that an `ip monitor &` sees the packets played.
fn run_script(
    args: &Run,
    expanded: Option<&Path>,
    engine: &Arc<Engine>,
) -> Result<(u8, Option<Child>), String> {
    let (program, arguments) = program(args, expanded);
    let waits = (!args.frozen_clock).then(|| engine.take_waits());
    let launched = Launcher::new(&program, arguments)
        .mode(mode_of(args.client.mode))
        .host_network(args.client.host_network)
        .provide(own_program())
        .waits(waits.clone())
        .no_input(takes_input(args))
        .output_to_errors(files::writes_standard_output(args))
        .spawn(engine.clone());
    match launched {
        Ok(mut child) => {
            let followed = waits.as_ref().map(|waits| Follower::start(engine, waits));
            let status = child.wait().code();
            drop(followed);
            child.keep_signals();
            match waits {
                Some(_) => drop(engine.wait_for_clients()),
                None => drop(child.wait_all_for(LEFTOVERS)),
            }
            Ok((u8::try_from(status).unwrap_or(u8::MAX), Some(child)))
        }
        Err(error) => {
            let status = error.exit_code();
            eprintln!("weir: {error}");
            Ok((u8::try_from(status).unwrap_or(FAILED), None))
        }
    }
}
