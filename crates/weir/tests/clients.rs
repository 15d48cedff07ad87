// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients other than iproute2: libmnl, libnl-3, a static busybox, Go with vishvananda/netlink,
//! pyroute2 (its pytest example is in `examples.rs`), and libc's own requests.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Folder, go_program, has, script_with, users, works};

/// Compiles a C client of `tests/clients`.
#[track_caller]
fn compile(folder: &Folder, name: &str, libraries: &[&str]) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let program = folder.file(name);
    let status = Command::new("cc")
        .args(["-Wall", "-Werror", "-I/usr/include/libnl3", "-o", &program])
        .arg(source.join(format!("{name}.c")))
        .args(libraries)
        .status()
        .unwrap();
    assert!(status.success(), "{name}.c does not compile");
    program
}

#[test]
fn libmnl() {
    if !has("/usr/include/libmnl/libmnl.h", "libmnl-dev") {
        return;
    }
    let folder = Folder::new();
    let program = compile(&folder, "mnl", &["-lmnl"]);
    for user in users() {
        assert_eq!(
            works(*user, &program),
            "made once: File exists\nlink 1 lo mtu 65536\nlink 2 mnl0 mtu 1234\n\
             unknown type: Operation not supported\nnotified\n"
        );
    }
}

/// The answers of Linux 6.1 to `tests/clients/psample.py`.
const PSAMPLE: &str = "\
nosuch: 2 No such file or directory
psample version 1 groups ['config', 'packets']
$ tc filter add dev d0 ingress matchall action sample rate 1 group 5 trunc 20
$ tc filter add dev d0 egress matchall action sample rate 1 group 6
heard command 2 group 5 refs 0 seq 0
heard command 2 group 6 refs 0 seq 0
dump command 2 group 5 refs 1 seq 0
dump command 2 group 6 refs 1 seq 0
heard command 0 iif 3 rate 1 size 42 group 5 seq 0 time ... proto 2054 data ffffffffffff0200000000010806000108000604
heard command 0 iif 3 rate 1 size 42 group 5 seq 1 time ... proto 2048 data 02000000000902000000000108004500001c0000
$ tc filter del dev d0 ingress
heard command 3 group 5 refs 0 seq 2
";

#[test]
fn generic_netlink_reads_samples() {
    if !has("python3", "python3") {
        return;
    }
    // An ARP request, and a UDP packet with a VLAN tag, which the sample does not contain.
    let frames = [
        "ffffffffffff0200000000010806000108000604000102000000\
         0001c0000201000000000000c0000209",
        "020000000009020000000001810000050800\
         4500001c0000000040110000c0000201c633640910e1003500080000",
    ];
    let bytes = |hex: &str| -> Vec<u8> {
        let octet = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(octet).collect()
    };
    let mut capture = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65535, 1]
        .map(u32::to_ne_bytes)
        .concat();
    for frame in frames.map(bytes) {
        let len = frame.len() as u32;
        capture.extend([1_700_000_000, 0, len, len].map(u32::to_ne_bytes).concat());
        capture.extend(frame);
    }
    let folder = Folder::new();
    let file = folder.file("in.pcap");
    std::fs::write(&file, capture).unwrap();
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/psample.py");
    let source = std::fs::read_to_string(client).unwrap();
    let program = folder.file("psample.py");
    std::fs::write(&program, source).unwrap();
    for user in users() {
        let input = format!("d0={file}");
        let script = format!("python3 {program} {}", frames.join(" "));
        let (printed, status) = script_with(*user, &["--in", &input], &script);
        assert_eq!((printed.as_str(), status), (PSAMPLE, 0));
    }
}

#[test]
fn libnl3() {
    if !has(
        "/usr/include/libnl3/netlink/route/link.h",
        "libnl-route-3-dev",
    ) {
        return;
    }
    let folder = Folder::new();
    let program = compile(&folder, "nl3", &["-lnl-route-3", "-lnl-3"]);
    for user in users() {
        assert_eq!(
            works(*user, &program),
            "address again: Object exists\nlinks 3, IPv4 routes 4\nevents 1\n\
             delete of none: No such device\n"
        );
    }
}

