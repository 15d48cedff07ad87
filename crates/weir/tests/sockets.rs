// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs talk through a Weir topology with the sockets that the stack serves: unmodified programs, under virtual time
//! and in real time, as root and as an ordinary user.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

#[path = "common/chain.rs"]
mod chain;
mod common;

use chain::Time;
use common::{Folder, User, has, output, script_with, text, users};

/// Runs a script among two hosts and a router under virtual time. Returns what it prints.
#[track_caller]
fn virtually(user: User, text: &str) -> String {
    chain::run_in(chain::CHAIN, Time::Virtual, user, text)
}

/// As [`virtually`], in real time.
#[track_caller]
fn really(user: User, text: &str) -> String {
    chain::run_in(chain::CHAIN, Time::Real, user, text)
}

/// A script prints what is expected for each user, in virtual and in real time.
#[track_caller]
fn prints(script: &str, expected: &str) {
    for user in users() {
        assert_eq!(virtually(*user, script), expected, "{user:?}");
        assert_eq!(really(*user, script), expected, "{user:?}");
    }
}

#[test]
fn ping_shows_the_delay_of_netem_and_takes_none() {
    if !has("ping", "iputils-ping") {
        return;
    }
    let script = "tc -n r qdisc add dev r1 root netem delay 50ms 10ms
tc -n r qdisc add dev r0 root netem delay 50ms
a ping -n -c 1 10.0.1.2 > /dev/null; a ping -n -c 1 fd01::2 > /dev/null
a ping -n -c 4 10.0.1.2; a ping -n -c 2 -i 3600 fd01::2; a ping -n -c 1 -W 5 10.0.1.99 || echo none
a ping -n -c 1 10.0.0.99 || echo none
a ping -n -c 1 192.0.2.1 || echo none";
    let mut first = None;
    for user in users() {
        let printed = virtually(*user, script);
        let times = || printed.lines().filter_map(|line| line.split_once(" time="));
        assert_eq!(times().count(), 6, "{printed}");
        for (line, time) in times() {
            let time: f64 = time.trim_end_matches(" ms").parse().unwrap();
            assert!((90.0..120.0).contains(&time), "{line} {time}");
        }
        assert!(printed.contains("4 packets transmitted, 4 received, 0% packet loss, time 300"));
        assert!(
            printed.contains("2 packets transmitted, 2 received, 0% packet loss, time 3600000ms")
        );
        assert!(
            printed.contains("From 10.0.0.1 icmp_seq=1 Destination Host Unreachable"),
            "{printed}"
        );
        assert!(
            printed.contains("From 10.0.0.2 icmp_seq=1 Destination Host Unreachable"),
            "{printed}"
        );
        assert!(printed.ends_with("none\n"), "{printed}");
        // One seed has one answer.
        assert_eq!(first.get_or_insert_with(|| printed.clone()), &printed);
    }
}

#[test]
fn ping_in_real_time() {
    if !has("ping", "iputils-ping") {
        return;
    }
    for user in users() {
        let printed = really(
            *user,
            "a ping -n -c 3 -i 0.2 10.0.1.2; b ping -n -c 2 -i 0.2 fd00::2",
        );
        assert!(
            printed.contains("3 packets transmitted, 3 received, 0% packet loss"),
            "{printed}"
        );
        assert!(
            printed.contains("2 packets transmitted, 2 received, 0% packet loss"),
            "{printed}"
        );
    }
}

