// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plugins of Debian's containernetworking-plugins, unmodified. Plugins whose link kinds are
//! served pass ADD, CHECK and DEL; the others report the missing function.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::path::Path;
use std::process::Stdio;

use common::{Folder, User, has, output, script_with, text, users, weir};

/// The output of each plugin: the lines of `clients/cni.sh`.
const ANSWERS: &str = "\
loopback: ADD
lo               UNKNOWN        127.0.0.1/8 
loopback: CHECK
loopback: DEL
host-local: ADD
host-local: CHECK
host-local: DEL
static: ADD
static: CHECK
static: DEL
ptp: ADD
eth0         UP             10.1.2.3/24 
default via 10.1.2.1 dev eth0 
10.1.2.0/24 via 10.1.2.1 dev eth0 src 10.1.2.3 
10.1.2.1 dev eth0 scope link src 10.1.2.3 
ptp: CHECK
ptp: DEL
vlan: ADD
eth0         UP             10.1.2.4/24 
default via 10.1.2.1 dev eth0 
10.1.2.0/24 dev eth0 proto kernel scope link src 10.1.2.4 
vlan: CHECK
vlan: DEL
host-device: ADD
eth0             UNKNOWN        10.1.2.5/24 
default via 10.1.2.1 dev eth0 
10.1.2.0/24 dev eth0 proto kernel scope link src 10.1.2.5 
host-device: CHECK
host-device: DEL
tuning: ADD
net.ipv4.conf.all.log_martians = 1
PROMISC
mtu 1300
02:00:00:00:00:07
tuning: CHECK
tuning: DEL
bandwidth: ADD
tbf
rate 1Mbit burst 12500b
qdisc ingress
tbf
rate 2Mbit burst 12500b
bandwidth: CHECK
bandwidth: DEL
sbr: ADD
0:\tfrom all lookup local
32765:\tfrom 10.1.2.6 lookup 100
32766:\tfrom all lookup main
32767:\tfrom all lookup default
default via 10.1.2.1 dev eth0 
10.1.2.0/24 via 10.1.2.1 dev eth0 src 10.1.2.6 
10.1.2.1 dev eth0 scope link src 10.1.2.6 
sbr: CHECK
sbr: DEL
vrf: ADD
vrf: CHECK
vrf: DEL
macvlan: ADD
macvlan mode bridge
eth1         UP             10.1.2.7/24 
macvlan: CHECK
macvlan: DEL
ipvlan: ADD
ipvlan  mode l2
eth1         UNKNOWN        10.1.2.8/24 
ipvlan: CHECK
ipvlan: DEL
bridge: ADD
bridge: CHECK
bridge: DEL
firewall: refused
portmap: refused
lo
d0
h0
br0
";

#[test]
fn cni_plugins() {
    if !has("/usr/lib/cni/ptp", "containernetworking-plugins") {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/cni.sh");
    let source = std::fs::read_to_string(source).unwrap();
    for user in users() {
        for mode in ["user", "paths"] {
            let (printed, status) = script_with(*user, &["--mode", mode], &source);
            assert_eq!((printed.as_str(), status), (ANSWERS, 0), "{user:?}, {mode}");
        }
    }
}

/// The plugin dhcp needs a daemon with packet and datagram sockets.
#[test]
fn cni_dhcp_gets_an_address_from_dnsmasq() {
    if !has("/usr/lib/cni/dhcp", "containernetworking-plugins") || !has("dnsmasq", "dnsmasq-base") {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/cni-dhcp.sh");
    let source = std::fs::read_to_string(source).unwrap();
    let expected = "dhcp: ADD\neth0 UP 10.9.0.N/24\ndhcp: CHECK\neth0 UP 10.9.0.N/24\ndhcp: DEL\n";
    for user in users() {
        let (printed, status) = script_with(*user, &["--real-time"], &source);
        assert_eq!((printed.as_str(), status), (expected, 0), "{user:?}");
    }
}

/// The same against a stack of `weir up`, through `weir exec`.
#[test]
fn cni_plugins_by_exec() {
    if !has("/usr/lib/cni/ptp", "containernetworking-plugins") {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/cni.sh");
    let folder = Folder::new();
    let socket = folder.file("control");
    let mut up = weir(User::Own, &["up", "--socket", &socket])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    common::wait_until_up(&mut up);
    let script = std::fs::read_to_string(source).unwrap();
    let arguments = ["exec", "--socket", &socket, "--", "bash", "-c", &script];
    let answer = output(&mut weir(User::Own, &arguments));
    up.kill().unwrap();
    up.wait().unwrap();
    assert_eq!(text(&answer.stdout), ANSWERS, "{}", text(&answer.stderr));
}
