// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir up`, `exec`, `stat` and `capture`: a stack kept, its control socket, its end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// A stack that is up.
struct Stack {
    child: Child,
    directory: PathBuf,
}

impl Stack {
    fn up(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("weir-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut child = Command::new(WEIR)
            .args(["up", "--socket"])
            .arg(directory.join("control"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains("is up"), "{line}");
        Self { child, directory }
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("control")
    }

    fn weir(&self, command: &str, args: &[&str]) -> Output {
        weir_on(&self.socket(), command, args)
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn weir_on(socket: &Path, command: &str, args: &[&str]) -> Output {
    Command::new(WEIR)
        .arg(command)
        .arg("--socket")
        .arg(socket)
        .args(args)
        .output()
        .unwrap()
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(start.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn commands_share_the_stack() {
    let stack = Stack::up("share");
    let made = stack.weir(
        "exec",
        &[
            "--",
            "sh",
            "-c",
            "ip netns add blue && ip link add d0 type dummy && ip link set d0 netns blue",
        ],
    );
    assert!(made.status.success(), "{}", err(&made));
    let seen = stack.weir(
        "exec",
        &["--netns", "blue", "--", "ip", "-br", "link", "show", "d0"],
    );
    assert!(
        out(&seen).starts_with("d0 "),
        "{}{}",
        out(&seen),
        err(&seen)
    );
    let missing = stack.weir("exec", &["--netns", "red", "--", "true"]);
    assert_eq!(missing.status.code(), Some(125));
    assert!(
        err(&missing).contains("no namespace red"),
        "{}",
        err(&missing)
    );
    let status = stack.weir("exec", &["--", "sh", "-c", "exit 7"]);
    assert_eq!(status.status.code(), Some(7));
    let stat = stack.weir("stat", &["--json"]);
    let report: serde_json::Value = serde_json::from_slice(&stat.stdout).unwrap();
    let names: Vec<_> = report["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["lo", "blue/lo", "blue/d0"]);
    let stages = stack.weir("stat", &["stages"]);
    assert!(
        out(&stages).contains("sum of all stages"),
        "{}",
        out(&stages)
    );
}

#[test]
fn signals_end_it_cleanly() {
    for signal in ["-INT", "-TERM"] {
        let mut stack = Stack::up(signal.trim_start_matches('-'));
        stack.signal(signal);
        assert!(wait(&mut stack.child).success());
        assert!(!stack.socket().exists(), "the socket stays behind");
        let late = stack.weir("stat", &[]);
        assert_eq!(late.status.code(), Some(125));
        assert!(
            err(&late).contains("no stack is running there"),
            "{}",
            err(&late)
        );
    }
}

#[test]
fn one_socket_one_stack() {
    let stack = Stack::up("twice");
    let second = stack.weir("up", &[]);
    assert_eq!(second.status.code(), Some(125));
    assert!(
        err(&second).contains("a stack is running there"),
        "{}",
        err(&second)
    );
    let first = stack.weir("stat", &[]);
    assert!(
        first.status.success(),
        "the first one was disturbed: {}",
        err(&first)
    );
}

#[test]
fn a_dead_stacks_socket_is_replaced_but_no_other_file() {
    let mut stack = Stack::up("dead");
    stack.child.kill().unwrap();
    stack.child.wait().unwrap();
    assert!(stack.socket().exists());
    let mut again = Command::new(WEIR)
        .args(["up", "--socket"])
        .arg(stack.socket())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(again.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("is up"), "{line}");
    again.kill().unwrap();
    again.wait().unwrap();
    let file = stack.directory.join("file");
    std::fs::write(&file, "mine").unwrap();
    let refused = weir_on(&file, "up", &[]);
    assert_eq!(refused.status.code(), Some(125));
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}

#[test]
fn strangers_have_no_permission() {
    let stack = Stack::up("mode");
    let mode = std::fs::metadata(stack.socket())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let nowhere = weir_on(Path::new("/nonexistent/weir.sock"), "up", &[]);
    assert_eq!(nowhere.status.code(), Some(125));
    assert!(
        err(&nowhere).contains("/nonexistent/weir.sock"),
        "{}",
        err(&nowhere)
    );
    if std::fs::metadata("/proc/self")
        .is_ok_and(|data| std::os::unix::fs::MetadataExt::uid(&data) == 0)
    {
        std::fs::set_permissions(&stack.directory, std::fs::Permissions::from_mode(0o755)).unwrap();
        let nobody = Command::new("setpriv")
            .args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--",
                "perl",
                "-MIO::Socket::UNIX",
                "-e",
            ])
            .arg(
                r#"IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "$!
""#,
            )
            .arg(stack.socket())
            .output()
            .unwrap();
        assert!(
            err(&nobody).contains("Permission denied"),
            "{}",
            err(&nobody)
        );
    }
}

#[test]
fn a_capture_begins_at_once_and_ends_with_its_reader() {
    let stack = Stack::up("capture");
    let made = stack.weir("exec", &["--", "ip", "link", "add", "d0", "type", "dummy"]);
    assert!(made.status.success(), "{}", err(&made));
    let missing = stack.weir("capture", &["nosuch"]);
    assert!(
        err(&missing).contains("no device nosuch"),
        "{}",
        err(&missing)
    );
    let mut capture = Command::new(WEIR)
        .args(["capture", "--socket"])
        .arg(stack.socket())
        .arg("d0")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = capture.stdout.take().unwrap();
    let mut head = [0; 4];
    output.read_exact(&mut head).unwrap();
    assert_eq!(head, [0x0a, 0x0d, 0x0d, 0x0a], "no pcapng section header");
    capture.kill().unwrap();
    capture.wait().unwrap();
    // The stack lets go of the pipe: its end can be read.
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
}