#[test]
fn traceroute_and_tracepath_see_each_hop() {
    if !has("traceroute", "traceroute") || !has("tracepath", "iputils-tracepath") {
        return;
    }
    let script = "a traceroute -n 10.0.1.2; a traceroute -n -6 fd01::2
sleep 100; a tracepath -n 10.0.1.2; a tracepath -n fd01::2";
    for user in users() {
        let printed = virtually(*user, script);
        let hops: Vec<&str> = printed
            .lines()
            .filter(|line| line.starts_with(' ') && !line.contains("LOCALHOST"))
            .collect();
        assert_eq!(
            hops[0], " 1  10.0.0.1  0.000 ms  0.000 ms  0.000 ms",
            "{printed}"
        );
        assert_eq!(hops[1], " 2  10.0.1.2  0.000 ms  0.000 ms  0.000 ms");
        assert_eq!(hops[2], " 1  fd00::1  0.000 ms  0.000 ms  0.000 ms");
        assert_eq!(hops[3], " 2  fd01::2  0.000 ms  0.000 ms  0.000 ms");
        assert!(
            printed.contains("Resume: pmtu 1500 hops 2 back 2"),
            "{printed}"
        );
    }
}

#[test]
fn datagrams_find_their_socket_and_errors_their_sender() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"b python3 -c '
import select, socket
sockets = []
for family, address in (socket.AF_INET, "10.0.1.2"), (socket.AF_INET6, "::"):
    s = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind((address, 5000)); sockets.append(s)
while True:
    for s in select.select(sockets, [], [])[0]:
        data, sender = s.recvfrom(70000); s.sendto(data.upper(), sender)
' &
server=$!
ready 5000
a python3 -c '
import errno, socket
for family, address in (socket.AF_INET, "10.0.1.2"), (socket.AF_INET6, "fd01::2"):
    s = socket.socket(family, socket.SOCK_DGRAM)
    for size in 0, 1, 1400, 9000, 60000:
        s.sendto(b"x" * size, (address, 5000)); data, sender = s.recvfrom(70000)
        assert data == b"X" * size and sender[:2] == (address, 5000), (len(data), sender)
    s.connect((address, 5001)); s.send(b"x")
    try: s.recv(1)
    except OSError as error: print(errno.errorcode[error.errno])
    print(s.getsockname()[0], s.getpeername()[:2])
    try: s.sendto(b"x" * 65530, (address, 5000))
    except OSError as error: print(errno.errorcode[error.errno])
m = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); m.bind(("", 6000))
m.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + socket.inet_aton("10.0.0.2"))
m.sendto(b"group", ("239.1.2.3", 6000)); print(m.recvfrom(9))
'
kill $server"#;
    let expected = "ECONNREFUSED\n10.0.0.2 ('10.0.1.2', 5001)\nEMSGSIZE\nECONNREFUSED\nfd00::2 ('fd01::2', 5001)\nEMSGSIZE\n\
                    (b'group', ('10.0.0.2', 6000))\n";
    prints(script, expected);
}

/// `shutdown` of a datagram socket ends the calls that wait, also without a peer. The expectation is Linux's.
#[test]
fn shutdown_wakes_those_who_wait_for_a_datagram() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"ip link set lo up
python3 -c '
import socket, threading, select, time, errno
def tried(f):
    try: return f()
    except OSError as error: return errno.errorcode[error.errno]
for connected in 0, 1:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0))
    if connected: s.connect(("127.0.0.1", 9))
    got = []
    waiters = [threading.Thread(target=lambda: got.append(tried(lambda: s.recv(9)))) for _ in range(2)]
    for w in waiters: w.start()
    time.sleep(.3)
    print(tried(lambda: s.shutdown(socket.SHUT_RD)))
    for w in waiters: w.join()
    poll = select.poll(); poll.register(s, select.POLLIN | select.POLLRDHUP | select.POLLOUT)
    print(got, s.recv(9), tried(lambda: s.recv(9, socket.MSG_DONTWAIT)), hex(poll.poll(0)[0][1]))
'"#;
    let expected = "ENOTCONN\n[b'', b''] b'' EAGAIN 0x2005\nNone\n[b'', b''] b'' EAGAIN 0x2005\n";
    prints(script, expected);
}

