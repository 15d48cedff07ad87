// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir report`: draws a page of one run, or of several side by side.

use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use crate::cli;
use crate::report::page;

/// Reads the reports and writes the page.
pub fn run(args: &cli::Report) -> Result<ExitCode, String> {
    let standard_input = [Path::new("-").to_owned()];
    let files = match args.reports.as_slice() {
        [] if std::io::stdin().is_terminal() => {
            return Err("no report given: pass a file written by `weir run --json FILE`".into());
        }
        [] => &standard_input,
        files => files,
    };
    let reports = files
        .iter()
        .map(|file| read(file))
        .collect::<Result<Vec<_>, _>>()?;
    let names: Vec<&str> = reports.iter().map(|(name, _)| name.as_str()).collect();
    let title = args.title.clone();
    let title = title.unwrap_or_else(|| format!("Weir: {}", names.join(", ")));
    let text = page::html(&title, args.note.as_deref().unwrap_or_default(), reports);
    if args.html == Path::new("-") {
        super::print(&text)?;
    } else {
        std::fs::write(&args.html, text)
            .map_err(|error| format!("{}: {error}", args.html.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a report. The name of its run is the file's name without the extension.
fn read(file: &Path) -> Result<(String, Value), String> {
    let name = if file == Path::new("-") {
        "standard input".into()
    } else {
        file.display().to_string()
    };
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| format!("{name}: {error}"))?;
    let report = page::parse(&text).map_err(|error| format!("{name}: {error}"))?;
    let stem = file
        .file_stem()
        .map_or(name, |stem| stem.to_string_lossy().into_owned());
    let run = if stem == "-" { "run".to_owned() } else { stem };
    Ok((run, report))
}
