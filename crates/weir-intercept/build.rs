// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the library that is preloaded into programs with the stack's clock (`preload/clock.rs`).
use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=preload/clock.rs");
    let variable = |name: &str| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let library = PathBuf::from(variable("OUT_DIR")).join("clock.so");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args([
            "preload/clock.rs",
            "--edition=2021",
            "-Copt-level=s",
            "-Cpanic=abort",
            "-Cstrip=symbols",
        ])
        .args([
            "-Clink-arg=-nostdlib",
            "-Clink-arg=-nostartfiles",
            "--target",
        ])
        .arg(variable("TARGET"))
        .arg("-o")
        .arg(&library);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("-Clinker=");
        option.push(linker);
        rustc.arg(option);
    }
    match rustc.status() {
        Ok(status) if status.success() => {}
        other => panic!("rustc preload/clock.rs: {other:?}"),
    }
}
