// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Failures around a run: scripts that fail, captures that are broken or missing, a full disk,
//! clients that do not read, are killed, or send requests that no library sends (`golden/wire.cmd`
//! has Linux's answers to those).
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

use common::{Folder, User, has, output, script, text, users, weir, works};

/// Returns the exit status, standard output and standard error of `weir ARGS`.
fn outcome(user: User, args: &[&str]) -> (i32, String, String) {
    let output = output(&mut weir(user, args));
    let status = output.status.code().unwrap_or(-1);
    (status, text(&output.stdout), text(&output.stderr))
}

fn capture() -> Vec<u8> {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/edge-router/lan.pcapng.gz");
    let packed = fs::File::open(file).unwrap();
    let mut unpacked = Vec::new();
    let mut zcat = common::command(User::Own, "gzip");
    let mut child = zcat
        .arg("-dc")
        .stdin(packed)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut unpacked)
        .unwrap();
    assert!(child.wait().unwrap().success());
    unpacked
}

/// A script that creates d0, and v0, which sends back the frames it receives.
const SETUP: &str = "ip link add d0 type dummy
ip link set d0 up
ip link add v0 type veth peer name v1
ip link set v0 up
ip link set v1 up
tc qdisc add dev v0 clsact
tc filter add dev v0 ingress matchall action mirred egress redirect dev v0
";

fn setup(folder: &Folder) -> String {
    let file = folder.file("setup.sh");
    fs::write(&file, SETUP).unwrap();
    file
}

#[test]
fn a_script_that_fails() {
    let folder = Folder::new();
    let (json, out) = (folder.file("report.json"), folder.file("out.pcapng"));
    for user in users() {
        let to = format!("d0={out}");
        let failing = "ip link add d0 type dummy; echo last words >&2; exit 7";
        let (status, stdout, stderr) = outcome(
            *user,
            &[
                "run", "--json", &json, "--out", &to, "--", "sh", "-c", failing,
            ],
        );
        assert_eq!((status, stdout.as_str()), (7, ""), "{stderr}");
        assert_eq!(
            stderr,
            "last words\nweir: sh ended with status 7; nothing was played after it\n"
        );
        assert!(!Path::new(&json).exists(), "a report of half a run");
        let _ = fs::remove_file(&out);
        for (script, expected) in [
            ("kill -KILL $$", 137),
            ("kill -TERM $$", 143),
            ("exit 124", 124),
        ] {
            assert_eq!(
                outcome(*user, &["run", "--", "sh", "-c", script]).0,
                expected,
                "{script}"
            );
        }
        assert_eq!(outcome(*user, &["run", "/no/such/script"]).0, 127);
        assert_eq!(outcome(*user, &["run", "/tmp"]).0, 126);
        let (status, _, stderr) = outcome(*user, &["run", "--in", "d0", "true"]);
        assert!(
            status == 2 && stderr.contains("`d0` is not DEV=FILE"),
            "{stderr}"
        );
        assert_eq!(outcome(*user, &["run"]).0, 2);
        for (spec, sentence) in [
            ("d0", "`d0` is not DEV=SPEC"),
            (
                "d0=rate=fast",
                "generator: rate=fast is not a valid value for rate",
            ),
            ("d0=rate=0", "generator: rate and burst must be 1 or more"),
        ] {
            let (status, _, stderr) = outcome(*user, &["run", "--gen", spec, "true"]);
            assert!(status == 2 && stderr.contains(sentence), "{stderr}");
        }
        let (status, _, stderr) = outcome(*user, &["run", "--gen", "d0=count=0", "true"]);
        assert!(
            status == 125 && stderr.contains("--gen d0: the generator never ends"),
            "{stderr}"
        );
        let empty = folder.file("empty.sh");
        fs::write(&empty, "").unwrap();
        assert_eq!(
            outcome(*user, &["run", "--quiet", &empty]),
            (0, String::new(), String::new())
        );
    }
}

