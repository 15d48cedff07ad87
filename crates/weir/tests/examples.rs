// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every example runs as its README line says, with the program just built.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::Folder;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .canonicalize()
        .unwrap()
}

#[track_caller]
fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    output
}

/// One run of the edge router into `folder`: its files by name, and the report as printed.
fn edge_router(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let edge = examples().join("edge-router");
    let ends = [
        ("edge/lan0", "lan.pcapng"),
        ("core/wan0", "wan.pcapng"),
        ("edge/tap", "tap.pcapng"),
    ];
    let mut command = Command::new(WEIR);
    command
        .current_dir(folder)
        .args(["run", "--seed", "7", "--json", "report.json"]);
    for (device, file) in &ends[..2] {
        command.arg("--in").arg(format!(
            "{device}={}",
            edge.join(format!("{file}.gz")).display()
        ));
    }
    for (device, file) in ends {
        command.arg("--out").arg(format!("{device}={file}"));
    }
    let output = succeed(command.arg(edge.join("setup.sh")));
    let mut files = vec![("the report".to_owned(), output.stdout)];
    for name in ["report.json"]
        .into_iter()
        .chain(ends.map(|(_, file)| file))
    {
        files.push((name.to_owned(), fs::read(folder.join(name)).unwrap()));
    }
    files
}

#[test]
fn edge_router_is_the_same_twice() {
    let folder = Folder::new();
    let first = edge_router(&folder.0);
    for (name, bytes) in &first {
        assert!(bytes.len() > 500, "{name} is all but empty");
    }
    let second = edge_router(&folder.0);
    for ((name, one), (_, other)) in first.iter().zip(&second) {
        assert!(one == other, "{name} differs between two runs");
    }
}

#[test]
fn pytest_pyroute2() {
    let pytest = examples().join("../target/venv/bin/pytest");
    if !common::has(pytest.to_str().unwrap(), "python3-venv") {
        return;
    }
    let folder = Folder::new();
    succeed(
        Command::new(WEIR)
            .current_dir(&folder.0)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .args(["run", "--"])
            .arg(pytest)
            .args(["-q", "-p", "no:cacheprovider"])
            .arg(examples().join("pytest-pyroute2")),
    );
}

#[test]
fn twenty_stacks() {
    succeed(Command::new(examples().join("twenty-stacks/run.sh")).env("WEIR", WEIR));
}

/// A line of the bottleneck's table: packets that left and were dropped, most that waited, and the median
/// and longest wait in milliseconds.
fn bottleneck_row(table: &str, queue: &str) -> [f64; 5] {
    let line = table.lines().find(|line| line.starts_with(queue));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    [1, 2, 3, 4, 8].map(|at| words[at].parse().unwrap())
}

#[test]
fn a_bottleneck_with_a_fifo_and_with_fq_codel() {
    let folder = Folder::new();
    let run = |name: &str| {
        let out = folder.0.join(name);
        let mut command = Command::new(examples().join("bottleneck/run.sh"));
        let table = succeed(command.env("WEIR", WEIR).arg(&out)).stdout;
        (
            String::from_utf8(table).unwrap(),
            fs::read(out.join("bottleneck.svg")).unwrap(),
        )
    };
    let (table, plot) = run("first");
    let [fifo, fair] = ["fifo", "fair"].map(|queue| bottleneck_row(&table, queue));
    // The same packets came to both.
    assert_eq!(fifo[0] + fifo[1], fair[0] + fair[1], "{table}");
    assert!(
        fair[2] < fifo[2] && fair[3] < fifo[3] / 2.0 && fair[4] < fifo[4],
        "{table}"
    );
    assert!(plot.starts_with(b"<svg") && plot.ends_with(b"</svg>\n"));
    assert_eq!(
        run("second"),
        (table, plot),
        "the same seed, the same bytes"
    );
}
