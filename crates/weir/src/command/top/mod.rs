// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir top`: rates, drops, queues, stages and CPUs of a running stack on one screen.

mod screen;
mod tables;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::Top;
use crate::report::stages::StageReport;
use screen::Screen;
use tables::Sample;

/// The longest time between a signal and its effect.
const LOOK: Duration = Duration::from_millis(50);
/// The shortest time between two samples.
const SHORTEST: u64 = 100_000_000;

/// Asks the stack for its counters.
fn sample(args: &Top) -> Result<Sample, String> {
    let ask = |what| {
        let command = json!({ "command": "stat", "what": what, "all": true });
        let mut answer = super::ask(args.socket.as_deref(), &command)?;
        Ok::<_, String>(answer["data"].take())
    };
    let (report, stages) = (ask("report")?, ask("stages")?);
    let stages: StageReport = serde_json::from_value(stages)
        .map_err(|error| format!("the stack answered for other stages: {error}"))?;
    Ok(Sample {
        at: Instant::now(),
        report,
        stages,
    })
}

/// Shows the stack until the user has seen enough.
pub fn run(args: &Top) -> Result<ExitCode, String> {
    let interval = Duration::from_nanos(args.interval.0);
    if args.interval.0 < SHORTEST {
        return Err("--interval must be 100ms or more".into());
    }
    if !args.once && !rustix::termios::isatty(std::io::stdout()) {
        return Err("standard output is no terminal: use --once".into());
    }
    let before = sample(args)?;
    if args.once {
        std::thread::sleep(interval);
        let now = sample(args)?;
        let tables = tables::build(&before, &now);
        let texts: Vec<_> = tables.iter().map(tables::Table::to_text).collect();
        super::print(&texts.join("\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| format!("cannot install signal handlers: {error}"))?;
    }
    // Also restores the terminal if the program panics.
    let terminal = ratatui::try_init().map_err(|error| format!("the terminal: {error}"))?;
    let result = show(args, (before, interval), terminal, &stop);
    ratatui::restore();
    result.map(|()| ExitCode::SUCCESS)
}

/// Draws until a key or a signal ends it.
fn show(
    args: &Top,
    (mut before, interval): (Sample, Duration),
    mut terminal: ratatui::DefaultTerminal,
    stop: &AtomicBool,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the terminal: {error}");
    let mut screen = Screen::default();
    screen.show(tables::build(&before, &before));
    let title = match &args.socket {
        Some(path) => format!("weir top: {}, each {interval:?}", path.display()),
        None => format!("weir top: each {interval:?}"),
    };
    let mut changed = true;
    while !stop.load(Relaxed) {
        if before.at.elapsed() >= interval {
            let now = sample(args)?;
            if !screen.paused {
                screen.show(tables::build(&before, &now));
                changed = true;
            }
            before = now;
        }
        if changed {
            let draw = terminal.draw(|frame| screen.draw(frame, &title));
            draw.map_err(failed)?;
        }
        changed = event::poll(LOOK).map_err(failed)?;
        if changed {
            match event::read().map_err(failed)? {
                Event::Key(key) if key.kind != KeyEventKind::Release && !screen.key(key) => break,
                // A key has changed the screen, or a new size is drawn.
                _ => {}
            }
        }
    }
    Ok(())
}
