// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wrong calls on the sockets of programs, programs that are killed or stopped in a call, a stack that is, and a process
//! without descriptors.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use common::{User, WEIR, command, has, output, script_with, text, users};

fn really(user: User, script: &str) -> String {
    let (printed, status) = script_with(user, &["--real-time"], script);
    assert_eq!(status, 0, "{user:?}: {printed}");
    printed
}

/// The expectation is Linux's (`bad-sockets/calls.py`). Left out are sends and receives on streams without a connection,
/// which wait here.
#[test]
fn wrong_pointers_and_lengths_are_errors_as_on_linux() {
    if !has("python3", "python3") {
        return;
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad-sockets");
    let expected = std::fs::read_to_string(format!("{folder}/linux.txt")).unwrap();
    // Weir says on standard error that there are no tables of netfilter, for which one of the options asks.
    let script = format!("ip link set lo up; python3 {folder}/calls.py 2>/dev/null");
    for user in users() {
        let printed = really(*user, &script);
        let wrong = |(got, linux): &(&str, &str)| got != linux;
        let first = printed.lines().zip(expected.lines()).find(wrong);
        assert_eq!(first, None, "{user:?}: the first is Weir's");
        assert_eq!(
            printed.lines().count(),
            expected.lines().count(),
            "{user:?}"
        );
    }
}

/// Ten thousand streams in a process, and as many datagram sockets as it has numbers for.
#[test]
fn descriptors_are_used_up_and_used_again() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"ip link set lo up
python3 -c '
import errno, resource, socket
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
limit = min(hard, 20000); resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
for kind, least, turns in (socket.SOCK_DGRAM, max(384, limit - 16384), 2), (socket.SOCK_STREAM, min(10000, limit - 600), 1):
    for turn in range(turns):
        many = []
        try:
            while len(many) < 10000: many.append(socket.socket(socket.AF_INET, kind))
        except OSError as error: assert error.errno == errno.EMFILE, error
        print(kind.name, len(many) >= least)
        for s in many: s.close()
a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(("127.0.0.1", 9)); a.sendto(b"still", a.getsockname()); print(a.recv(9))
'"#;
    let expected = "SOCK_DGRAM True\nSOCK_DGRAM True\nSOCK_STREAM True\nb'still'\n";
    for user in users() {
        assert_eq!(really(*user, script), expected, "{user:?}");
    }
}

/// Others go on while a program is stopped in a call, and its sockets are gone after its end.
#[test]
fn programs_are_stopped_and_killed_in_calls() {
    if !has("python3", "python3") || !has("ping", "iputils-ping") {
        return;
    }
    let script = r#"ip link set lo up
cd "$(mktemp -d)"; trap 'rm -r "$PWD"' EXIT
cat > client.py <<'PY'
BLOCKED
PY
for call in recv recvmsg accept stream connect poll select full; do
    for how in KILL TERM; do
        rm -f ready; python3 client.py $call > ready 2> /dev/null & pid=$!
        until grep -q ready ready 2> /dev/null; do sleep 0.02; done; sleep 0.1
        kill -STOP $pid; sleep 0.02; ping -c 1 -W 9 127.0.0.1 > /dev/null || echo stuck
        [ $how = KILL ] || kill -CONT $pid
        sleep 0.05; kill -0 $pid || echo "$call ended"
        kill -$how $pid; wait $pid 2> /dev/null; echo "$call $how $?"
    done
done
for n in $(seq 100); do [ -n "$(ss -Haunt | grep -v TIME-WAIT)" ] || break; sleep 0.1; done
ss -Haunt | grep -v TIME-WAIT || true"#;
    let client = r#"import select, socket, sys
U = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); U.bind(("127.0.0.1", 0))
L = socket.socket(); L.bind(("127.0.0.1", 0)); L.listen()
C = socket.create_connection(L.getsockname()); A = L.accept()[0]
def connect():
    full = socket.socket(); full.bind(("127.0.0.1", 0)); full.listen(0)
    while True: s = socket.socket(); s.connect(full.getsockname()); kept.append(s)