/// `splice` moves data from a pipe into a stream. It holds the pipe while it waits for room, and the pipe's writer waits
/// for it, uninterruptibly.
#[test]
fn data_are_spliced_from_a_pipe() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"ip link set lo up
python3 -c '
import fcntl, os, socket, threading
l = socket.socket(); l.bind(("127.0.0.1", 8000)); l.listen()
data, got = os.urandom(4096) * 1024, []
def serve():
    c = l.accept()[0]
    while not got or got[-1]: got.append(c.recv(1 << 16))
server = threading.Thread(target=serve); server.start()
s = socket.create_connection(("127.0.0.1", 8000))
r, w = os.pipe(); fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 1 << 20)
def fill():
    view = memoryview(data)
    while view: view = view[os.write(w, view[:1 << 20]):]
    os.close(w)
threading.Thread(target=fill).start()
while os.splice(r, s.fileno(), 1 << 20): pass
s.close(); server.join(); print(b"".join(got) == data)
'"#;
    for user in users() {
        assert_eq!(virtually(*user, script), "True\n", "{user:?}");
        assert_eq!(really(*user, script), "True\n", "{user:?}");
    }
}

/// The times of `TCP_INFO` count to the present, also if nothing has happened since the handshake.
#[test]
fn tcp_info_counts_to_the_present() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"ip link set lo up
python3 -c '
import socket, struct, time
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen()
c = socket.create_connection(l.getsockname()); a = l.accept()[0]
time.sleep(.3)
for s in c, a:
    received = struct.unpack_from("=I", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 52)[0]
    print(300 <= received < 20000)
'"#;
    for user in users() {
        assert_eq!(virtually(*user, script), "True\nTrue\n", "{user:?}");
        assert_eq!(really(*user, script), "True\nTrue\n", "{user:?}");
    }
}

/// The first small messages stay in the pair after they have left: the stream is writable all the same, before and after
/// a long one, all of them arrive, and the connection ends or is reset as any other.
#[test]
fn small_messages_leave_a_stream_writable() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"ip link set lo up
python3 -c '
import os, select, socket, struct, tempfile
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen()
def pair():
    c = socket.create_connection(l.getsockname()); c.setsockopt(6, 1, 1); return c, l.accept()[0]
def send(c, s, lengths):
    f = tempfile.TemporaryFile(); f.write(os.urandom(70000)); f.flush()
    for length in lengths:
        os.sendfile(c.fileno(), f.fileno(), 0, length) if length % 2 else c.send(os.pread(f.fileno(), length, 0))
        if s.recv(length, socket.MSG_WAITALL) != os.pread(f.fileno(), length, 0): print("differs at", length)
        p = select.poll(); p.register(c, select.POLLOUT)
        if not p.poll(20000): print("full at", length)
short = [1] * 300 + [2, 30, 31, 94, 95, 96, 97, 98, 1, 1023, 1024, 1025, 1, 1]
for order in short, [65535] + short + [65535, 65536] + short:
    c, s = pair(); send(c, s, order)
    c.shutdown(1); print(s.recv(5), s.send(b"end"), s.close(), c.recv(5), c.recv(5))
    c, s = pair(); send(c, s, order); s.setsockopt(1, 13, struct.pack("ii", 1, 0)); s.close()
    try: print(c.recv(5))
    except OSError as error: print(error.strerror)
    c, s = pair(); send(c, s, order); s.send(b"end"); s.shutdown(1); print(c.recv(5), c.recv(5), c.close(), s.recv(5))
'"#;
    let expected = "b'' 3 None b'end' b''\n\
        Connection reset by peer\n\
        b'end' b'' None b''\n"
        .repeat(2);
    prints(script, &expected);
}

/// All that was written before a close arrives, however much of it has left the pair by then.
#[test]
fn data_written_before_a_close_arrive() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"ip link set lo up
python3 -c '
import os, socket
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen()
for rounds in range(3):
    for lengths in [5], [5, 5], [5, 1024], [5, 1025], [90, 5, 1], [200, 5], [5, 70000], [5, 900, 900, 900], [70000, 1]:
        c = socket.create_connection(l.getsockname()); s = l.accept()[0]
        sent = [os.urandom(length) for length in lengths]
        for part in sent: c.send(part)
        c.close()
        got = b""
        while part := s.recv(1 << 20): got += part
        if got != b"".join(sent): print("differs", lengths, len(got))
        s.close()
