// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every example runs like the command in its README, with the program just built.
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

/// Runs the edge router once into `folder`. Returns its files by name, and the report as printed.
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

/// A small tree: 4 pods, 20 routers.
#[test]
fn fat_tree() {
    let folder = Folder::new();
    let mut command = Command::new(examples().join("fat-tree/run.sh"));
    command.arg(&folder.0).env("WEIR", WEIR);
    let output = succeed(command.env("K", "4").env("COUNT", "50"));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.starts_with("20 routers, 8 hosts"), "{printed}");
    let received = printed.lines().last().unwrap().split(' ').next().unwrap();
    // Each of the four receivers gets 50 packets, and some of ARP and ND.
    assert!((200..250).contains(&received.parse().unwrap()), "{printed}");
}

#[test]
fn twenty_stacks() {
    succeed(Command::new(examples().join("twenty-stacks/run.sh")).env("WEIR", WEIR));
}

#[test]
fn etcd() {
    if !common::has("etcd", "etcd-server") || !common::has("etcdctl", "etcd-client") {
        return;
    }
    let mut command = common::command(common::ordinary_user(), "sh");
    command
        .arg(examples().join("etcd/run.sh"))
        .env("WEIR", WEIR);
    let said = common::text(&succeed(&mut command).stdout);
    let expected = "three servers: red\nwithout the first: green\nthe first alone: no answer\nthree again: green\n";
    assert_eq!(said, expected);
}

#[test]
fn live_router() {
    let programs = [
        ("iperf3", "iperf3"),
        ("ping", "iputils-ping"),
        ("unshare", "util-linux"),
    ];
    if !programs
        .iter()
        .all(|(program, package)| common::has(program, package))
    {
        return;
    }
    let mut command = common::command(common::User::Own, "bash");
    command
        .arg(examples().join("live-router/run.sh"))
        .arg("2")
        .env("WEIR", WEIR);
    let output = succeed(&mut command);
    let said = common::text(&output.stdout);
    assert!(said.contains("2 received"), "{said}");
    // The rates of the receiver, in Mbit/s, before and behind the shaper.
    let rates: Vec<f64> = said
        .lines()
        .filter(|line| line.ends_with("receiver"))
        .filter_map(|line| line.split_whitespace().rev().nth(2)?.parse().ok())
        .collect();
    let [free, shaped] = rates[..] else {
        panic!("{said}");
    };
    assert!(shaped > 2.0 && shaped < 20.5, "{said}");
    assert!(free > shaped, "{said}");
}

/// Parses a line of the bottleneck's table: packets that left and were dropped, the most that
/// waited, and the median and longest wait in milliseconds.
fn bottleneck_row(table: &str, feed: &str, queue: &str) -> [f64; 5] {
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let found = table
        .lines()
        .map(words)
        .find(|w| w[0] == feed && w[1] == queue);
    let words = found.unwrap();
    [2, 3, 4, 5, 9].map(|at| words[at].parse().unwrap())
}

#[test]
fn a_bottleneck_with_a_fifo_and_with_fq_codel() {
    let folder = Folder::new();
    let run = || {
        let out = folder.0.join("out");
        let mut command = Command::new(examples().join("bottleneck/run.sh"));
        let table = succeed(command.env("WEIR", WEIR).arg(&out)).stdout;
        let files = fs::read_dir(&out).unwrap().map(|file| file.unwrap());
        let mut files: Vec<_> = files
            .map(|file| (file.file_name(), fs::read(file.path()).unwrap()))
            .collect();
        files.sort();
        fs::remove_dir_all(out).unwrap();
        (String::from_utf8(table).unwrap(), files)
    };
    let (table, files) = run();
    for feed in ["capture", "generator"] {
        let [fifo, fair] = ["fifo", "fair"].map(|queue| bottleneck_row(&table, feed, queue));
        // The same packets arrived in both runs, except for neighbour solicitations, which are
        // repeated while packets wait.
        let came = |row: [f64; 5]| row[0] + row[1];
        assert!((0.0..10.0).contains(&(came(fifo) - came(fair))), "{table}");
        assert!(
            fair[2] < fifo[2] && fair[3] < fifo[3] / 2.0 && fair[4] < fifo[4],
            "{table}"
        );
    }
    let text = |name: &str| {
        let found = files.iter().find(|(file, _)| file == name);
        String::from_utf8(found.unwrap().1.clone()).unwrap()
    };
    for page in ["capture.html", "generator.html"] {
        let page = text(page);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        assert!(page.contains("do not back off"));
    }
    let (again, same) = run();
    assert_eq!(again, table, "the same seed, the same table");
    for ((name, first), (_, second)) in files.iter().zip(&same) {
        assert!(first == second, "{} differs", name.to_string_lossy());
    }
    assert_eq!(files.len(), same.len());
}

/// The CNI plugin's tests, built by `ci/setup test`, or here if Go is installed but they are not
/// built yet.
#[test]
fn cni_plugin_in_go() {
    let built = examples().join("../target/clients/cni-plugin.test");
    if !built.exists() {
        if !common::has("go", "golang-go") {
            return;
        }
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/local/go/bin";
        let status = Command::new("go")
            .env("PATH", path)
            .env("CGO_ENABLED", "0")
            .args(["test", "-c", "-o"])
            .arg(&built)
            .arg(".")
            .current_dir(examples().join("cni-plugin"))
            .status();
        if !status.is_ok_and(|status| status.success()) {
            common::skip("the CNI plugin does not build: its modules come from Go's proxy");
            return;
        }
    }
    for mode in ["user", "paths"] {
        let output = succeed(
            Command::new(WEIR)
                .args(["run", "--quiet", "--mode", mode, "--"])
                .arg(&built)
                .arg("-test.v"),
        );
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(printed.matches("--- PASS").count(), 4, "{printed}");
    }
}