def poll():
    p = select.poll(); p.register(U, 1); p.register(A, 1); p.poll()
def full():
    while True: C.sendall(bytes(1 << 16))
kept = []
calls = dict(recv=lambda: U.recv(9), recvmsg=lambda: U.recvmsg(9, 9), accept=L.accept, stream=lambda: A.recv(9), connect=connect,
             poll=poll, select=lambda: select.select([U], [], []), full=full)
print("ready", flush=True)
calls[sys.argv[1]]()"#;
    let mut expected = String::new();
    for call in [
        "recv", "recvmsg", "accept", "stream", "connect", "poll", "select", "full",
    ] {
        expected += &format!("{call} KILL 137\n{call} TERM 143\n");
    }
    let script = script.replace("BLOCKED", client);
    for user in users() {
        assert_eq!(really(*user, &script), expected, "{user:?}");
    }
}

/// The port of a program that was killed while it waited is free as soon as its end is known.
#[test]
fn a_killed_program_leaves_its_port() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"ip link set lo up
python3 -c '
import os, socket
for turn in range(60):
    kind = (socket.SOCK_DGRAM, socket.SOCK_STREAM)[turn % 2]
    s = socket.socket(socket.AF_INET, kind); s.bind(("127.0.0.1", 4000))
    waits, call = (s.accept, 288) if kind == socket.SOCK_STREAM else (lambda: s.recv(9), 45)
    if kind == socket.SOCK_STREAM: s.listen()
    pid = os.fork()
    if pid == 0: waits(); os._exit(0)
    s.close()
    while open(f"/proc/{pid}/syscall").read().split()[0] != str(call): pass
    os.kill(pid, 9); os.waitpid(pid, 0)
print("free")
'"#;
    for user in users() {
        assert_eq!(really(*user, script), "free\n", "{user:?}");
        let (printed, status) = script_with(*user, &[], script);
        assert_eq!((printed.as_str(), status), ("free\n", 0), "{user:?}");
    }
}

/// The calls of a program end when the stack's process is killed.
#[test]
fn no_call_hangs_when_the_stack_is_killed() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"cd "$(mktemp -d)"; trap 'rm -r "$PWD"' EXIT; export XDG_RUNTIME_DIR=$PWD
"$0" up > up.log 2>&1 & up=$!
for n in $(seq 200); do "$0" exec -- true 2> /dev/null && break; sleep 0.05; done
"$0" exec -- ip link set lo up
cat > client.py <<'PY'
import errno, os, socket, threading
def tried(call):
    try: return call()
    except OSError as error: return errno.errorcode[error.errno]
L = socket.socket(); L.bind(("127.0.0.1", 0)); L.listen()
C = socket.create_connection(L.getsockname()); A = L.accept()[0]
U = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); U.bind(("127.0.0.1", 0))
got = {}
def run(name, call): got[name] = tried(call)
calls = dict(stream=lambda: C.recv(9), accept=L.accept, datagram=lambda: U.recv(9))
threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in calls.items()]
for t in threads: t.start()
print("ready", flush=True)
for t in threads: t.join(20)
print(sorted(got.items()), tried(lambda: C.send(b"x")), tried(socket.socket), tried(lambda: U.sendto(b"x", ("127.0.0.1", 9))), flush=True)
os._exit(0)
PY
"$0" exec -- python3 client.py > out 2> errors & client=$!
until grep -q ready out; do sleep 0.05; done; sleep 0.3
kill -9 $up; wait $client; echo "status $?"; cat out; grep -o 'the stack at .* is gone' errors | wc -l"#;
    for user in users() {
        let mut command = command(*user, "bash");
        let found = output(command.args(["-c", script, WEIR]));
        let (printed, errors) = (text(&found.stdout), text(&found.stderr));
        let expected = "status 0\nready\n[('accept', 'ECONNREFUSED'), ('datagram', b''), ('stream', 'ECONNRESET')] \
                        EPIPE ECONNREFUSED ECONNREFUSED\n1\n";
        assert_eq!(printed, expected, "{user:?}: {errors}");
    }
}