print("done")
'"#;
    prints(script, "done\n");
}

/// Threads that accept from one listener get a connection each, and making sockets leaves the CPUs on which a program may run.
#[test]
fn threads_share_a_listener_and_keep_their_cpus() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"ip link set lo up
python3 -c '
import os, socket, threading
cpus = os.sched_getaffinity(0)
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(64)
got, kept = [], []
def serve():
    for turn in range(25):
        s = l.accept()[0]; got.append(s.recv(4)); s.close()
    kept.append(os.sched_getaffinity(0) == cpus)
threads = [threading.Thread(target=serve) for number in range(4)]
for thread in threads: thread.start()
for number in range(100):
    c = socket.create_connection(l.getsockname()); c.send(b"%03d" % number); c.close()
for thread in threads: thread.join()
print(sorted(got) == [b"%03d" % number for number in range(100)], kept, os.sched_getaffinity(0) == cpus)
'"#;
    prints(script, "True [True, True, True, True] True\n");
}

/// A listener is readable exactly while a connection waits that no call takes: calls that wait get theirs first, in several
/// threads, also when one of them has died or was interrupted.
#[test]
fn a_listener_is_readable_while_connections_wait() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"ip link set lo up
python3 -c '
import os, select, signal, socket, threading, time
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(64)
p = select.poll(); p.register(l, select.POLLIN); e = select.epoll(); e.register(l, select.EPOLLIN)
def readable(wait=0): return len(p.poll(wait)), len(e.poll(0))
def connect(): return socket.create_connection(l.getsockname())
got = []
def serve(count):
    for turn in range(count): got.append(l.accept()[0])
def start(calls, count=1):
    threads = [threading.Thread(target=serve, args=(count,)) for call in range(calls)]
    for thread in threads: thread.start()
    time.sleep(.2)
    return threads
def end(threads):
    for thread in threads: thread.join()
threads = start(2, 20); held = [connect() for number in range(40)]; end(threads)
print("all accepted", len(got), readable())
held.append(connect()); print("one more", readable(20000)); l.accept(); print("accepted", readable())
threads = start(2); held += [connect() for number in range(5)]; end(threads)
print("calls take", len(got), "others show", readable(20000))
for number in range(3): got.append(l.accept()[0])
print("accepted", readable())
l.setblocking(False)
try: l.accept()
except BlockingIOError: print("none")
l.setblocking(True)
child = os.fork()
if child == 0: l.accept(); os._exit(0)
time.sleep(.2); os.kill(child, signal.SIGKILL); os.waitpid(child, 0)
held.append(connect()); print("the caller is gone", readable(20000)); l.accept(); print("accepted", readable())
signal.signal(signal.SIGALRM, lambda *_: held.append(connect())); signal.setitimer(signal.ITIMER_REAL, .2)
l.accept(); print("accepted after a signal", readable())
'"#;
    let expected = "all accepted 40 (0, 0)
one more (1, 1)
accepted (0, 0)
calls take 42 others show (1, 1)
accepted (0, 0)
none
the caller is gone (1, 1)
accepted (0, 0)
accepted after a signal (0, 0)
";
    prints(script, expected);
}

/// Fast Open: the second connection of a program sends its data in the SYN, by `MSG_FASTOPEN` and by
/// `TCP_FASTOPEN_CONNECT`, and metrics are left for `ip tcp_metrics`.
#[test]
fn streams_open_fast() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"b sysctl -qw net.ipv4.tcp_fastopen=3
cd "$(mktemp -d)"; trap 'rm -r "$PWD"' EXIT
cat > server.py <<'PY'
import socket
s = socket.socket(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5)
s.bind(("10.0.1.2", 80)); s.listen()
while True:
    c = s.accept()[0]; data = c.recv(4096)
    while 99 < len(data) < 4000: data += c.recv(4096)
    c.sendall(data.upper()); c.close()
