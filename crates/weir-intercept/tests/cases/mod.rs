// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The test cases: shell scripts with their expected output, and functions that kill processes.
#![allow(clippy::zombie_processes)] // A failed expectation ends the test program.
mod sockets;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time limit of a process: longer than any case takes on a busy machine, and shorter than the
/// sleeps of processes that must be killed.
const PATIENCE: Duration = Duration::from_secs(240);

/// A script run under `sh`, with its expected output.
struct Case {
    name: &'static str,
    /// Programs that the case needs. Without them it counts as skipped.
    needs: &'static [&'static str],
    script: &'static str,
    /// The exact standard output, except for surrounding white space.
    prints: &'static str,
    /// Parts of standard error.
    says: &'static [&'static str],
    code: i32,
}

const DEFAULT: Case = Case {
    name: "",
    needs: &[],
    script: "",
    prints: "",
    says: &[],
    code: 0,
};

const CASES: &[Case] = &[
    Case {
        name: "links",
        needs: &["ip"],
        script: "ip link add d0 type dummy && ip link set d0 up mtu 1400 && ip -br link
                 ip link set d0 txqueuelen 77 && ip link show d0 | grep -o 'qlen 77'
                 ip link set d0 name d1 && ip -br link show d1 | cut -d' ' -f1
                 ip link show nope; echo rc $?; ip link del d1; ip -br link | wc -l",
        prints: "lo 02:00:00:00:00:01 <LOOPBACK> \n\
                 d0 02:00:00:00:00:02 <NO-CARRIER,BROADCAST,MULTICAST,UP> \n\
                 qlen 77\nd1\nrc 1\n1",
        says: &["does not exist"],
        ..DEFAULT
    },
    Case {
        name: "netns",
        needs: &["ip"],
        script: "ip netns add foo; ip netns add bar; ip netns list; ip link add d0 type dummy
                 ip link set d0 netns foo; ip -n foo -br link | cut -d' ' -f1; ip -br link | wc -l
                 ip netns exec foo sh -c 'ip netns identify $$; ip netns identify'
                 ip netns identify; ip netns exec foo ip netns exec bar ip netns identify
                 ip netns exec foo sleep 1000 & until test \"$(ip netns pids foo)\" = $!; do sleep .05; done; echo pids
                 kill $!; wait $! 2>/dev/null; ip netns del foo; ip netns list; ls /run/netns
                 ip netns add bar; ip netns del nope; ip netns attach me $$; ip netns identify
                 test -e /run/netns/bar && echo exists; test -e /run/netns/foo || echo gone
                 ip netns set bar 3 && echo set; ip link set lo netns nope || echo refused",
        prints: "bar\nfoo\nlo\nd0\n1\nfoo\nfoo\n\nbar\npids\nbar\nbar\nme\nexists\ngone\nset\nrefused",
        says: &["Cannot create namespace file", "Cannot remove namespace file"],
        ..DEFAULT
    },
    Case {
        name: "unshare",
        needs: &["ip", "unshare"],
        script: "ip link add d0 type dummy; unshare -rn ip -br link | wc -l; unshare -n ip -br link | wc -l
                 unshare -rn sh -c 'ip link add x type dummy; unshare -n ip -br link | wc -l; ip -br link | wc -l'
                 unshare -nu true || echo refused; ip -br link | wc -l",
        prints: "1\n1\n1\n2\nrefused\n2",
        says: &["together with other namespaces is not served"],
        ..DEFAULT
    },
    Case {
        name: "netns-monitor",
        needs: &["ip", "stdbuf"],
        // Waits until its inotify watch exists before anything changes.
        script: "o=$(mktemp); ip netns add a; stdbuf -oL ip netns monitor > $o & m=$!
                 until grep -qs ^inotify /proc/$m/fdinfo/*; do sleep .05; done; ip netns add b; ip netns del a
                 until grep -q 'delete a' $o; do sleep .05; done; kill $m; cat $o; rm $o",
        prints: "add b\ndelete a",
        ..DEFAULT
    },
    Case {
        name: "move-by-pid",
        needs: &["ip"],
        script: "ip netns add foo; ip link add d0 type dummy
                 ip netns exec foo sleep 1000 & until test \"$(ip netns pids foo)\" = $!; do sleep .05; done
                 ip link set d0 netns $!
                 ip -n foo -br link show d0 | cut -d' ' -f1; kill $!",
        prints: "d0",
        ..DEFAULT
    },
    Case {
        name: "inheritance",
        needs: &["ip", "bash"],
        script: "ip netns add foo; ip netns add bar
                 ip netns exec foo bash -c '(while kill -0 $$; do sleep .05; done 2>/dev/null; ip netns identify) & exit 0' | cat
                 ip netns exec foo bash -c 'ip netns exec bar ip netns identify; ip netns identify'
                 ip netns exec bar bash -c 'bash -c \"bash -c \\\"ip netns identify\\\"\"'",
        prints: "foo\nbar\nfoo\nbar",
        ..DEFAULT
    },
    Case {
        name: "killed-parents",
        needs: &["ip", "bash"],
        script: "ip netns add foo
                 ip netns exec foo bash -c '(while kill -0 $$; do sleep .05; done 2>/dev/null; ip netns identify) & kill -9 $$' | cat",
        prints: "foo",
        ..DEFAULT
    },
    Case {
        name: "threads",
        needs: &["ip", "python3"],
        script: "ip netns add a; ip netns add b
                 exec python3 -c '
import ctypes, os, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
out = {}
def go(name):
    fd = os.open(\"/var/run/netns/\" + name, os.O_RDONLY)
    for i in range(3):
        assert libc.setns(fd, 0x40000000) == 0
        here = os.readlink(\"/proc/thread-self/ns/net\")
        assert here == \"net:[%d]\" % os.fstat(fd).st_ino, here
        out[name] = subprocess.check_output([\"ip\", \"netns\", \"identify\"]).decode().strip()
        assert out[name] == name, (name, out[name])
ts = [threading.Thread(target=go, args=(n,)) for n in \"ab\"]
[t.start() for t in ts]; [t.join() for t in ts]
print(sorted(out), repr(subprocess.check_output([\"ip\", \"netns\", \"identify\"]).decode()))
'",
        prints: "['a', 'b'] '\\n'",
        ..DEFAULT
    },
    Case {
        name: "sysctl",
        needs: &["sysctl"],
        script: "f=/proc/sys/net/ipv4/ip_forward; cat $f; sysctl -w net.ipv4.ip_forward=1; cat $f
                 echo 2 > $f; cat $f; echo bad > $f; echo rc $?; cat $f; echo 3 | tee $f; cat $f
                 /bin/echo 4 > $f; cat $f; printf 5 > $f; cat $f; sysctl -n net.ipv4.ip_forward
                 sysctl -w net.ipv4.ip_forward=x; echo rc $?; (echo 1 > /proc/sys/net/nope)
                 cat /proc/sys/net/core/nope; sysctl net.ipv4.nope; test -w $f && echo writable
                 ls /proc/sys/net /proc/sys/net/ipv4/conf; cd /proc/sys/net/ipv4; cat ip_forward
                 echo 6 > ip_forward; cat ./ip_forward; sysctl -a 2>/dev/null | grep ^net | sort",
        prints: "0\nnet.ipv4.ip_forward = 1\n1\n2\nrc 1\n2\n3\n3\n4\n5\n5\nrc 1\nwritable\n\
                 /proc/sys/net:\ncore\nipv4\nipv6\n\n/proc/sys/net/ipv4/conf:\nall\n5\n6\n\
                 net.core.somaxconn = 0\nnet.ipv4.conf.all.rp_filter = 0\nnet.ipv4.ip_forward = 6\n\
                 net.ipv6.conf.all.forwarding = 0",
        says: &["Invalid argument", "nope"],
        ..DEFAULT
    },
    Case {
        name: "sysctl-bash",
        needs: &["bash", "ip"],
        script: "exec bash -c 'f=/proc/sys/net/ipv4/ip_forward
                 echo 1 > $f && cat $f; echo x > $f || echo refused
                 exec 3> $f; echo 7 >&3; cat $f; echo 8 >&3; echo 9 >&3; ip link >/dev/null; cat $f
                 python3 -c \"import os; os.write(3, b\\\"y\\\"); os.write(3, b\\\"4\\\")\"; cat $f; ip netns add n; ip netns exec n cat $f
                 ip netns exec n bash -c \"echo 5 > $f\"; ip netns exec n cat $f; cat $f'",
        prints: "1\nrefused\n7\n9\n4\n0\n5\n4",
        says: &["write error: Invalid argument", "value 'y' refused"],
        ..DEFAULT
    },
    Case {
        name: "proc-files",
        needs: &["ip", "tc"],
        script: "cat /proc/net/psched /proc/self/net/dev; cat /proc/net/tcp; ls /proc/net/ /sys/class/net
                 tc qdisc show; ls /sys/class/net/eth0; stat -Lc %i /proc/self/ns/net /proc/$$/ns/net | uniq | wc -l
                 (cat < /dev/net/tun)",
        prints: "000003e8 00000040 000f4240 3b9aca00\n1 links\n/proc/net/:\ndev\npsched\n\n\
                 /sys/class/net:\n1",
        says: &["/proc/net/tcp: No such file", "eth0", "/dev/net/tun: Bad file descriptor"],
        code: 2,
    },
    Case {
        name: "nsfs",
        needs: &["ip", "python3", "lsns"],
        script: "ip netns add foo; rm -f /run/netns/foo; test -e /var/run/netns/foo && echo busy
                 stat -fc %T /proc/self/ns/net /run/netns/foo /var/run/netns/foo /run/netns | uniq -c
                 ip netns exec foo sleep 1000 & until test \"$(ip netns pids foo)\" = $!; do sleep .05; done
                 lsns -nt net -o NS | sort > $WEIR_STACK/list; for f in /proc/self/ns/net /run/netns/foo
                 do grep -c \" *$(stat -Lc %i $f)$\" $WEIR_STACK/list; done; rm $WEIR_STACK/list; kill $!
                 exec ip netns exec foo python3 -c '
import ctypes, errno, fcntl, os
libc = ctypes.CDLL(None, use_errno=True)
name = \"/proc/self/ns/net\"
for path in (name, \"/proc/thread-self/ns/net\", \"/run/netns/foo\", \"/proc/self/fd/3\"):
    fd = os.open(name if path.endswith(\"3\") else path, os.O_RDONLY)
    if path.endswith(\"3\"): os.dup2(fd, 3)
    words = (ctypes.c_long * 15)(); again = (ctypes.c_long * 15)()
    assert libc.statfs(path.encode(), words) == 0 and libc.fstatfs(fd, again) == 0 and list(words) == list(again)
    print([hex(w) for w in words if w], os.stat(path).st_ino == os.fstat(fd).st_ino == int(os.readlink(name)[5:-1]))
print(hex(fcntl.ioctl(fd, 0xb703)), os.fstat(fcntl.ioctl(fd, 0xb701)).st_ino == os.stat(\"/proc/self/ns/user\").st_ino)
for request in 0xb702, 0xb704:
    try: fcntl.ioctl(fd, request)
    except OSError as error: print(errno.errorcode[error.errno])
print(hex(fcntl.ioctl(os.open(\"/proc/self/ns/uts\", os.O_RDONLY), 0xb703)))
'",
        prints: "busy\n      3 nsfs\n      1 tmpfs\n1\n1\n\
                 ['0x6e736673', '0x1000', '0xff', '0x1000', '0x20'] True\n\
                 ['0x6e736673', '0x1000', '0xff', '0x1000', '0x20'] True\n\
                 ['0x6e736673', '0x1000', '0xff', '0x1000', '0x20'] True\n\
                 ['0x6e736673', '0x1000', '0xff', '0x1000', '0x20'] True\n\
                 0x40000000 True\nEINVAL\nEINVAL\n0x4000000",
        ..DEFAULT
    },
    Case {
        name: "refused-sockets",
        needs: &["python3"],
        script: "exec python3 -c '
import errno, socket
def tried(what):
    try: what(); print(\"worked\")
    except OSError as e: print(errno.errorcode[e.errno])
tried(lambda: socket.create_connection((\"127.0.0.1\", 1)))
tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried(lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
tried(lambda: u.sendto(b\"x\", (\"127.0.0.1\", 1)))
tried(lambda: u.setsockopt(0, 64, b\"x\" * 4))
tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16))
tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15))
import struct
for p in 6, 12:
    g = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, p); g.bind((0, 0)); g.send(struct.pack(\"IHHII\", 20, 16, 1, 7, 0) + b\"\\3\\1\\0\\0\")
    m, a = g.recvfrom(100, socket.MSG_DONTWAIT if p == 6 else 0); print(a, struct.unpack(\"i\", m[16:20]))
a, b = socket.socketpair(); a.send(b\"y\"); print(b.recv(1))
'",
        prints: "ECONNREFUSED\nEAFNOSUPPORT\nEAFNOSUPPORT\nENETUNREACH\nENOPROTOOPT\nworked\n\
                 EPROTONOSUPPORT\n(0, 0) (-95,)\n(0, 0) (-22,)\nb'y'",
        says: &[
            "weir: python3: XDP and vsock sockets are not served",
            "weir: python3: the stack has no tables of netfilter",
        ],
        ..DEFAULT
    },
    sockets::DATAGRAMS,
    sockets::STREAMS,
    Case {
        name: "ioctls",
        needs: &["python3"],
        script: "ip link add d0 type dummy; exec python3 -c '
import fcntl, socket, struct
print(socket.if_nametoindex(\"d0\"), socket.if_indextoname(2), socket.if_nameindex())
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def q(n, name=b\"d0\", rest=b\"\"): return fcntl.ioctl(s, n, (name.ljust(16, b\"\\0\") + rest).ljust(40, b\"\\0\"))[16:]
print(struct.unpack(\"i\", q(0x8921)[:4]), struct.unpack(\"i\", q(0x8942)[:4]), q(0x8927)[:8])
q(0x8922, rest=struct.pack(\"i\", 1300)); q(0x8914, rest=struct.pack(\"H\", 1)); print(struct.unpack(\"i\", q(0x8921)[:4]), hex(struct.unpack(\"H\", q(0x8913)[:2])[0]))
for n, name in ((0x8933, b\"nope\"), (0x8946, b\"d0\"), (0x8b01, b\"d0\"), (0x8915, b\"d0\")):
    try: q(n, name); print(\"worked\")
    except OSError as e: print(e.strerror)
'",
        prints: "2 d0 [(1, 'lo'), (2, 'd0')]\n(1500,) (1000,) b'\\x01\\x00\\x02\\x00\\x00\\x00\\x00\\x02'\n\
                 (1300,) 0x3\nNo such device\nBad address\nOperation not supported\n\
                 Cannot assign requested address",
        ..DEFAULT
    },
    Case {
        name: "busybox",
        needs: &["busybox", "ip"],
        script: "ip link add d0 type dummy; busybox ip link set d0 mtu 1234
                 busybox ip link | grep -o ' d0.*'; busybox ip addr | wc -l
                 busybox sh -c 'echo 3 > /proc/sys/net/ipv4/ip_forward'; cat /proc/sys/net/ipv4/ip_forward",
        prints: "d0: <BROADCAST,MULTICAST> mtu 1234 qdisc noop qlen 1000\n4\n3",
        ..DEFAULT
    },
    Case {
        name: "monitor",
        needs: &["ip"],
        // Waits until the monitor reports one change, then until it reports the last.
        script: "o=$(mktemp); ip monitor link > $o & m=$!; n=1300
                 until grep -q lo: $o; do n=$((n + 1)); ip link set lo mtu $n; sleep .05; done
                 ip link add d7 type dummy; ip link set d7 up; ip link set lo mtu 1300
                 until grep -q 'mtu 1300 ' $o; do sleep .05; done; kill $m; grep -c d7 $o; rm $o",
        prints: "2",
        ..DEFAULT
    },
    Case {
        name: "batches",
        needs: &["ip", "tc"],
        script: "for i in $(seq 300); do echo \"link add b$i type dummy\"; done | ip -b -; ip -br link | wc -l
                 for i in $(seq 2000); do echo \"filter add dev lo ingress flower\"; done | tc -b - && echo done
                 for i in 1 2 3 4 5 6 7 8; do ip link > /dev/null & done; wait; ip -n nope link; echo $?",
        prints: "301\ndone\n255",
        says: &["Cannot open network namespace"],
        ..DEFAULT
    },
    Case {
        name: "pyroute2",
        needs: &[PYROUTE2],
        script: concat!("ip netns add foo; exec ", env!("CARGO_MANIFEST_DIR"), "/../../target/venv/bin/python -c '
from pyroute2 import IPRoute, NetNS, netns
ip = IPRoute()
print([l.get_attr(\"IFLA_IFNAME\") for l in ip.get_links()])
ip.link(\"add\", ifname=\"p0\", kind=\"dummy\")
i = ip.link_lookup(ifname=\"p0\")[0]
ip.link(\"set\", index=i, state=\"up\")
print(i, ip.get_links(i)[0][\"flags\"] & 1)
ip.close()
print(sorted(netns.listnetns()))
n = NetNS(\"foo\"); print([l.get_attr(\"IFLA_IFNAME\") for l in n.get_links()]); n.close()
n = NetNS(\"new\"); n.link(\"add\", ifname=\"q0\", kind=\"dummy\"); print(len(n.get_links())); n.close()
print(sorted(netns.listnetns()))
'"),
        prints: "['lo']\n2 1\n['foo']\n['lo']\n2\n['foo', 'new']",
        ..DEFAULT
    },
    Case {
        name: "client-dies-in-a-dump",
        needs: &["python3", "ip"],
        script: "for i in $(seq 1500); do echo \"link add b$i type dummy\"; done | ip -b -
                 for i in 1 2 3; do python3 -c '
import os, socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
for i in range(20): s.send(struct.pack(\"IHHIIBBHiII\", 32, 18, 0x301, i, 0, 0, 0, 0, 0, 0, 0))
os.kill(os.getpid(), 9)
'; done 2>/dev/null; ip -br link | wc -l",
        prints: "1501",
        ..DEFAULT
    },
    Case {
        name: "denied-calls",
        needs: &["python3"],
        script: "exec python3 -c '
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(n, *a): return errno.errorcode.get(ctypes.get_errno()) if libc.syscall(n, *a) < 0 else 0
print(call(425, 1, 0), call(435, 0, 0), call(56, 0x40000000 | 17, 0, 0, 0, 0))
pid = os.fork()
if pid == 0: os._exit(3)
print(os.waitpid(pid, 0)[1] >> 8)
'",
        prints: "ENOSYS ENOSYS EPERM\n3",
        says: &["clone(CLONE_NEWNET) is not served"],
        ..DEFAULT
    },
    Case {
        name: "bad-pointers",
        needs: &["python3"],
        script: "exec python3 -c '
import ctypes, errno, random, socket
libc = ctypes.CDLL(None, use_errno=True)
keep = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0), socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
s, u = (k.fileno() for k in keep)
def call(n, *a): return errno.errorcode.get(ctypes.get_errno()) if libc.syscall(n, *map(ctypes.c_long, a)) < 0 else 0
print(call(49, s, 8, 12), call(51, s, 8, 8), call(54, s, 270, 1, 8, 4), call(54, s, 270, 1, 8, 1), call(54, s, 270, 99, id(keep), 4),
      call(45, s, 0, 0, 0x40, 8, 8), call(16, u, 0x8913, 8), call(16, u, 0x8912, 8), call(257, -100, 8, 0, 0), call(308, 99, 0x40000000),
      call(308, s, 0x40000000), call(165, 8, 8, 8, 0, 0), call(272, 0x40020000 | 0x4000000), call(41, 16, 5, 0), call(41, 16, 3, 3))
random.seed(1)
numbers = [0, 8, 1, 2, 3, s, u, 960, -1, -100, 12, 16, 270, 0x8913, 0x8933, 0x40000000, 1 << 40, 4096]
for i in range(20000):
    n = random.choice([41, 42, 44, 45, 49, 51, 52, 54, 55, 16, 257, 262, 332, 269, 437, 439, 165, 166, 263, 258, 254, 191, 192, 83, 87, 82, 20, 18])
    a = [random.choice(numbers) for _ in range(6)]
    if n in (41, 42, 49, 45) and a[0] in (0, 1, 2): continue
    if n in (18, 20, 16) and a[0] in (0, 1, 2): continue
    libc.syscall(n, *map(ctypes.c_long, a))
print(\"alive\")
'; ip -br link | wc -l",
        prints: "EFAULT EFAULT EFAULT EINVAL ENOPROTOOPT EFAULT EFAULT EFAULT EFAULT EBADF EINVAL EFAULT EPERM ESOCKTNOSUPPORT EPROTONOSUPPORT\nalive",
        says: &[],
        ..DEFAULT
    },
    Case {
        name: "unreaped",
        needs: &["ip", "python3"],
        script: "ip netns add z; python3 -c '
import os, subprocess
p = subprocess.Popen([\"ip\", \"netns\", \"exec\", \"z\", \"true\"])
os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
subprocess.run([\"ip\", \"netns\", \"del\", \"z\"])
d = \"$WEIR_TEST exec $WEIR_STACK/control --stat -- true 2>&1 | grep -o dropped.*\"
os.system(f\"until {d} | grep -F [1]; do sleep .05; done\")
'",
        prints: "dropped [1]",
        ..DEFAULT
    },
    Case {
        name: "crowd",
        needs: &["ip", "bash"],
        script: "exec bash -c 'for i in {1..60}; do (ip netns add n$i; ip netns exec n$i sh -c \"ip netns identify; ip link add l$i type dummy; ip -br link | wc -l\"
                 ip netns del n$i) & done | sort | uniq -c | wc -l; wait; ip netns list | wc -l'",
        prints: "61\n0",
        ..DEFAULT
    },
    Case {
        name: "lifetime",
        needs: &["ip", "unshare"],
        script: "d() { $WEIR_TEST exec $WEIR_STACK/control --stat -- true 2>&1 | grep -o 'dropped.*'; }
                 until_is() { until d | grep -F \"[$1]\"; do sleep .05; done; }
                 ip netns add one; ip netns add two; ip netns del one; until_is 1
                 ip netns exec two sleep 1000 & until test \"$(ip netns pids two)\" = $!; do sleep .05; done
                 ip netns del two; d; kill $!; until_is 1,2
                 unshare -n true; until_is 1,2,3; ip netns add four; exec 5< /run/netns/four; ip netns del four
                 d; exec 5<&-; until_is 1,2,3,4",
        prints: "dropped [1]\ndropped [1]\ndropped [1,2]\ndropped [1,2,3]\ndropped [1,2,3]\ndropped [1,2,3,4]",
        ..DEFAULT
    },
    Case {
        name: "last-user",
        needs: &["ip"],
        script: "d() { $WEIR_TEST exec $WEIR_STACK/control --stat -- true 2>&1 | grep -o 'dropped.*'; }
                 until_is() { until d | grep -F \"[$1]\"; do sleep .05; done; }
                 ip netns add many; for n in 1 2 3; do ip netns exec many sleep 1000 & all=\"$all $!\"; done
                 child=$(ip netns exec many sh -c 'sleep 1000 >/dev/null & echo $!')
                 until test $(ip netns pids many | wc -l) = 4; do sleep .05; done
                 ip netns del many; for one in $all; do d; kill $one; wait $one; done; d; kill $child; until_is 1",
        prints: "dropped []\ndropped []\ndropped []\ndropped []\ndropped [1]",
        ..DEFAULT
    },
    Case {
        name: "nested",
        needs: &["ip"],
        script: "ip link add n0 type dummy; c=$WEIR_STACK/control; ip netns add x
                 $WEIR_TEST exec $c -- ip -br link show n0 | cut -d' ' -f1
                 $WEIR_TEST exec $c --netns 1 -- ip netns identify; $WEIR_TEST exec $c -- sh -c 'exit 9'; echo $?
                 $WEIR_TEST host -- true; echo $?",
        prints: "n0\nx\n9\n125",
        says: &["already inside the stack"],
        ..DEFAULT
    },
    Case {
        name: "exit-code",
        script: "exit 7",
        code: 7,
        ..DEFAULT
    },
    Case {
        name: "ended-by-signal",
        script: "kill -KILL $$",
        code: 137,
        ..DEFAULT
    },
    Case {
        name: "leftovers-are-ended",
        script: "(trap '' TERM; sleep 1000) & sleep 1000 & echo started",
        prints: "started",
        ..DEFAULT
    },
];

/// The user and the mode of a run.
#[derive(Clone, Copy)]
struct Way {
    nobody: bool,
    mode: &'static str,
}

const NOBODY: u32 = 65534;

impl Way {
    fn name(self) -> String {
        let user = if self.nobody { "nobody" } else { "self" };
        format!("{user}/{}", self.mode)
    }

    /// Returns whether the machine supports this way, tested with `unshare`. In many containers no
    /// mount namespace may be created. Mode U then does not exist and mode A replaces it, so it
    /// does not count as skipped.
    fn is_here(self) -> bool {
        let tries: &[&[&str]] = match (self.mode, self.nobody) {
            ("U", true) => &[&["-Urm", "true"]],
            ("U", false) => &[&["-m", "true"], &["-Urm", "true"]],
            _ => return true,
        };
        let here = tries.iter().any(|words| {
            let mut unshare = Command::new("unshare");
            unshare.args(*words).current_dir("/").stderr(Stdio::null());
            if self.nobody {
                unshare.uid(NOBODY).gid(NOBODY);
            }
            // Without `unshare` nothing is known, so the cases run.
            unshare.status().map_or(true, |status| status.success())
        });
        if !here {
            let name = self.name();
            println!("not run as {name}: no mount namespace may be created here");
        }
        here
    }

    /// Returns a command that runs this program again as the user of this way.
    fn command(self, words: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(words).current_dir("/").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_remove("XDG_RUNTIME_DIR").env("LC_ALL", "C");
        if self.nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

/// A Python with pyroute2, which `ci/setup test` installs.
const PYROUTE2: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/venv/bin/python");

/// Runs the cases whose name contains `only` and returns the exit code.
pub fn run_all(only: Option<&str>) -> i32 {
    let root = is_root();
    let ways: Vec<Way> = [(false, "U"), (false, "A"), (true, "U"), (true, "A")]
        .into_iter()
        .filter(|&(nobody, _)| root || !nobody)
        .map(|(nobody, mode)| Way { nobody, mode })
        .filter(|way| way.is_here())
        .collect();
    let before = host_state();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut report = |name: &str, way: &str, result: Result<(), String>| match result {
        Ok(()) => passed += 1,
        Err(text) if text.starts_with("skipped") => {
            skipped += 1;
            println!("{name} ({way}): {}", text.replacen("skipped", "SKIPPED", 1));
        }
        Err(text) => {
            failed += 1;
            println!("{name} ({way}): FAILED\n{text}");
        }
    };
    let wanted = |name: &str| only.is_none_or(|only| name.contains(only));
    for way in &ways {
        for case in CASES.iter().filter(|c| wanted(c.name)) {
            report(case.name, &way.name(), run_case(case, *way));
        }
        for (name, test) in PROCESSES.iter().filter(|(name, _)| wanted(name)) {
            report(name, &way.name(), test(*way));
        }
    }
    let same = host_state() == before;
    report(
        "host-untouched",
        "all",
        same.then_some(()).ok_or_else(|| "the host changed".into()),
    );
    drop(std::fs::remove_dir_all(
        std::env::temp_dir().join(format!("weir-clients-{}", std::process::id())),
    ));
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    let all = std::env::var("WEIR_REQUIRE_ALL").as_deref() == Ok("1");
    i32::from(failed > 0 || all && skipped > 0)
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Collects the state of the host that the cases must not change.
fn host_state() -> String {
    let mut state = String::new();
    for path in [
        "/proc/net/dev_mcast",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/self/mounts",
    ] {
        let _ = write!(state, "{:?}", std::fs::read_to_string(path).ok());
    }
    // Other entries of /run may change at any time.
    let netns = Path::new("/run/netns").exists();
    let _ = write!(state, "{netns}");
    for path in ["/run/netns", "/sys/class/net"] {
        let names = std::fs::read_dir(path).map(|d| {
            let mut names: Vec<_> = d.flatten().map(|e| e.file_name()).collect();
            names.sort();
            names
        });
        let _ = write!(state, "{:?}", names.ok());
    }
    state
}

fn has(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).exists();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').any(|d| Path::new(d).join(program).exists())
}

fn squeeze(text: &str) -> String {
    text.lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n")
        .trim()
        .to_string()
}

fn run_case(case: &Case, way: Way) -> Result<(), String> {
    if let Some(missing) = case.needs.iter().find(|p| !has(p)) {
        return Err(format!("skipped: no {missing}"));
    }
    let mut command = way.command(&["host", "--mode", way.mode, "--", "sh", "-c", case.script]);
    // pyenv's shims do not run for every user, so the system's Python is used.
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let out = drain(child.stdout.take());
    let err = drain(child.stderr.take());
    let code = finish(&mut child)?;
    let (out, err) = (out.join().unwrap(), err.join().unwrap());
    let mut wrong = String::new();
    if squeeze(&out) != squeeze(case.prints) {
        let _ = writeln!(
            wrong,
            "--- printed\n{}\n--- wanted\n{}",
            squeeze(&out),
            squeeze(case.prints)
        );
    }
    if code != case.code {
        let _ = writeln!(wrong, "--- code {code}, wanted {}", case.code);
    }
    for part in case.says {
        if !err.contains(part) {
            let _ = writeln!(wrong, "--- not said: {part}");
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{wrong}--- standard error\n{err}"))
    }
}

fn drain(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            from.read_to_end(&mut bytes).unwrap();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the exit code. Kills a process that does not end, and reports that as the failure.
fn finish(child: &mut Child) -> Result<i32, String> {
    use std::os::unix::process::ExitStatusExt;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            return Ok(status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    Err("did not end".into())
}

type Test = fn(Way) -> Result<(), String>;

/// A client to build: its name, the command (run in `tests/clients`; `$OUT` is the result) and its
/// expected output.
const CLIENTS: &[(&str, &str, &str)] = &[
    (
        "libmnl",
        "cc -o $OUT libmnl.c -lmnl",
        "port pid links 1 result 0 error No such device",
    ),
    (
        "libnl",
        "cc -I/usr/include/libnl3 -o $OUT libnl.c -lnl-3 -lnl-route-3",
        "links 1 add Success again Object exists events 1",
    ),
    (
        "static",
        "cc -static -o $OUT ifaddrs.c",
        "interfaces 1 first lo index 1 name lo",
    ),
    (
        "go",
        // Built by `ci/setup test`, or from Go modules on this machine.
        "cp ../../../../target/clients/go-intercept $OUT || \
         { cd go && GOFLAGS=-mod=readonly GOPROXY=off go build -o $OUT .; }",
        "event go0\nlinks 2 mtu 1300\ndone",
    ),
];

/// Builds the clients once for all ways and runs them. Clients that cannot be built here are
/// skipped.
fn clients(way: Way) -> Result<(), String> {
    let directory = std::env::temp_dir().join(format!("weir-clients-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let mut skipped = Vec::new();
    for &(name, build, prints) in CLIENTS {
        let program = directory.join(name);
        if !program.exists() {
            let built = Command::new("sh")
                .args(["-c", build])
                .current_dir(&sources)
                .env("OUT", &program)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if !built.is_ok_and(|s| s.success()) {
                skipped.push(name);
                continue;
            }
        }
        let path = program.display().to_string();
        let mut child = way
            .command(&["host", "--mode", way.mode, "--", &path])
            .spawn()
            .unwrap();
        let out = drain(child.stdout.take());
        let err = drain(child.stderr.take());
        let code = finish(&mut child)?;
        let (out, err) = (out.join().unwrap(), err.join().unwrap());
        if code != 0 || squeeze(&out) != prints {
            return Err(format!("{name}: code {code}\n{out}{err}"));
        }
    }
    if skipped.is_empty() {
        Ok(())
    } else {
        Err(format!("skipped: cannot build {}", skipped.join(", ")))
    }
}

/// Cases about the processes themselves.
const PROCESSES: &[(&str, Test)] = &[
    ("no-such-program", no_such_program),
    ("signals-are-forwarded", signals_are_forwarded),
    ("supervisor-killed", supervisor_killed),
    ("daemon-killed", daemon_killed),
    ("two-launches-share-a-stack", two_launches),
    ("second-daemon", second_daemon),
    ("falls-back-to-traps", falls_back),
    ("clients", clients),
];

fn expect(
    what: &str,
    is: impl PartialEq + std::fmt::Debug,
    wanted: impl std::fmt::Debug,
) -> Result<(), String> {
    let (is, wanted) = (format!("{is:?}"), format!("{wanted:?}"));
    if is == wanted {
        Ok(())
    } else {
        Err(format!("{what}: {is}, wanted {wanted}"))
    }
}

fn no_such_program(way: Way) -> Result<(), String> {
    for (program, code) in [
        ("/nonexistent", 127),
        ("no-such-program", 127),
        ("/etc/passwd", 126),
    ] {
        let mut child = way
            .command(&["host", "--mode", way.mode, "--", program])
            .spawn()
            .unwrap();
        expect(program, finish(&mut child)?, code)?;
    }
    Ok(())
}

fn line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line.trim().to_string()
}

fn kill(pid: u32, signal: &str) {
    Command::new("kill")
        .args([signal, &pid.to_string()])
        .status()
        .unwrap();
}

fn signals_are_forwarded(way: Way) -> Result<(), String> {
    for signal in ["TERM", "INT", "HUP"] {
        let script =
            format!("trap 'echo got; exit 3' {signal}; echo ready; while :; do sleep .05; done");
        let mut child = way
            .command(&[
                "host",
                "--mode",
                way.mode,
                "--",
                // A shell cannot trap a signal that was ignored when it started, as in a background
                // job.
                "env",
                "--default-signal",
                "sh",
                "-c",
                &script,
            ])
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        expect("first line", line(&mut out), "ready")?;
        kill(child.id(), &format!("-{signal}"));
        expect(signal, finish(&mut child)?, 3)?;
        expect("second line", line(&mut out), "got")?;
    }
    Ok(())
}

fn alive(pid: &str) -> bool {
    // A zombie counts as dead.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z "))
}

fn supervisor_killed(way: Way) -> Result<(), String> {
    let script = "sleep 1000 & echo $! $$; ip link >/dev/null; sleep 1000; echo survived";
    let mut child = way
        .command(&["host", "--mode", way.mode, "--", "sh", "-c", script])
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let pids = line(&mut out);
    child.kill().unwrap();
    child.wait().unwrap();
    let end = Instant::now() + PATIENCE;
    while pids.split(' ').any(alive) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    expect("programs left", pids.split(' ').any(alive), false)?;
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    expect("told", err.contains("the supervisor of sh died"), true)
}

/// Root without capabilities, as in a container, can neither mount nor write id maps, so mode A is
/// chosen.
fn falls_back(way: Way) -> Result<(), String> {
    if !is_root() || way.nobody || way.mode != "A" || !has("setpriv") || !has("ip") {
        return Ok(());
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set=-all", "--inh-caps=-all"])
        .arg(std::env::current_exe().unwrap())
        .args(["host", "--stat", "--", "sh", "-c"])
        .arg("ip netns add y; ip netns exec y ip netns identify")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let out = drain(child.stdout.take());
    let err = drain(child.stderr.take());
    finish(&mut child)?;
    expect("printed", squeeze(&out.join().unwrap()), "y")?;
    let err = err.join().unwrap();
    expect("mode", err.contains("PathTraps"), true).map_err(|e| format!("{e}\n{err}"))
}

/// A stack behind a control socket.
struct Up {
    child: Child,
    path: String,
    directory: PathBuf,
}

impl Up {
    fn start(way: Way) -> Result<Up, String> {
        let directory = std::env::temp_dir().join(format!(
            "weir-test-{}-{}",
            std::process::id(),
            way.name().replace('/', "-")
        ));
        std::fs::create_dir_all(&directory).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&directory, open).unwrap();
        let path = directory.join("socket").display().to_string();
        let mut child = way.command(&["up", &path]).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        expect("daemon", line(&mut out), "up")?;
        Ok(Up {
            child,
            path,
            directory,
        })
    }

    fn exec(&self, way: Way, script: &str) -> Child {
        way.command(&[
            "exec", &self.path, "--mode", way.mode, "--", "sh", "-c", script,
        ])
        .spawn()
        .unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn daemon_killed(way: Way) -> Result<(), String> {
    let mut up = Up::start(way)?;
    let script = "ip monitor link & m=$!; ip link >/dev/null && echo ready; read x < $0
                  ip link; echo $?; cat /proc/sys/net/ipv4/ip_forward; wait $m; echo $?";
    let fifo = up.directory.join("fifo").display().to_string();
    Command::new("mkfifo").arg(&fifo).status().unwrap();
    Command::new("chmod").args(["666", &fifo]).status().unwrap();
    let mut child = up.exec(way, &script.replace("$0", &fifo));
    let mut out = BufReader::new(child.stdout.take().unwrap());
    expect("first line", line(&mut out), "ready")?;
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    std::fs::write(&fifo, "go\n").unwrap();
    let err = drain(child.stderr.take());
    finish(&mut child)?;
    expect("ip's code", line(&mut out), "1")?;
    let err = err.join().unwrap();
    expect("told", err.contains("is gone"), true).map_err(|e| format!("{e}\n{err}"))?;
    expect("read", err.contains("Connection refused"), true).map_err(|e| format!("{e}\n{err}"))
}

fn two_launches(way: Way) -> Result<(), String> {
    let up = Up::start(way)?;
    // Each script waits for the other to reach its point.
    let script = "ip netns add shared; ip link add s0 type dummy; ip link set s0 netns shared
                  sysctl -qw net.core.somaxconn=5; ip netns exec shared sleep 1000 & echo $!
                  until test \"$(ip netns pids shared)\" = $!; do sleep .05; done; echo there
                  wait; true";
    let mut first = up.exec(way, script);
    let mut out = BufReader::new(first.stdout.take().unwrap());
    let sleeper = line(&mut out);
    expect("first", line(&mut out), "there")?;
    let script = "ip netns list; ip -n shared -br link show s0; cat /proc/sys/net/core/somaxconn
                  ip netns pids shared; ip netns del shared; ip netns list; kill SLEEPER";
    let script = script.replace("SLEEPER", &sleeper);
    let mut second = up.exec(way, &script);
    let text = drain(second.stdout.take());
    expect("second", finish(&mut second)?, 0)?;
    let text = text.join().unwrap();
    expect(
        "second",
        squeeze(&text),
        format!("shared\ns0 02:00:00:00:00:02 <BROADCAST,MULTICAST>\n5\n{sleeper}"),
    )?;
    expect("first", finish(&mut first)?, 0)
}

fn second_daemon(way: Way) -> Result<(), String> {
    let up = Up::start(way)?;
    let mut second = way.command(&["up", &up.path]).spawn().unwrap();
    expect("second daemon", finish(&mut second)?, 1)?;
    let script = "echo served";
    let mut child = up.exec(way, script);
    expect("first serves", finish(&mut child)?, 0)?;
    let path = up.path.clone();
    // The third daemon replaces the socket of a dead one.
    let mut up = up;
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    let mut third = way.command(&["up", &path]).spawn().unwrap();
    let mut out = BufReader::new(third.stdout.take().unwrap());
    let said = line(&mut out);
    third.kill().unwrap();
    third.wait().unwrap();
    expect("third daemon", said, "up")
}
