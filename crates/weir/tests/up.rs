// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir up`, `exec`, `stat` and `capture`: a running stack, its control socket, its end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// The time limit of a step: longer than any takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// A stack that is up.
struct Stack {
    child: Child,
    directory: PathBuf,
}

impl Stack {
    fn up(name: &str) -> Self {
        Self::up_with(name, &[])
    }

    fn up_with(name: &str, args: &[&str]) -> Self {
        let directory =
            std::env::temp_dir().join(format!("weir-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut child = Command::new(WEIR)
            .args(["up", "--socket"])
            .arg(directory.join("control"))
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        common::wait_until_up(&mut child);
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

/// The mode of RCU callbacks is chosen at the start and changed at run time; what waits is run, and
/// devices can be made and deleted in each mode.
/// A process that another `weir exec` has put into a VRF is shown, its cgroup is busy, and only its own launch moves it. One
/// that has become another user's stays in its VRF.
#[test]
fn cgroups_are_those_of_the_stack() {
    let stack = Stack::up("cgroups");
    let inside = |script: &str| stack.weir("exec", &["--", "sh", "-c", script]);
    let made = inside("ip link add red type vrf table 10 && ip link set red up");
    assert!(made.status.success(), "{}", err(&made));
    let mut member = Command::new(WEIR)
        .args(["exec", "--socket"])
        .arg(stack.socket())
        .args(["--", "ip", "vrf", "exec", "red", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !out(&inside("ip vrf pids red")).ends_with("  cat\n") {
        assert!(start.elapsed() < PATIENCE, "nobody is in the VRF");
    }
    let found = inside(
        "set -- $(ip vrf pids red)
ip vrf identify $1
path=/run/cgroup2$(ip vrf exec red sed -n 's/^0:://p' /proc/self/cgroup)
echo ${path##*/vrf/}
rmdir $path && echo removed
echo $1 >$path/cgroup.procs && echo moved
",
    );
    assert_eq!(out(&found), "red\nred\n", "{}", err(&found));
    assert!(err(&found).contains("Device or resource busy"));
    drop(member.stdin.take());
    assert!(wait(&mut member).success());
    let found = inside(
        "path=$(ip vrf exec red sed -n 's/^0:://p' /proc/self/cgroup)
ip vrf pids red
rmdir /run/cgroup2$path && echo removed",
    );
    assert_eq!(out(&found), "removed\n", "{}", err(&found));
    if common::ordinary_user() == common::User::Nobody {
        let script =
            "ip vrf exec red setpriv --reuid=65534 --regid=65534 --clear-groups ip vrf identify";
        assert_eq!(out(&inside(script)), "red\n");
    }
}

#[test]
fn the_mode_of_rcu_callbacks_changes_at_run_time() {
    let stack = Stack::up_with("rcu", &["--rcu", "offload=0"]);
    let mode = |stack: &Stack| out(&stack.weir("rcu", &[]));
    assert_eq!(mode(&stack), "offload=0\n");
    for name in ["in-place", "offload-all", "offload=0,2-3", "in-place"] {
        let set = stack.weir("rcu", &[name]);
        assert!(set.status.success(), "{}", err(&set));
        assert_eq!(mode(&stack), format!("{}\n", name.replace("2-3", "2,3")));
        let done = stack.weir(
            "exec",
            &[
                "--",
                "sh",
                "-c",
                "ip link add d0 type dummy && ip link del d0",
            ],
        );
        assert!(done.status.success(), "{name}: {}", err(&done));
        let stat = stack.weir("stat", &["rcu", "--json"]);
        let stat: serde_json::Value = serde_json::from_slice(&stat.stdout).unwrap();
        assert_eq!(stat["mode"], name.replace("2-3", "2,3").as_str());
        assert!(stat["deferred"].as_u64().unwrap() > 0, "{stat}");
    }
    // Nothing is left behind by any mode.
    let start = Instant::now();
    loop {
        let stat = stack.weir("stat", &["rcu", "--json"]);
        let stat: serde_json::Value = serde_json::from_slice(&stat.stdout).unwrap();
        if stat["waiting"] == 0 && stat["bytes"] == 0 {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{stat}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = out(&stack.weir("stat", &["rcu"]));
    assert!(
        text.starts_with("callbacks in-place: 0 waiting (0 bytes)"),
        "{text}"
    );
    assert!(text.contains("grace periods: "), "{text}");
    assert!(text.contains("run by weir-rcu: "), "{text}");
    let wrong = stack.weir("rcu", &["offload=9-1"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("\"9-1\" is not a CPU or a range of CPUs"));
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
        err(&second).contains("a stack already runs there"),
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
    common::wait_until_up(&mut again);
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
    // The stack closes the pipe, so its end can be read.
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
}

/// Returns the command `weir ARGS` with this XDG_RUNTIME_DIR.
fn weir_at(runtime: Option<&Path>, args: &[&str]) -> Command {
    let mut command = Command::new(WEIR);
    command.args(args).env_remove("XDG_RUNTIME_DIR");
    if let Some(runtime) = runtime {
        command.env("XDG_RUNTIME_DIR", runtime);
    }
    command
}

#[test]
fn every_command_finds_the_users_own_stack() {
    let folder = std::env::temp_dir().join(format!("weir-test-{}-own", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut up = weir_at(Some(&folder), &["up"]);
    let mut up = up.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(up.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let done = |args: &[&str]| weir_at(Some(&folder), args).output().unwrap();
    let added = done(&["exec", "--", "ip", "link", "add", "d0", "type", "dummy"]);
    assert!(added.status.success(), "{added:?}");
    assert!(out(&done(&["stat", "--all"])).contains("d0"));
    let refused = done(&["capture", "nosuch"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("there is no device nosuch"), "{said}");

    // In a directory that other users may write to, the socket may belong to anyone.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    for args in [&["exec", "--", "true"][..], &["stat"], &["up"]] {
        let refused = done(args);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.status.code() == Some(125) && said.contains("other users may write there"),
            "{args:?}: {said}"
        );
    }
    up.kill().unwrap();
    up.wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_that_is_no_socket_stays() {
    let file = std::env::temp_dir().join(format!("weir-test-{}-file", std::process::id()));
    std::fs::write(&file, "mine").unwrap();
    let refused = weir_on(&file, "up", &[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(125) && said.contains("the path exists and is not a socket"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    std::fs::remove_file(&file).unwrap();
}

/// Root finds a stack of nobody, who may have placed it there on purpose.
#[test]
fn a_stack_of_another_user_is_not_joined() {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let folder = std::env::temp_dir().join(format!("weir-test-{}-planted", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let socket = folder.join("control");
    let nobody = [
        "--reuid",
        "nobody",
        "--regid",
        "nogroup",
        "--clear-groups",
        "--",
    ];
    let mut up = Command::new("setpriv");
    up.args(nobody)
        .arg(WEIR)
        .args(["up", "--socket"])
        .arg(&socket);
    let mut up = up.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(up.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    if line.contains("is up") {
        for (command, args) in [("exec", &["--", "true"][..]), ("stat", &[])] {
            let refused = weir_on(&socket, command, args);
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(
                !refused.status.success() && said.contains("another user (65534)"),
                "{command}: {said}"
            );
        }
    } else {
        eprintln!("weir tests: nobody cannot run {WEIR} (ci/unprivileged)");
    }
    let _ = up.kill();
    let _ = up.wait();
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Standard output may be a pipe that this user could not open again, for example root's.
#[test]
fn a_capture_writes_to_a_pipe_of_another_user() {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let script = "ip link add d0 type dummy; ip link set d0 up; weir capture -c 1 d0 & sleep 0.5; \
                  ip addr add 10.0.0.1/24 dev d0; ping -c1 -W1 10.0.0.2; weir play; kill $!; true";
    let nobody = [
        "--reuid",
        "nobody",
        "--regid",
        "nogroup",
        "--clear-groups",
        "--",
    ];
    let mut run = Command::new("setpriv");
    run.args(nobody)
        .arg(WEIR)
        .args(["run", "--quiet", "--", "sh", "-c", script]);
    let done = run.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if said.contains("ermission denied")
        && done.stdout.is_empty()
        && !said.contains("standard output")
    {
        eprintln!("weir tests: nobody cannot run {WEIR} (ci/unprivileged): {said}");
        return;
    }
    assert!(!said.contains("standard output of process"), "{said}");
    // A section header block of pcapng.
    assert!(
        done.stdout
            .windows(4)
            .any(|four| four == [0x0a, 0x0d, 0x0d, 0x0a]),
        "{said}"
    );
}