PY
cat > client.py <<'PY'
import socket
def syn_data(s): return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)[5] >> 5 & 1
for n in range(3):
    s = socket.socket()
    print(s.sendto(b"data%d" % n, socket.MSG_FASTOPEN, ("10.0.1.2", 80)), s.recv(9), syn_data(s)); s.close()
s = socket.socket(); s.setsockopt(socket.IPPROTO_TCP, 30, 1); s.connect(("10.0.1.2", 80))
print(s.send(b"later"), s.recv(9), syn_data(s)); s.close()
s = socket.socket(); s.setblocking(False)
print(s.sendto(b"nonblocking", socket.MSG_FASTOPEN, ("10.0.1.2", 80)))
s = socket.socket(); print(s.sendto(b"x" * 4000, socket.MSG_FASTOPEN, ("10.0.1.2", 80)), len(s.recv(4096, socket.MSG_WAITALL)))
try: print(socket.socket().sendto(b"refused", socket.MSG_FASTOPEN, ("10.0.1.2", 81)))
except OSError as error: print(error.errno)
PY
b python3 server.py & server=$!; ready 80
a python3 client.py
a ip tcp_metrics show 10.0.1.2 | grep -o 'fo_mss [0-9]*'
a ip tcp_metrics flush; a ip tcp_metrics show
kill $server"#;
    let expected = "5 b'DATA0' 0
5 b'DATA1' 1
5 b'DATA2' 1
5 b'LATER' 1
11
4000 4000
111
fo_mss 1460
";
    for user in users() {
        assert_eq!(virtually(*user, script), expected);
        assert_eq!(really(*user, script), expected);
    }
}

/// Prints what the calls of TCP sockets do, over IPv4 and IPv6: the handshake, data both ways, half-close, refusal, reset,
/// `accept` and `connect` without blocking, names, many connections at once.
const STREAMS: &str = r#"
cat > server.py <<'END'
import select, socket, threading
def serve(c):
    data = b""
    while chunk := c.recv(65536): data += chunk
    if data == b"reset": c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"); c.close(); return
    c.sendall(data.upper()); c.close()
listener = socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    c, peer = listener.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
END
cat > client.py <<'END'
import errno, os, select, socket, sys, tempfile
def tried(what):
    try: return what()
    except OSError as error: return errno.errorcode.get(error.errno, error)