#[test]
fn a_missing_device_is_reported() {
    let folder = Folder::new();
    let setup = setup(&folder);
    let file = folder.file("in.pcapng");
    fs::write(&file, capture()).unwrap();
    for user in users() {
        for (flag, device, sentence) in [
            ("--in", "nosuch", "--in nosuch: there is no such device"),
            ("--in", "ns/d0", "--in ns/d0: there is no namespace ns"),
            ("--gen", "nosuch", "--gen nosuch: there is no such device"),
            ("--out", "nosuch", "--out nosuch: there is no such device"),
        ] {
            let path = match flag {
                "--in" => file.clone(),
                "--gen" => "count=1".into(),
                _ => folder.file("out"),
            };
            let (status, stdout, stderr) =
                outcome(*user, &["run", flag, &format!("{device}={path}"), &setup]);
            assert_eq!((status, stdout.as_str()), (125, ""), "{stderr}");
            assert!(stderr.contains(sentence), "{stderr}");
            let _ = fs::remove_file(folder.file("out"));
        }
        let (status, _, stderr) = outcome(*user, &["run", "--in", "d0=/no/such/file", &setup]);
        assert!(
            status == 125 && stderr.contains("/no/such/file"),
            "{stderr}"
        );
        let (status, _, stderr) = outcome(*user, &["run", "--out", "d0=/no/such/dir/x", &setup]);
        assert!(
            status == 125 && stderr.contains("/no/such/dir/x"),
            "{stderr}"
        );
    }
}

#[test]
fn a_broken_capture_keeps_the_frames_before_the_error() {
    let folder = Folder::new();
    let setup = setup(&folder);
    let whole = capture();
    let file = folder.file("broken");
    for user in users() {
        fs::write(&file, &whole[..100_001]).unwrap();
        let json = folder.file(&format!("{user:?}.json"));
        let (status, stdout, stderr) = outcome(
            *user,
            &[
                "run",
                "--json",
                &json,
                "--in",
                &format!("d0={file}"),
                &setup,
            ],
        );
        assert_eq!(status, 125, "{stderr}");
        assert!(
            stderr.contains("offset 100000: enhanced packet is truncated")
                && stderr.contains("(the 163 frames before it are kept)"),
            "{stderr}"
        );
        // The frames before the cut were played and are reported.
        assert!(stdout.contains("163  90,885"), "{stdout}");
        assert!(fs::read_to_string(&json).unwrap().contains("163"));
        for (content, sentence) in [
            (&b""[..], "offset 0: is empty"),
            (
                b"what is this? surely no capture",
                "offset 0: is neither pcap nor pcapng",
            ),
            (&whole[..20], "offset"),
        ] {
            fs::write(&file, content).unwrap();
            let (status, _, stderr) = outcome(
                *user,
                &["run", "--quiet", "--in", &format!("d0={file}"), &setup],
            );
            assert!(
                status == 125 && stderr.contains(sentence),
                "{status} {stderr}"
            );
        }
    }
}

#[test]
fn a_full_disk() {
    let folder = Folder::new();
    let setup = setup(&folder);
    let file = folder.file("in.pcapng");
    fs::write(&file, capture()).unwrap();
    let from = format!("v0={file}");
    for user in users() {
        let run = |more: &[&str]| {
            let mut args = vec!["run", "--quiet", "--in", &from];
            args.extend(more);
            args.push(&setup);
            outcome(*user, &args)
        };
        for more in [["--out", "v0=/dev/full"], ["--json", "/dev/full"]] {
            let (status, _, stderr) = run(&more);
            assert_eq!(status, 125, "{more:?}: {stderr}");
            assert!(
                stderr.contains("/dev/full") && stderr.contains("No space left on device"),
                "{more:?}: {stderr}"
            );
        }
        // The report itself goes to the full disk.
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut command = weir(*user, &["run", &setup]);
        let output = output(command.stdout(full));
        assert_eq!(output.status.code(), Some(125));
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("standard output: No space left on device"),
            "{stderr}"
        );
    }
}

