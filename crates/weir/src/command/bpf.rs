// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BPF expressions (pcap-filter(7)), compiled by tcpdump.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use weir_packet::bpf::Program;

/// Compiles an expression for Ethernet frames.
pub fn compile(expression: &str) -> Result<Program, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let compiled = Command::new("tcpdump")
        // Debian's tcpdump was in /usr/sbin, which is not in the PATH of ordinary users.
        .env("PATH", format!("{path}:/usr/bin:/usr/sbin"))
        .args(["-y", "EN10MB", "-ddd", "--", expression])
        .stdin(Stdio::null())
        .output();
    let output = compiled.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            "tcpdump compiles expressions, and it is not installed (package tcpdump)".to_owned()
        }
        _ => format!("tcpdump: {error}"),
    })?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.trim().lines().last().unwrap_or_default();
        let last = last.trim_start_matches("tcpdump: ");
        return Err(format!("`{expression}` is no filter expression: {last}"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Program::parse(&text).map_err(|error| format!("tcpdump -ddd: {error}"))
}

/// Compiles the words of a command line. Returns `None` without words.
pub fn compile_words(words: &[String]) -> Result<Option<Program>, String> {
    match words.is_empty() {
        true => Ok(None),
        false => compile(&words.join(" ")).map(Some),
    }
}