#[test]
fn static_busybox() {
    if !has("busybox", "busybox-static") {
        return;
    }
    for user in users() {
        let printed = works(
            *user,
            "set -e
            busybox ip link add d0 type dummy
            busybox ip link set d0 up
            busybox ip addr add 10.0.0.1/24 dev d0
            busybox ip route add 10.1.0.0/16 via 10.0.0.2
            busybox ip route
            busybox ip neigh
            busybox ip -o addr show dev d0 | busybox awk '/inet /{print $4}'
            busybox ifconfig d0 | busybox grep -o 'inet addr:[0-9.]*'
            busybox route -n | busybox grep -c ^10
            busybox netstat -rn | busybox grep -c ^10
            busybox arp -n",
        );
        assert!(
            printed.starts_with(
                "10.0.0.0/24 dev d0 scope link  src 10.0.0.1 \n10.1.0.0/16 via 10.0.0.2 dev d0 \n10.0.0.1/24\n"
            ) && printed.ends_with("inet addr:10.0.0.1\n2\n2\n"),
            "{printed}"
        );
    }
}

#[test]
fn modules_of_served_kinds() {
    if !has("modprobe", "kmod") {
        return;
    }
    for user in users() {
        let printed = works(
            *user,
            "for module in dummy 8021q sch_htb sch-cake cls_u32 act_mirred 'ifb numifbs=2'; do
                modprobe $module || echo \"$module: $?\"
            done
            modprobe -q team && echo team
            modprobe nf_conntrack 2>&1 | cut -d' ' -f 1-6
            lsmod | grep ^ifb
            grep ^vxlan /proc/modules
            cat /sys/module/sch_ingress/initstate
            modprobe -r dummy
            ip -br link | cut -d' ' -f1",
        );
        assert_eq!(
            printed,
            "modprobe: FATAL: Module nf_conntrack not found\n\
             ifb                    16384  0\n\
             vxlan 16384 0 - Live 0x0000000000000000\n\
             live\n\
             modprobe: FATAL: Module dummy is builtin.\n\
             lo\n",
            "{user:?}"
        );
    }
}

/// Runs `tests/clients/nonblocking.py`; Linux 6.1 prints the same.
#[test]
fn a_client_that_does_not_wait_finds_the_answer() {
    if !has("python3", "python3") {
        return;
    }
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/nonblocking.py");
    let source = std::fs::read_to_string(client).unwrap();
    let folder = Folder::new();
    let program = folder.file("nonblocking.py");
    std::fs::write(&program, source).unwrap();
    let mut expected = String::new();
    for how in ["SOCK_NONBLOCK", "fcntl", "ioctl"] {
        for send in ["send", "sendto", "sendmsg", "write", "writev"] {
            expected += &format!("{how} {send} recv 0\n");
        }
        expected += &format!("{how} recvmsg 0\nEAGAIN\n");
    }
    for look in ["poll", "epoll", "select"] {
        expected += &format!("waiting socket {look} 0\n");
    }
    expected += "MSG_DONTWAIT recv 0\nMSG_DONTWAIT recvmsg 0\nroutes 20000 True\n";
    for user in users() {
        let printed = works(
            *user,
            &format!(
                "ip link add d0 type dummy
                ip link set d0 up
                for i in {{0..79}}; do
                    for j in {{0..249}}; do echo route add 10.$i.$j.0/24 dev d0; done
                done | ip -b -
                python3 {program}"
            ),
        );
        assert_eq!(printed, expected);
    }
}

#[test]
fn go_with_vishvananda_netlink() {
    let Some(program) = go_program("go", "go-netlink") else {
        return;
    };
    for user in users() {
        assert_eq!(
            works(*user, &program),
            "four namespaces on threads of their own, 200 links made and deleted by 8 goroutines\n\
             a veth pair, its peer moved\nclsact with a flower filter\n\
             lo device *netlink.Device\nveth0 veth *netlink.Veth\ntype0 dummy *netlink.Dummy\n\
             type1 vlan 5 true\ntype2 vxlan 7 4789\ntype3 ifb *netlink.Ifb\ntold by the subscription\n"
        );
    }
}

const PYROUTE2: &str = r#"
import errno, os, threading
from pyroute2 import IPRoute, NetNS, NetlinkError, netns
with IPRoute() as ipr:
    ipr.bind()
    ipr.link("add", ifname="d0", kind="dummy")
    index = ipr.link_lookup(ifname="d0")[0]
    ipr.link("set", index=index, state="up", mtu=1400)
    ipr.addr("add", index=index, address="10.0.0.1", prefixlen=24)
    ipr.route("add", dst="10.1.0.0/16", gateway="10.0.0.2")
    ipr.rule("add", table=100, src="10.2.0.0/16")
    ipr.neigh("add", dst="10.0.0.9", lladdr="02:00:00:00:00:09", ifindex=index)
    try:
        ipr.link("add", ifname="d0", kind="dummy")
    except NetlinkError as error:
        print("again:", errno.errorcode[error.code])
    print([link.get_attr("IFLA_IFNAME") for link in ipr.get_links()])
    seen = []
    while "RTM_NEWNEIGH" not in seen:
        for message in ipr.get():
            if message["event"] not in seen:
                seen.append(message["event"])
    print(sorted(event for event in seen if event in ("RTM_NEWADDR", "RTM_NEWLINK", "RTM_NEWNEIGH", "RTM_NEWROUTE")))