for address in "10.0.1.2", "fd01::2":
    s = socket.create_connection((address, 80)); print(s.getpeername()[:2], s.getsockname()[0])
    for size in 0, 1, 5000, 300000:
        s = socket.create_connection((address, 80)); data = os.urandom(size // 4).hex().encode() * 2
        s.sendall(data); s.shutdown(socket.SHUT_WR)
        got = b""
        while chunk := s.recv(65536): got += chunk
        assert got == data.upper(), (len(got), len(data))
    s = socket.create_connection((address, 80)); s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    f = tempfile.TemporaryFile(); f.write(b"ab" * 400000); f.seek(0); s.sendfile(f); s.shutdown(socket.SHUT_WR)
    got = b""
    while chunk := s.recv(65536): got += chunk
    assert got == b"AB" * 400000, len(got)
    print("echoed", tried(lambda: socket.create_connection((address, 81))))
    s = socket.create_connection((address, 80)); s.sendall(b"reset"); s.shutdown(socket.SHUT_WR); print(tried(lambda: s.recv(1)))
    s = socket.socket(s.family); s.setblocking(False); print(tried(lambda: s.connect((address, 80))))
    p = select.poll(); p.register(s, select.POLLOUT); print([e for _, e in p.poll(5000)], s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    s.setblocking(True); s.send(b"x"); s.shutdown(socket.SHUT_WR); print(s.recv(9), s.recv(9))
    s = socket.socket(s.family); s.setblocking(False); s.connect_ex((address, 81))
    p = select.poll(); p.register(s, select.POLLOUT); print(p.poll(5000) != [], errno.errorcode[s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)])
    s = socket.socket(s.family); s.settimeout(0.5); print(tried(lambda: s.connect((address.replace("1.2", "1.99").replace("::2", "::99"), 80))))
many = [socket.create_connection(("10.0.1.2", 80)) for _ in range(100)]
for number, s in enumerate(many): s.sendall(b"number %d" % number); s.shutdown(socket.SHUT_WR)
assert [s.recv(99) for s in many] == [b"NUMBER %d" % number for number in range(100)]
print("many")
END
tc -n r qdisc add dev r0 root netem delay 2ms
b python3 server.py & server=$!
ready 80
a python3 client.py
kill $server"#;

#[test]
fn streams_connect_carry_and_end() {
    if !has("python3", "python3") {
        return;
    }
    let of = |address: &str, own: &str| {
        format!(
            "('{address}', 80) {own}\nechoed ECONNREFUSED\nECONNRESET\nEINPROGRESS\n[4] 0\nb'X' b''\nTrue ECONNREFUSED\ntimed out\n"
        )
    };
    let expected = of("10.0.1.2", "10.0.0.2") + &of("fd01::2", "fd00::2") + "many\n";
    for user in users() {
        assert_eq!(virtually(*user, STREAMS), expected, "{user:?}");
        assert_eq!(really(*user, STREAMS), expected, "{user:?}");
    }
}

/// A refused connection: what the calls return after it, as Linux 6.18 does.
#[test]
fn a_refused_stream_can_be_asked() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"a python3 -c '
import errno, select, socket, struct
def tried(what, *arguments):
    try: return what(*arguments)
    except OSError as error: return errno.errorcode.get(error.errno, error)
def names(s): return s.getsockname()[0], s.getsockname()[1] > 0, tried(s.getpeername)
def polled(s):
    p = select.poll(); p.register(s, 0x201f); return [hex(events) for _, events in p.poll(5000)]
def refused(family, address):
    s = socket.socket(family); s.setblocking(False); assert s.connect_ex(address) == errno.EINPROGRESS
    p = select.poll(); p.register(s, select.POLLOUT)
    while not any(events & select.POLLOUT for _, events in p.poll(5000)): pass
    return s
for family, address in (socket.AF_INET, ("10.0.1.2", 81)), (socket.AF_INET6, ("fd01::2", 81)):
    s = socket.socket(family)
    for _ in range(2): print(tried(s.connect, address), names(s))
    s = refused(family, address); print(polled(s), names(s), tried(s.connect, address), tried(s.connect, address))
    s = refused(family, address); print(s.getsockopt(1, 4), s.getsockopt(1, 4), polled(s), names(s))
    print(tried(s.setsockopt, 1, 13, struct.pack("ii", 1, 0)), s.recv(1), tried(s.send, b"x"), tried(s.connect, address))
'"#;
    let of = |any: &str, own: &str| {
        format!(
            "ECONNREFUSED ('{any}', True, 'ENOTCONN')\n\
             ECONNREFUSED ('{any}', True, 'ENOTCONN')\n\
             ['0x201d'] ('{own}', True, 'ENOTCONN') ECONNREFUSED ECONNABORTED\n\
             111 0 ['0x2015'] ('{own}', True, 'ENOTCONN')\n\
             None b'' EPIPE ECONNABORTED\n"
        )
    };
    let expected = of("0.0.0.0", "10.0.0.2") + &of("::", "fd00::2");
    prints(script, &expected);
}