#[test]
fn standard_input_and_output_carry_captures() {
    let folder = Folder::new();
    let setup = setup(&folder);
    let whole = capture();
    for user in users() {
        let mut command = weir(*user, &["run", "--in", "v0=-", "--out", "v0=-", &setup]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = whole.clone();
        let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        // One stream carries only the capture, the other the report.
        assert_eq!(output.stdout[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
        assert!(!text(&output.stdout).contains("Devices\n"));
        assert!(text(&output.stderr).contains("Devices\n"));
    }
}

/// Sends without reading. Then prints the peak memory of the process whose command line begins with
/// `weir run`, found among the ancestors, and checks that it still serves.
const NEVER_READS: &str = r#"python3 - <<'X'
import os, socket, struct, sys
link = struct.pack("=BBHiII", 0, 0, 0, 1, 0, 0)
get = struct.pack("=IHHII", 32, 18, 1, 1, 0) + link
dump = struct.pack("=IHHII", 32, 18, 0x301, 1, 0) + struct.pack("=BBHiII", 0, 0, 0, 0, 0, 0)
bad = struct.pack("=IHHII", 32, 9999, 5, 1, 0) + link
for request in (get, bad, dump):
    s = socket.socket(16, 3, 0)
    s.bind((0, 0))
    s.setblocking(False)
    sent = blocked = 0
    for n in range(100000):
        try:
            s.send(request)
            sent += 1
        except BlockingIOError:
            blocked += 1
            if blocked > 50000:
                break
    print("sent", sent > 100, "held back or read", sent + blocked)
    globals()[f"keep{request[4]}"] = s
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
pid = os.getpid()
while True:
    pid = parent(pid)
    if pid <= 1:
        sys.exit("no weir above")
    if b"weir" in open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")[0]:
        break
for line in open(f"/proc/{pid}/status"):
    if line.startswith(("VmRSS", "VmHWM")):
        print(line.split()[0], line.split()[1])
X
ip -br link | wc -l"#;

#[test]
fn a_hundred_thousand_requests_without_reading_cost_no_memory() {
    if !has("python3", "python3") {
        return;
    }
    for user in users() {
        let printed = works(*user, NEVER_READS);
        let peak = printed
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM: "))
            .unwrap_or_else(|| panic!("{printed}"));
        let peak: u64 = peak.parse().unwrap();
        assert!(
            peak < 96 << 10,
            "{user:?}: {peak} KiB at the most\n{printed}"
        );
        assert!(printed.ends_with("\n1\n"), "{printed}");
    }
}

/// A request longer than the socket's send buffer fails with EMSGSIZE, as on a netlink socket. If
/// root lifts that bound, a request of megabytes is served and a longer one is answered.
const TOO_LONG: &str = r#"python3 - <<'X'
import socket, struct
def ask(s, size):
    get = struct.pack("=IHHII", 32, 18, 1, 1, 0) + struct.pack("=BBHiII", 0, 0, 0, 1, 0, 0)
    noop = struct.pack("=IHHII", 32 << 10, 1, 1, 1, 0) + bytes((32 << 10) - 16)
    s.send(get + noop * (size // len(noop)))
    answer = s.recv(65536)
    return struct.unpack_from("=H", answer, 4)[0], struct.unpack_from("=i", answer, 16)[0]
s = socket.socket(16, 3, 0)
s.settimeout(120)
try:
    ask(s, 1 << 20)
except OSError as error:
    print("errno", error.errno)
s = socket.socket(16, 3, 0)
s.settimeout(120)
try:
    s.setsockopt(socket.SOL_SOCKET, 32, 16 << 20) # SO_SNDBUFFORCE
except PermissionError:
    print("16 0\n2 -105")
else:
    print(ask(s, 3 << 20)[0], 0)
    print(*ask(s, (4 << 20) + (32 << 10)))
X"#;

#[test]
fn a_request_that_is_too_long() {
    if !has("python3", "python3") {
        return;
    }
    for user in users() {
        assert_eq!(
            works(*user, TOO_LONG),
            "errno 90\n16 0\n2 -105\n",
            "{user:?}"
        );
    }
}

#[test]
fn clients_killed_in_a_dump() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"for i in $(seq 300); do echo "link add d$i type dummy"; done | ip -batch -
    for n in $(seq 10); do
        python3 - <<'X' &
import os, signal, socket, struct
s = socket.socket(16, 3, 0)
s.send(struct.pack("=IHHII", 32, 18, 0x301, 1, 0) + struct.pack("=BBHiII", 0, 0, 0, 0, 0, 0))
s.recv(1024)
os.kill(os.getpid(), signal.SIGKILL)
X
    done
    wait
    ip -br link | wc -l
    # The sockets are gone with their clients.
    ip netns add one; ip netns del one; ip link del d7; ip -br link | wc -l"#;
    for user in users() {
        let printed = works(*user, script);
        assert!(printed.ends_with("301\n300\n"), "{printed}");
    }
}

#[test]
fn a_background_process_does_not_hold_the_run() {
    for user in users() {
        // Weir waits for processes that the script leaves behind, and still serves them.
        let (printed, status) = script(*user, "(sleep 0.1; ip -br link | wc -l) & exit 0");
        assert_eq!((printed.as_str(), status), ("1\n", 0));
    }
}

#[test]
fn filters_beyond_a_limit_are_refused_with_a_sentence() {
    let folder = Folder::new();
    let script = folder.file("rules.sh");
    let rule = |n: u32| {
        format!(
            "tc filter add dev v0 ingress prio {n} matchall action drop 2>&1 && echo added {n}\n"
        )
    };
    // One datagram from tc: the requests after a refused one are served.
    let batch = "printf 'filter %s\\n' \
        'del dev v0 ingress prio 2' 'add dev v0 ingress prio 4 matchall action drop' \
        'add dev v0 ingress prio 5 matchall action drop' 'del dev v0 ingress prio 49152' \
        'add dev v0 ingress prio 6 matchall action drop' | tc -force -batch - 2>/dev/null\n\
        echo left $(tc filter show dev v0 ingress | grep 'handle 0x1' | cut -d' ' -f5)\n";
    fs::write(
        &script,
        format!("{SETUP}{}{}{batch}true\n", rule(2), rule(3)),
    )
    .unwrap();
    for (limit, sentence) in [
        (
            ["--max-rules", "2"],
            "Filters have reached the limit set by --max-rules",
        ),
        (
            ["--max-memory", "900"],
            "reached the limit set by --max-memory",
        ),
    ] {
        let args = [&["run", "--quiet"], &limit[..], &[&*script]].concat();
        let (status, out, err) = outcome(User::Own, &args);
        assert_eq!(status, 0, "{err}");
        assert!(out.contains("added 2") && !out.contains("added 3"), "{out}");
        assert!(out.contains(sentence), "{out}{err}");
        assert!(out.contains("left 4 6\n"), "{out}{err}");
    }
}

/// An ordinary user of Debian has `/usr/local/bin:/usr/bin:/bin`; `tc` and `sysctl` are elsewhere.
#[test]
fn the_administrators_programs_are_found_without_a_path_to_them() {
    let folder = Folder::new();
    let file = folder.file("setup.sh");
    let lines = "ip netns add one\nip netns exec one sysctl -q net.ipv4.ip_forward=1\n";
    fs::write(&file, lines).unwrap();
    for user in users() {
        for path in [Some("/usr/local/bin:/usr/bin:/bin"), None] {
            for args in [&["run", &file][..], &["run", "--", "tc", "qdisc"]] {
                let mut weir = weir(*user, args);
                match path {
                    Some(path) => weir.env("PATH", path),
                    None => weir.env_remove("PATH"),
                };
                let output = output(&mut weir);
                assert!(
                    output.status.success(),
                    "{user:?} {path:?} {args:?}: {}",
                    text(&output.stderr)
                );
            }
        }
    }
}