netns.create("py")
with NetNS("py") as ns:
    ns.link("add", ifname="v0", kind="veth", peer="v1")
    print(len(ns.get_links()))
netns.remove("py")
results = []
def work(n):
    with IPRoute() as ipr:
        for i in range(10):
            ipr.link("add", ifname=f"t{n}x{i}", kind="dummy")
        results.append(len(ipr.link_lookup(kind="dummy")))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(results), max(results))
"#;

#[test]
fn pyroute2() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv/bin/python");
    if !has(python.to_str().unwrap(), "python3-venv") {
        return;
    }
    let folder = Folder::new();
    let file = folder.file("client.py");
    std::fs::write(&file, PYROUTE2).unwrap();
    for user in users() {
        assert_eq!(
            works(*user, &format!("{} {file}", python.display())),
            "again: EEXIST\n['lo', 'd0']\n\
             ['RTM_NEWADDR', 'RTM_NEWLINK', 'RTM_NEWNEIGH', 'RTM_NEWROUTE']\n3\n4 41\n"
        );
    }
}

/// Runs `getifaddrs` and `if_nametoindex`, and reads `/proc/net`, as Python's libc does.
#[test]
fn libc_reads_interfaces_and_proc_net() {
    if !has("python3", "python3") {
        return;
    }
    for user in users() {
        let printed = works(
            *user,
            r#"ip link add d0 address 02:00:00:00:00:01 type dummy
            ip link set d0 up
            python3 - <<'X'
import ctypes, socket
print(socket.if_nameindex(), socket.if_nametoindex("d0"), socket.if_indextoname(2))
try:
    socket.if_nametoindex("nosuch")
except OSError:
    print("no nosuch")
head = ctypes.c_void_p()
print(ctypes.CDLL(None).getifaddrs(ctypes.byref(head)), bool(head))
print(open("/sys/class/net/d0/address").read().strip())
X
            grep -c d0 /proc/net/dev; ls /sys/class/net"#,
        );
        assert_eq!(
            printed,
            "[(1, 'lo'), (2, 'd0')] 2 d0\nno nosuch\n0 True\n02:00:00:00:00:01\n1\nd0\nlo\n"
        );
    }
}

/// The C library reads dumps into one page, however many devices and addresses there are.
#[test]
fn libc_reads_many_interfaces() {
    if !has("python3", "python3") {
        return;
    }
    for user in users() {
        let printed = works(
            *user,
            r#"for n in $(seq 100); do
                echo link add d$n type dummy; echo addr add 10.0.$n.1/24 dev d$n; echo addr add fd00:0:0:$n::1/64 dev d$n
            done | ip -batch -
            for n in $(seq 20); do ip -6 tunnel add t$n mode ip6ip6 remote fd00::$n; done
            python3 -c '
import ctypes, socket
head = ctypes.c_void_p()
print(len(socket.if_nameindex()), ctypes.CDLL(None).getifaddrs(ctypes.byref(head)), bool(head))'"#,
        );
        // With lo and ip6tnl0.
        assert_eq!(printed, "122 0 True\n");
    }
}

/// Ports of the simulated bus are listed below their device, in the namespace where they are.
#[test]
fn ports_of_the_simulated_bus() {
    for user in users() {
        let said = works(
            *user,
            "cd /; ip netns add a
            echo '3 2 2' >/sys/bus/netdevsim/new_device
            bus=/sys/bus/netdevsim/devices
            ls $bus; ls $bus/netdevsim3/net; cat $bus/netdevsim3/net/eth1/phys_port_name
            ls $bus/netdevsim4 2>&1 | cut -d: -f3
            ip link set eth1 name port1; ls $bus/netdevsim3/net
            echo 1300 >$bus/netdevsim3/net/port1/mtu; cat /sys/class/net/port1/mtu
            ip link set port1 netns a; ls $bus/netdevsim3/net; ip netns exec a ls $bus/netdevsim3/net
            echo 3 >/sys/bus/netdevsim/del_device; ls $bus",
        );
        assert_eq!(
            said,
            "netdevsim3\neth0\neth1\np2\n No such file or directory\neth0\nport1\n1300\neth0\nport1\n"
        );
    }
}
