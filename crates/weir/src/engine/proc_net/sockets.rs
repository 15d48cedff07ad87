// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of sockets: `tcp`, `udp`, `raw`, `icmp` and their IPv6 forms, `packet` and the counts of `sockstat`, with the
//! columns of Linux 6.1 (`tcp4_seq_show`, `udp4_seq_show`, `raw_seq_show`, `ping_v4_seq_show`, `__ip6_dgram_sock_seq_show`,
//! `packet_seq_show`).
//!
//! Sockets are in the order in which they were opened. Linux orders them by the slot of a hash table, whose number is the
//! first column; here that is the local port.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use weir_stack::socket::shown::{Kind, Shown};
use weir_stack::{Namespace, Stack};

const AF_INET6: i32 = 10;
/// `TCP_TIME_WAIT`
const TIME_WAIT: u8 = 6;

/// The text behind the addresses in the headers of all tables.
const REST: &str = "st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";

/// Returns the sockets of a kind and a family at the time `now`, in ns of the stack's clock.
fn of(ns: &Namespace, now: u64, kind: Kind, ipv6: bool) -> Vec<Shown> {
    weir_stack::socket::all(ns)
        .iter()
        .filter(|socket| socket.shown_as() == kind && (socket.family() == AF_INET6) == ipv6)
        .map(|socket| socket.shown(now))
        .collect()
}

/// Writes an address as words in the order of the machine, and the port.
fn address(text: &mut String, (ip, port): (IpAddr, u16)) {
    let octets = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (words, _) = octets.as_chunks::<4>();
    for word in words {
        let _ = write!(text, "{:08X}", u32::from_ne_bytes(*word));
    }
    let _ = write!(text, ":{port:04X}");
}

/// Writes the columns that all tables have, up to the inode.
fn columns(text: &mut String, (slot, width): (usize, usize), one: &Shown, remote: (IpAddr, u16)) {
    let _ = write!(text, "{slot:width$}: ");
    address(text, one.local);
    text.push(' ');
    address(text, remote);
    let (received, sent) = one.queued;
    let (timer, when, retried) = one.timer;
    // Jiffies of 10 ms, as user programs count them.
    let ticks = when / 10;
    let _ = write!(
        text,
        " {:02X} {sent:08X}:{received:08X} {timer:02X}:{ticks:08X} {retried:08X} {:5} {:8} {}",
        one.state, one.uid, 0, one.inode
    );
}

/// Makes a table of datagram sockets. A line is padded to `width` where the kernel does.
fn datagrams(
    (stack, ns): (&Stack, &Namespace),
    kind: Kind,
    ipv6: bool,
    (head, width): (&str, usize),
    slot: usize,
) -> String {
    let mut text = format!("{head:width$}\n");
    for one in of(ns, stack.clock.now(), kind, ipv6) {
        let mut line = String::new();
        let remote = match kind {
            // A raw socket has no port of its peer.
            Kind::Raw => (one.remote.0, 0),
            _ => one.remote,
        };
        columns(&mut line, (one.local.1.into(), slot), &one, remote);
        let _ = write!(line, " 2 {:016x} {}", 0, one.drops);
        let _ = writeln!(text, "{line:width$}");
    }
    text
}

fn head_v4(indent: &str, refs: &str) -> String {
    format!("{indent}sl  local_address rem_address   {REST}{refs}")
}

fn head_v6(refs: &str) -> String {
    let (local, remote) = ("local_address", "remote_address");
    format!("  sl  {local:38}{remote:38}{REST}{refs}")
}

const REFS: &str = " ref pointer drops";

/// `/proc/net/udp`
pub fn udp(stack: &Stack, ns: &Arc<Namespace>) -> String {
    datagrams(
        (stack, ns),
        Kind::Udp,
        false,
        (&head_v4("   ", REFS), 127),
        5,
    )
}

/// `/proc/net/udp6`
pub fn udp6(stack: &Stack, ns: &Arc<Namespace>) -> String {
    datagrams((stack, ns), Kind::Udp, true, (&head_v6(REFS), 0), 5)
}

/// `/proc/net/icmp`
pub fn icmp(stack: &Stack, ns: &Arc<Namespace>) -> String {
    datagrams(
        (stack, ns),
        Kind::Ping,
        false,
        (&head_v4("  ", REFS), 127),
        5,
    )
}

/// `/proc/net/icmp6`
pub fn icmp6(stack: &Stack, ns: &Arc<Namespace>) -> String {
    datagrams((stack, ns), Kind::Ping, true, (&head_v6(REFS), 0), 5)
}

/// `/proc/net/raw`
pub fn raw(stack: &Stack, ns: &Arc<Namespace>) -> String {
    datagrams((stack, ns), Kind::Raw, false, (&head_v4("  ", REFS), 0), 4)
}

/// `/proc/net/raw6`
pub fn raw6(stack: &Stack, ns: &Arc<Namespace>) -> String {
    datagrams((stack, ns), Kind::Raw, true, (&head_v6(REFS), 0), 5)
}