/// The ring of a packet socket: right after `mmap` the descriptor is the socket, for an epoll and for another thread, and
/// one that was closed stays closed.
#[test]
fn a_descriptor_is_a_socket_after_its_ring_was_mapped() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"a python3 -c '
import ctypes, errno, os, select, socket, struct, threading
libc = ctypes.CDLL(None, use_errno=True); libc.mmap.restype = ctypes.c_long
def mapped():
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(263, 10, 1); s.setsockopt(263, 5, struct.pack("4I", 4096, 4, 2048, 8))
    return s, lambda: libc.mmap(None, ctypes.c_size_t(16384), 3, 1, s.fileno(), ctypes.c_long(0)) != -1
s, map = mapped(); e = select.epoll(); assert map(); e.register(s, select.EPOLLIN); print(e.poll(0), s.getsockname())
s, map = mapped(); go = threading.Event(); names = []
def name(): go.wait(); names.append(s.getsockname())
t = threading.Thread(target=name); t.start(); assert map(); go.set(); t.join(); print(names)
other = s; s, map = mapped(); number = s.fileno(); assert map(); os.close(s.detach()); other.getsockname()
try: os.fstat(number)
except OSError as error: print(errno.errorcode[error.errno])
'"#;
    let expected = "[] ('', 3, 0, 0, b'')\n[('', 3, 0, 0, b'')]\nEBADF\n";
    for user in users() {
        assert_eq!(really(*user, script), expected, "{user:?}");
    }
}

/// How streams end and begin where the pair does not show it of itself, and control messages without room, as on Linux
/// 6.18.
#[test]
fn ends_of_streams_and_cut_control_messages_are_those_of_linux() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"a python3 -c '
import errno, fcntl, select, socket, struct, termios, time
def tried(what, *arguments):
    try: return what(*arguments)
    except OSError as error: return errno.errorcode.get(error.errno, error)
def pair():
    l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen()
    c = socket.create_connection(l.getsockname()); return l, c, l.accept()[0]
def until(s, events):
    p = select.poll(); p.register(s, events); p.poll(20000)
def queued(s):
    return struct.unpack("i", fcntl.ioctl(s, termios.TIOCOUTQ, bytes(4)))[0]
s = socket.socket(); print("new", [tried(s.shutdown, how) for how in range(4)])
l, c, s = pair(); s.close(); until(c, select.POLLRDHUP); c.send(b"a"); until(c, select.POLLHUP)
print("reset", tried(c.send, b"b"), tried(c.send, b"c"), c.recv(5), tried(c.shutdown, 1))
l, c, s = pair(); c.shutdown(1); print("half", c.shutdown(1), s.recv(5), s.send(b"x"), c.recv(5)); s.shutdown(1); print(c.recv(5))
while tried(c.shutdown, 1) != "ENOTCONN": time.sleep(0.01)
l, c, s = pair(); c.sendall(b"data")
while queued(c): time.sleep(0.01)
print("sent", s.recv(5), tried(queued, l))
print("errors", tried(c.recvmsg, 5, 100, socket.MSG_ERRQUEUE), tried(c.recv, 5, socket.MSG_ERRQUEUE))
c = socket.socket(); c.setblocking(False); print("begun", tried(c.connect, l.getsockname())); until(c, select.POLLOUT)
print(*(tried(c.connect, l.getsockname()) for _ in range(2)))
c = socket.create_connection(l.getsockname()); print("blocking", tried(c.connect, l.getsockname()))
u = socket.socket(2, 2); u.bind(("127.0.0.1", 0)); u.setsockopt(0, socket.IP_TTL, 7); u.setsockopt(0, 12, 1); u.setsockopt(0, 8, 1)
for room in 100, 56, 54, 40, 31, 20, 16, 15:
    u.sendto(b"x", u.getsockname()); m = u.recvmsg(5, room)
    print(room, [(kind, len(data)) for _, kind, data in m[1]], m[2] & socket.MSG_CTRUNC)
