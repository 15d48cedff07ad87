// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir run --real-time`: the script and its stack by the machine's clock.

use std::process::ExitCode;

use weir_intercept::{Launcher, Runtime};
use weir_stack::Config;

use super::files::{self, ReportFile};
use super::loops::Wakers;
use super::run::{self, expand, program};
use super::{FAILED, mode_of, own_program};
use crate::cli::Run;
use crate::engine::Engine;
use crate::engine::ports::start;
use crate::playback::Playback;
use crate::report;

/// Runs the script until it ends, then reports.
pub fn run(args: &Run) -> Result<ExitCode, String> {
    files::check(args)?;
    let json = args.json.as_deref().map(ReportFile::open).transpose()?;
    let stack = weir_stack::build(Config {
        virtual_time: false,
        seed: args.seed,
        link_chatter: args.link_chatter,
        max_rules: args.budget.max_rules,
        max_memory: args.budget.max_memory.map(|size| size.0),
        ..Config::default()
    });
    let wakers = Wakers::new(&stack, 1)?;
    let runtime = Runtime::create(None)
        .map_err(|error| format!("cannot create the stack's directory: {error}"))?;
    let inputs = (&args.inputs[..], &args.generators[..]);
    let playback = Playback::open_live(&stack, inputs, &args.outputs)?;
    let ports = start::open(&args.ports)?;
    let expanded = expand(args, &runtime)?;
    let engine = Engine::new(stack, runtime, playback);
    wakers.attach(&engine);
    engine.expect(ports);
    engine.record();
    let loops = wakers.start(&engine, 1, &[])?;
    engine.open_gateway(&args.gateway)?;
    let (program, arguments) = program(args, expanded.as_deref());
    let launched = Launcher::new(&program, arguments)
        .mode(mode_of(args.client.mode))
        .host_network(args.client.host_network)
        .provide(own_program())
        .no_input(run::takes_input(args))
        .output_to_errors(files::writes_standard_output(args))
        .spawn(engine.clone());
    let status = match launched {
        // The processes that the script left in the background end with it.
        Ok(mut child) => u8::try_from(child.wait().code()).unwrap_or(u8::MAX),
        Err(error) => {
            eprintln!("weir: {error}");
            u8::try_from(error.exit_code()).unwrap_or(FAILED)
        }
    };
    engine.settle_sysctls();
    let report = report::collect(&engine, engine.recording());
    engine.stop();
    loops.join();
    let finished = engine.finish();
    run::print(args, &report.with_files(&finished), json)?;
    for error in &finished.errors {
        eprintln!("weir: {error}");
    }
    Ok(match (status, finished.errors.is_empty()) {
        (0, false) => ExitCode::from(FAILED),
        (status, _) => ExitCode::from(status),
    })
}