fn streams(stack: &Stack, ns: &Namespace, ipv6: bool, (head, width): (&str, usize)) -> String {
    let mut text = format!("{head:width$}\n");
    let now = stack.clock.now();
    let mut all = of(ns, now, Kind::Tcp, ipv6);
    let listed = weir_stack::socket::listed(ns, now, &stack.domain.pin());
    all.extend(
        listed
            .into_iter()
            .filter(|one| (one.family == AF_INET6) == ipv6),
    );
    for (slot, one) in all.into_iter().enumerate() {
        let mut line = String::new();
        // The first column counts the lines.
        columns(&mut line, (slot, 4), &one, one.remote);
        let _ = match (&one.tcp, one.state) {
            (None, TIME_WAIT) => write!(line, " 3 {:016x}", 0),
            (None, _) => write!(line, " 0 {:016x}", 0),
            _ => write!(line, " 1 {:016x} 100 0 0 10 0", 0),
        };
        let _ = writeln!(text, "{line:width$}");
    }
    text
}

/// `/proc/net/tcp`
pub fn tcp(stack: &Stack, ns: &Arc<Namespace>) -> String {
    streams(stack, ns, false, (&head_v4("  ", ""), 149))
}

/// `/proc/net/tcp6`
pub fn tcp6(stack: &Stack, ns: &Arc<Namespace>) -> String {
    streams(stack, ns, true, (&head_v6(""), 0))
}

/// `/proc/net/packet`
pub fn packet(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let mut text =
        String::from("sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n");
    for one in of(ns, stack.clock.now(), Kind::Packet, false) {
        let _ = writeln!(
            text,
            "{:016x} {:<6} {:<4} {:04x}   {:<5} {} {:<6} {:<6} {:<6}",
            0,
            3,
            one.ty,
            one.protocol,
            one.device,
            u8::from(one.running),
            one.queued.0,
            one.uid,
            one.inode
        );
    }
    text
}

/// How many sockets a namespace has: all, and those of a kind over IPv4 and over IPv6.
pub fn count(ns: &Namespace) -> impl Fn(Option<Kind>, bool) -> usize {
    let all: Vec<(Kind, bool)> = weir_stack::socket::all(ns)
        .iter()
        .map(|socket| (socket.shown_as(), socket.family() == AF_INET6))
        .collect();
    move |kind, ipv6| match kind {
        None => all.len(),
        Some(kind) => all.iter().filter(|one| **one == (kind, ipv6)).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_stack::cpu::Cx;
    use weir_stack::socket::{Message, Ready, Socket, User};
    use weir_stack::{Config, Cpu};

    struct Nobody;

    impl User for Nobody {
        fn message(&self, _: &Message<'_>) -> bool {
            true
        }
        fn wake(&self, _: &mut Cx<'_>, _: Ready) {}
        fn queued(&self) -> (usize, usize) {
            (768, 0)
        }
    }

    fn sockaddr(ip: [u8; 4], port: u16) -> Vec<u8> {
        let mut bytes = 2u16.to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend(ip);
        bytes.resize(16, 0);
        bytes
    }

    #[test]
    fn lines_are_those_of_linux() {
        let stack = weir_stack::build(Config::default());
        let ns = stack.namespace(Stack::INITIAL).unwrap();
        let mut cpu = Cpu::new(&stack, 0);
        cpu.with(|cx| {
            let device = ns.device_by_name("lo").unwrap();
            weir_stack::netdev::set_up(&stack, cx.guard, &device, true).unwrap();
            let mut open = |family, kind, protocol| {
                let socket = Socket::open(cx, &ns, family, kind, protocol, Arc::new(Nobody));
                let socket = socket.unwrap();
                socket.set_identity(4711, 1000);
                socket
            };
            let udp = open(2, 2, 0);
            open(2, 3, 89);
            open(10, 3, 58);
            open(17, 3, 0x0300);
            udp.bind(cx, &sockaddr([127, 0, 0, 1], 53)).unwrap();
            udp.connect(cx, &sockaddr([127, 0, 0, 1], 99)).unwrap();
        });
        // Recorded on Linux 6.18; the slot, the user, the inode and the queue replaced.
        let line = "   53: 0100007F:0035 0100007F:0063 01 00000000:00000300 00:00000000 00000000  1000        0 4711 2 0000000000000000 0";
        let text = super::udp(&stack, &ns);
        assert_eq!(text.lines().nth(1), Some(&format!("{line:127}")[..]));
        assert!(text.lines().all(|line| line.len() == 127), "{text}");
        let line = "  89: 00000000:0059 00000000:0000 07 00000000:00000300 00:00000000 00000000  1000        0 4711 2 0000000000000000 0";
        assert_eq!(super::raw(&stack, &ns).lines().nth(1), Some(line));
        let line = "   58: 00000000000000000000000000000000:003A 00000000000000000000000000000000:0000 07 00000000:00000300 00:00000000 00000000  1000        0 4711 2 0000000000000000 0";
        assert_eq!(super::raw6(&stack, &ns).lines().nth(1), Some(line));
        let line = "0000000000000000 3      3    0003   0     1 768    1000   4711  ";
        assert_eq!(super::packet(&stack, &ns).lines().nth(1), Some(line));
        let counts = super::super::snmp::sockstat(&stack, &ns);
        assert!(
            counts.contains("sockets: used 4\n") && counts.contains("UDP: inuse 1 "),
            "{counts}"
        );
    }
}