'"#;
    let expected = "new ['ENOTCONN', 'ENOTCONN', 'ENOTCONN', 'EINVAL']\n\
        reset EPIPE EPIPE b'' ENOTCONN\n\
        half None b'' 1 b'x'\n\
        b''\n\
        sent b'data' EINVAL\n\
        errors EAGAIN EAGAIN\n\
        begun EINPROGRESS\n\
        None EISCONN\n\
        blocking EISCONN\n\
        100 [(8, 12), (2, 4)] 0\n\
        56 [(8, 12), (2, 4)] 0\n\
        54 [(8, 12), (2, 4)] 0\n\
        40 [(8, 12)] 8\n\
        31 [(8, 12)] 8\n\
        20 [(8, 4)] 8\n\
        16 [(8, 0)] 8\n\
        15 [] 8\n";
    prints(script, expected);
}

/// Programs that print how much each read has got print the same in every run.
#[test]
fn reads_get_the_same_in_every_run() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"tc -n r qdisc add dev r1 root netem delay 20ms
cat > reads.py << "END"
import select, socket, sys, time
if sys.argv[1] == "stream":
    l = socket.socket(); l.bind(("", 80)); l.listen()
    for _ in range(2):
        s = l.accept()[0]; counts = [len(s.recv(65536))]
        while counts[-1]: counts.append(len(s.recv(65536)))
        print(sum(counts), counts)
elif sys.argv[1] == "datagrams":
    u = socket.socket(2, 2); u.bind(("", 80)); u.setblocking(False); e = select.epoll(); e.register(u, 1); counts = []
    while sum(counts) < 60:
        e.poll(); counts.append(0)
        try:
            while True: u.recv(10); counts[-1] += 1
        except BlockingIOError: pass
    print(counts)
else:
    for _ in range(2):
        s = socket.create_connection(("10.0.1.2", 80)); s.sendall(bytes(300_000)); s.close(); time.sleep(1)
    u = socket.socket(2, 2); u.connect(("10.0.1.2", 80))
    for _ in range(6):
        for _ in range(10): u.send(b"x")
        time.sleep(0.1)
END
b python3 reads.py stream & b python3 reads.py datagrams & sleep 1; a python3 reads.py client; wait"#;
    for user in users() {
        let first = virtually(*user, script);
        assert!(first.contains("300000 ["), "{user:?}: {first}");
        assert!(
            first.ends_with("[10, 10, 10, 10, 10, 10]\n"),
            "{user:?}: {first}"
        );
        for _ in 0..2 {
            assert_eq!(virtually(*user, script), first, "{user:?}");
        }
    }
}

#[test]
fn a_download_is_the_same_to_the_byte_in_every_run() {
    if !has("curl", "curl") || !has("python3", "python3") {
        return;
    }
    for user in users() {
        let folder = Folder::new();
        let content: Vec<u8> = (0..2_000_000u32)
            .map(|n| (n.wrapping_mul(n) >> 7) as u8)
            .collect();
        std::fs::write(folder.file("big"), &content).unwrap();
        let script = chain::script(
            chain::CHAIN,
            Time::Virtual,
            &folder,
            "tc -n r qdisc add dev r0 root netem delay 5ms loss 1%
b python3 -m http.server 8000 > /dev/null 2>&1 & server=$!
ready 8000
a curl -s -m 600 http://10.0.1.2:8000/big | md5sum
kill $server",
        );
        let run = |number: u32| {
            let capture = folder.file(&format!("capture{number}"));
            let (printed, status) = script_with(*user, &["--capture-all", &capture], &script);
            assert_eq!(status, 0, "{user:?}: {printed}");
            (printed, std::fs::read(capture).unwrap())
        };
        let (first, second) = (run(1), run(2));
        let sum = output(std::process::Command::new("md5sum").arg(folder.file("big")));
        assert_eq!(
            first.0.split(' ').next(),
            text(&sum.stdout).split(' ').next()
        );
        assert!(first.1.len() > 4 * content.len());
        assert!(first == second, "{user:?}: two runs differ");
    }
}
