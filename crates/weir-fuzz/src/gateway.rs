// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames of a namespace into the gateway, with a modelled host behind it: UNIX pairs stand for the host's sockets, and the
//! time is the input's.
//!
//! Each step begins with a byte that says what happens; the bytes after it are its arguments. Segments have numbers relative
//! to what the gateway expects; datagrams, echo requests, ICMP errors, fragments and frames of any bytes come beside them.
//! The model accepts, delays and refuses connections, reads, writes, closes and resets.
//!
//! Invariants: data pass in order, without gaps, both ways; each frame of the gateway is well-formed, has the right
//! checksums and fits in the MTU; flows and memory stay within their limits; when the host and the peers are silent, all
//! flows end, their sockets are closed, and nothing is held.

use crate::input::Input;
use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};
use weir_gateway::{Config, Gateway, MAC, Outside};
use weir_packet::checksum::{verify, verify_v4, verify_v6};
use weir_packet::header::arp::{ARPOP_REQUEST, arp};
use weir_packet::header::ethernet::{ETH_P_ARP, ETH_P_IP, ETH_P_IPV6, ethernet};
use weir_packet::header::ipv4::ipv4;
use weir_packet::header::ipv6::ipv6;
use weir_packet::header::transport::{fill_check_v4, fill_check_v6, udp};
use weir_packet::header::{Ethernet, Ipv4, Ipv6, icmp};
use weir_tcp::header::{ACK, FIN, SYN};
use weir_tcp::{Header, Options};

/// Maximum number of steps of one input.
const STEPS: usize = 400;
/// The most flows of each kind.
const FLOWS: usize = 4;
/// Peers inside, each with a connection.
const PEERS: usize = 6;
/// The device's MTU, in bytes.
const MTU: usize = 1500;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// What may wait: 8 MiB, and the frames that overstep it.
const MOST_OUT: usize = (8 << 20) + (64 << 10);
/// 64 packets of 64 KiB, with what growing buffers have too much.
const MOST_REASSEMBLY: usize = 128 * (64 << 10);
/// Frames that may come from one turn.
const MOST_FRAMES: usize = 20_000;
/// The ends that the model keeps.
const MOST_ENDS: usize = 64;
const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// The host's end of a flow.
struct End {
    socket: OwnedFd,
    protocol: u8,
    to: SocketAddr,
    /// Where the bytes that arrive may begin: behind one of the SYNs.
    starts: Option<Vec<u32>>,
    read: u32,
    written: u32,
}

/// The modelled host.
struct Host {
    now: u64,
    ends: Vec<End>,
    opened: usize,
    /// What the next socket does.
    next: u8,
}

thread_local! {
    static HOST: RefCell<Host> = const {
        RefCell::new(Host { now: SECOND, ends: Vec::new(), opened: 0, next: 0 })
    };
}

fn host<R>(with: impl FnOnce(&mut Host) -> R) -> R {
    HOST.with(|host| with(&mut host.borrow_mut()))
}

/// Opens a pair of sockets, one end of which is the gateway's.
fn open(protocol: u8, to: SocketAddr) -> Result<(OwnedFd, bool), Errno> {
    host(|host| {
        let connected = match host.next % 16 {
            0..=7 => true,
            8..=10 => false,
            11 => return Err(Errno::CONNREFUSED),
            12 => return Err(Errno::NETUNREACH),
            13 => return Err(Errno::HOSTUNREACH),
            14 => return Err(Errno::MFILE),
            _ => return Err(Errno::ACCESS),
        };
        let kind = match protocol {
            TCP => SocketType::STREAM,
            _ => SocketType::DGRAM,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        if host.next & 16 != 0 {
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(&theirs, 4096);
        }
        if protocol == TCP && !connected {
            // Not writable before `accept` has read it.
            while send(&theirs, &[0; 4096], SendFlags::DONTWAIT).is_ok() {}
        }
        if host.ends.len() >= MOST_ENDS {
            host.ends.remove(0);
        }
        host.opened += 1;
        host.ends.push(End {
            socket: ours,
            protocol,
            to,
            starts: (protocol == TCP && connected).then(Vec::new),
            read: 0,
            written: 0,
        });
        Ok((theirs, protocol != TCP || connected))
    })
}

/// A file that names resolvers of both families.
fn resolvers() -> PathBuf {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let mut file = File::from(memfd_create("resolvers", MemfdFlags::CLOEXEC).ok()?);
        file.write_all(b"nameserver 192.0.2.53\nnameserver 2001:db8::53\n")
            .ok()?;
        Some(file)
    });
    let descriptor = file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    format!("/proc/self/fd/{descriptor}").into()
}

/// A number near `base`: exactly it, a little more or less, more, or any.
fn near(input: &mut Input<'_>, base: u32) -> u32 {
    match input.byte() % 8 {
        0..=3 => base,
        4 => base.wrapping_add(input.byte().into()),
        5 => base.wrapping_sub(input.byte().into()),
        6 => base.wrapping_add(input.word() % 100_000),
        _ => input.word(),
    }
}

/// A length of 0 to 32 KiB.
fn any_length(input: &mut Input<'_>) -> usize {
    usize::from(input.byte()) << (input.byte() % 8)
}

/// The byte at a sequence number, of either direction.
fn byte_at(seq: u32) -> u8 {
    (seq ^ seq >> 8 ^ seq >> 16) as u8
}

fn data_at(seq: u32, length: usize) -> Vec<u8> {
    let length = length as u32;
    (0..length).map(|n| byte_at(seq.wrapping_add(n))).collect()
}

/// A connection as the namespace sees it.
#[derive(Default, Clone)]
struct Peer {
    /// The sequence numbers of its SYNs.
    syns: Vec<u32>,
    /// The next sequence number that it sends.
    next: u32,
    /// The gateway's first sequence number, and what is expected from it.
    isn: Option<u32>,
    expected: u32,
}

struct Bench {
    gateway: Gateway,
    peers: Vec<Peer>,
}

/// Runs the steps that `bytes` describe.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    host(|host| {
        *host = Host {
            now: SECOND,
            ends: Vec::new(),
            opened: 0,
            next: 0,
        }
    });
    let config = Config {
        flows: FLOWS,
        host: input.byte() & 1 == 0,
        mtu: MTU as u32,
        resolvers: resolvers(),
        outside: Some(Outside {
            open,
            now: || host(|host| host.now),
        }),
        ..Config::default()
    };
    let Ok(gateway) = Gateway::new(config, OWN_MAC) else {
        return;
    };
    let mut bench = Bench {
        gateway,
        peers: vec![Peer::default(); PEERS],
    };
    for _ in 0..STEPS {
        if input.0.is_empty() {
            break;
        }
        bench.step(&mut input);
        bench.settle();
    }
    bench.end();
}

/// The peer's address inside, and the address outside that it talks to: other than those of all other peers.
fn ends_of(peer: usize) -> (SocketAddr, SocketAddr) {
    let port = 8000 + peer as u16;
    match peer % 2 {
        0 => (
            (Ipv4Addr::new(10, 0, 2, 15), 40_000).into(),
            (Ipv4Addr::new(192, 0, 2, 1), port).into(),
        ),
        _ => (
            (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x15), 40_000).into(),
            (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), port).into(),
        ),
    }
}

/// A destination of datagrams: outside, the gateway, its resolver, on the link, a group, the loopback.
fn destination(choice: u8) -> IpAddr {
    let v4 = |last| IpAddr::from(Ipv4Addr::new(10, 0, 2, last));
    let v6 = |last| IpAddr::from(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
    match choice % 16 {
        0..=2 => Ipv4Addr::new(192, 0, 2, choice).into(),
        3..=5 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, choice.into()).into(),
        6 => v4(2),
        7 => v6(2),
        8 => v4(3),
        9 => v6(3),
        10 => v4(77),
        11 => Ipv4Addr::new(224, 0, 0, 1).into(),
        12 => Ipv4Addr::LOCALHOST.into(),
        13 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).into(),
        14 => Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0x7f00, 1).into(),
        _ => v6(0x77),
    }
}

fn inside(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::new(10, 0, 2, 15).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x15).into(),
    }
}

/// Writes the checksum above IP, if the protocol has one.
fn fill_check(src: IpAddr, dst: IpAddr, protocol: u8, upper: &mut [u8]) {
    match (src, dst) {
        (IpAddr::V4(_), _) if protocol == ICMP => drop(icmp::fill_check_v4(upper)),
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            fill_check_v4(src.octets(), dst.octets(), protocol, upper);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            fill_check_v6(src.octets(), dst.octets(), protocol, upper);
        }
        _ => {}
    }
}

/// A frame with a packet.
fn frame(src: IpAddr, dst: IpAddr, protocol: u8, hops: u8, mut upper: Vec<u8>) -> Vec<u8> {
    fill_check(src, dst, protocol, &mut upper);
    piece(src, dst, protocol, hops, &upper, None)
}

/// A frame with a packet or a fragment of one: its number, offset in bytes, and whether more follow.
fn piece(
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    hops: u8,
    data: &[u8],
    fragment: Option<(u16, u16, bool)>,
) -> Vec<u8> {
    let (id, offset, more) = fragment.unwrap_or_default();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (src, dst, length) = (src.octets(), dst.octets(), data.len());
            let place = (offset / 8) | if more { 0x2000 } else { 0 };
            let mut frame = ethernet(MAC, OWN_MAC, ETH_P_IP).to_vec();
            frame.extend(ipv4(src, dst, protocol, hops, 0, id, place, length));
            frame.extend(data);
            frame
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut frame = ethernet(MAC, OWN_MAC, ETH_P_IPV6).to_vec();
            let extra = if fragment.is_some() { 8 } else { 0 };
            let next = if extra > 0 { 44 } else { protocol };
            let length = data.len() + extra;
            frame.extend(ipv6(src.octets(), dst.octets(), next, hops, 0, 0, length));
            if extra > 0 {
                frame.extend([protocol, 0]);
                frame.extend((offset & !7 | u16::from(more)).to_be_bytes());
                frame.extend(u32::from(id).to_be_bytes());
            }
            frame.extend(data);
            frame
        }
        _ => Vec::new(),
    }
}

impl Bench {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() {
            0..=99 => self.segment(input),
            100..=119 => self.datagram(input),
            120..=127 => self.echo(input),
            128..=135 => self.too_long(input),
            136..=143 => self.fragment(input),
            144..=149 => self.neighbour(input),
            150..=159 => {
                let checked = input.byte() & 1 == 1;
                let (kind, length) = (input.byte(), usize::from(input.byte()));
                let data = input.bytes(length);
                let dst = destination(kind);
                let any = match kind >> 4 {
                    0..=3 => data.to_vec(),
                    4..=7 => [&ethernet(MAC, OWN_MAC, ETH_P_IPV6), data].concat(),
                    8..=11 => frame(inside(dst), dst, kind, 64, data.to_vec()),
                    _ => frame(dst, inside(dst), kind, 64, data.to_vec()),
                };
                self.gateway.frame(&any, checked);
            }
            160..=164 => host(|host| host.next = input.byte()),
            165..=174 => {
                let time = u64::from(input.byte()) * [MS, SECOND][usize::from(input.byte() & 1)];
                host(|host| host.now += time);
                self.gateway.turn(Duration::ZERO);
            }
            175..=189 => self.gateway.turn(Duration::ZERO),
            what => self.outside(what, input),
        }
    }

    /// A segment of a peer.
    fn segment(&mut self, input: &mut Input<'_>) {
        let at = usize::from(input.byte()) % PEERS;
        let (src, dst) = ends_of(at);
        let Some(peer) = self.peers.get_mut(at) else {
            return;
        };
        let (flags, bits) = (input.byte(), input.byte());
        let flags = match bits & 3 {
            0 => ACK,
            1 => flags & 0x3f,
            2 => [SYN, ACK | FIN, ACK, SYN][usize::from(flags & 3)],
            _ => ACK | 8,
        };
        let length = match bits >> 2 & 3 {
            0 => 0,
            1 => usize::from(input.byte()),
            2 => 1440,
            _ => any_length(input),
        };
        let seq = near(input, peer.next);
        let header = Header {
            source: src.port(),
            destination: dst.port(),
            seq,
            ack: near(input, peer.expected),
            flags,
            window: if bits & 16 == 0 {
                60_000
            } else {
                input.word() as u16
            },
            options: Options {
                mss: (flags & SYN != 0 && bits & 32 != 0).then_some(1460),
                window_scale: (flags & SYN != 0 && bits & 64 != 0).then_some(bits >> 4),
                ..Options::default()
            },
            ..Header::default()
        };
        let is_syn = flags & SYN != 0;
        if is_syn {
            peer.syns.push(seq);
        }
        if seq == peer.next || is_syn {
            peer.next = seq.wrapping_add(header.sequence_length(length));
        }
        let mut upper = vec![0; header.length()];
        header.write(&mut upper);
        let length = length.min(60_000);
        upper.extend(data_at(seq.wrapping_add(is_syn.into()), length));
        let hops = if bits == 255 { 1 } else { 64 };
        let frame = frame(src.ip(), dst.ip(), TCP, hops, upper);
        self.gateway.frame(&frame, false);
    }

    fn datagram(&mut self, input: &mut Input<'_>) {
        let dst = destination(input.byte());
        let (source, port, bits) = (input.byte(), input.byte(), input.byte());
        let port = if bits & 1 == 0 {
            53
        } else {
            2000 + u16::from(port)
        };
        let length = match bits & 6 {
            0 => 0,
            2 => any_length(input),
            _ => usize::from(input.byte()),
        };
        let said = if bits & 0x80 == 0 {
            length
        } else {
            any_length(input)
        };
        let mut upper = udp(1000 + u16::from(source % 8), port, said).to_vec();
        upper.resize(upper.len() + length, 7);
        self.gateway
            .frame(&frame(inside(dst), dst, UDP, bits | 1, upper), false);
    }

    fn echo(&mut self, input: &mut Input<'_>) {
        let dst = destination(input.byte());
        let (protocol, kind) = if dst.is_ipv4() {
            (ICMP, 8)
        } else {
            (ICMPV6, 128)
        };
        let length = usize::from(input.byte());
        let mut upper = vec![kind, 0, 0, 0, 0, input.byte() % 8, 0, 1];
        upper.extend(input.bytes(length));
        self.gateway
            .frame(&frame(inside(dst), dst, protocol, 64, upper), false);
    }

    /// An ICMP error about a segment of the gateway, or about anything.
    fn too_long(&mut self, input: &mut Input<'_>) {
        let at = usize::from(input.byte()) % PEERS;
        let (own, remote) = ends_of(at);
        let expected = self.peers.get(at).map_or(0, |peer| peer.expected);
        let header = Header {
            source: remote.port(),
            destination: own.port(),
            seq: near(input, expected.wrapping_sub(1440)),
            ..Header::default()
        };
        let mut upper = vec![0; header.length()];
        header.write(&mut upper);
        let quote = frame(remote.ip(), own.ip(), TCP, 64, upper);
        let cut = usize::from(input.byte());
        let quote = quote.get(14..quote.len().min(14 + cut)).unwrap_or_default();
        let mtu = match input.byte() % 4 {
            0 => 1280,
            1 => u32::from(input.byte()),
            2 => 1400,
            _ => input.word(),
        };
        let (protocol, kind) = if own.is_ipv4() {
            (ICMP, [3, 4])
        } else {
            (ICMPV6, [2, 0])
        };
        let kind = if input.byte().is_multiple_of(8) {
            [input.byte(), input.byte()]
        } else {
            kind
        };
        let upper = [&kind, &[0; 2][..], &mtu.to_be_bytes(), quote].concat();
        self.gateway
            .frame(&frame(own.ip(), remote.ip(), protocol, 64, upper), false);
    }

    fn fragment(&mut self, input: &mut Input<'_>) {
        let dst = destination(input.byte());
        let (id, place, bits) = (input.byte(), input.byte(), input.byte());
        let offset = u16::from(place) << (bits & 7);
        let length = any_length(input);
        let mut data = udp(1000, 2000, usize::from(input.byte())).to_vec();
        data.resize(length, 7);
        let fragment = Some((id.into(), offset & !7, bits & 8 != 0));
        let protocol = if bits & 16 == 0 { UDP } else { bits };
        let frame = piece(inside(dst), dst, protocol, 64, &data, fragment);
        self.gateway.frame(&frame, bits & 32 != 0);
    }

    fn neighbour(&mut self, input: &mut Input<'_>) {
        let dst = destination(input.byte());
        let frame = match (dst, inside(dst)) {
            (IpAddr::V4(dst), IpAddr::V4(own)) => {
                let mut frame = ethernet([0xff; 6], OWN_MAC, ETH_P_ARP).to_vec();
                let (own, dst) = (own.octets(), dst.octets());
                frame.extend(arp(ARPOP_REQUEST, OWN_MAC, own, [0; 6], dst));
                frame
            }
            (IpAddr::V6(target), own) => {
                let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 2);
                let kind = if input.byte() & 1 == 0 {
                    135
                } else {
                    input.byte()
                };
                let upper = [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &target.octets(), &[1, 1]];
                let upper = [upper.concat(), OWN_MAC.to_vec()].concat();
                frame(own, group.into(), ICMPV6, 255, upper)
            }
            _ => return,
        };
        self.gateway.frame(&frame, false);
    }

    /// A call of a program outside.
    fn outside(&mut self, what: u8, input: &mut Input<'_>) {
        let choice = usize::from(input.byte());
        host(|host| {
            let count = host.ends.len();
            let Some(end) = host.ends.iter_mut().rev().nth(choice % count.max(1)) else {
                return;
            };
            match what {
                190..=209 => self.read(end, any_length(input)),
                210..=229 => write(end, input),
                230..=237 => self.accept(end),
                238..=243 => drop(shutdown(&end.socket, Shutdown::Write)),
                _ => drop(host.ends.remove(count - 1 - choice % count)),
            }
        });
    }

    /// Accepts a connection: takes what has kept the gateway's end from being writable.
    fn accept(&self, end: &mut End) {
        if end.protocol == TCP && end.starts.is_none() {
            let mut data = [0; 4096];
            while matches!(
                recv(&end.socket, &mut data, RecvFlags::DONTWAIT),
                Ok((1.., _))
            ) {}
            end.starts = Some(Vec::new());
        }
    }

    /// Reads at most `most` bytes or one datagram, and checks them.
    fn read(&self, end: &mut End, most: usize) {
        let mut data = vec![0; most.max(1)];
        let Ok((length, _)) = recv(&end.socket, &mut data, RecvFlags::DONTWAIT) else {
            return;
        };
        let data = data.get(..length).unwrap_or_default();
        let Some(starts) = end.starts.as_mut().filter(|_| length > 0) else {
            return;
        };
        let peer = (0..PEERS).find(|peer| ends_of(*peer).1 == end.to);
        let Some(peer) = peer.and_then(|peer| self.peers.get(peer)) else {
            return;
        };
        if end.read == 0 {
            *starts = peer.syns.clone();
        }
        let matches = |syn: &u32| {
            let first = syn.wrapping_add(1).wrapping_add(end.read);
            let right = |(n, byte): (u32, &u8)| *byte == byte_at(first.wrapping_add(n));
            (0..).zip(data).all(right)
        };
        starts.retain(matches);
        assert!(!starts.is_empty(), "other data than the peer has sent");
        end.read = end.read.wrapping_add(length as u32);
    }

    /// Takes the gateway's frames, and checks them and the gateway.
    fn settle(&mut self) {
        let held = self.gateway.held();
        assert!(held.flows.iter().all(|count| *count <= FLOWS), "{held:?}");
        assert!(held.out <= MOST_OUT, "{held:?}");
        assert!(held.reassembly <= MOST_REASSEMBLY, "{held:?}");
        let mut count = 0;
        while let Some(frame) = self.gateway.pop() {
            count += 1;
            assert!(count < MOST_FRAMES, "a turn does not end");
            self.look(&frame.data, frame.segment);
            self.gateway.recycle(frame.data);
        }
    }

    /// Checks a frame.
    fn look(&mut self, frame: &[u8], segment: u16) {
        let ethernet = Ethernet::new(frame).expect("an Ethernet header");
        assert_eq!(ethernet.src(), MAC);
        let packet = frame.get(Ethernet::LEN..).unwrap_or_default();
        assert!(packet.len() <= MTU || segment > 0, "longer than the MTU");
        let (src, dst, protocol, upper, fragment) = match ethernet.ethertype() {
            ETH_P_IP => {
                let ip = Ipv4::new(packet).expect("an IPv4 header");
                assert!(verify(packet.get(..Ipv4::LEN).unwrap_or_default()));
                assert_eq!(usize::from(ip.total_len()), packet.len());
                let upper = packet.get(Ipv4::LEN..).unwrap_or_default();
                let (src, dst) = (IpAddr::from(ip.src()), IpAddr::from(ip.dst()));
                (src, dst, ip.protocol(), upper, ip.is_fragment())
            }
            ETH_P_IPV6 => {
                let ip = Ipv6::new(packet).expect("an IPv6 header");
                let upper = packet.get(Ipv6::LEN..).unwrap_or_default();
                assert_eq!(usize::from(ip.payload_len()), upper.len());
                let (src, dst) = (IpAddr::from(ip.src()), IpAddr::from(ip.dst()));
                (src, dst, ip.next_header(), upper, ip.next_header() == 44)
            }
            other => return assert_eq!(other, ETH_P_ARP),
        };
        if fragment {
            return;
        }
        let right = match (src, dst) {
            (IpAddr::V4(_), IpAddr::V4(_)) if protocol == ICMP => verify(upper),
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                verify_v4(src.octets(), dst.octets(), protocol, upper)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                verify_v6(src.octets(), dst.octets(), protocol, upper)
            }
            _ => false,
        };
        assert!(right, "the checksum of protocol {protocol}");
        if protocol == TCP {
            let (header, length) = Header::parse(upper).expect("a header of TCP");
            self.arrived(src, dst, &header, upper.get(length..).unwrap_or_default());
        }
    }

    /// Checks a segment of the gateway.
    fn arrived(&mut self, src: IpAddr, dst: IpAddr, header: &Header, data: &[u8]) {
        let ends = (
            (dst, header.destination).into(),
            (src, header.source).into(),
        );
        let peer = (0..PEERS).find(|peer| ends_of(*peer) == ends);
        let Some(peer) = peer.and_then(|peer| self.peers.get_mut(peer)) else {
            return;
        };
        if header.has(SYN) {
            assert!(data.is_empty() && header.has(ACK));
            assert!(peer.syns.contains(&header.ack.wrapping_sub(1)));
            peer.isn = Some(header.seq);
        }
        let after = header.seq.wrapping_add(header.sequence_length(data.len()));
        if header.has(SYN) || after.wrapping_sub(peer.expected) < 1 << 31 {
            peer.expected = after;
        }
        if !data.is_empty() {
            let isn = peer.isn.expect("data before a SYN");
            let first = header.seq.wrapping_sub(isn.wrapping_add(1));
            for (n, byte) in (0..).zip(data) {
                assert_eq!(*byte, byte_at(first.wrapping_add(n)), "other data");
            }
        }
    }

    /// Closes all sockets of the host, and waits for the end of all flows.
    fn end(mut self) {
        let datagrams = host(|host| {
            host.ends.retain(|end| end.protocol != TCP);
            std::mem::take(&mut host.ends)
        });
        for _ in 0..200 {
            self.gateway.turn(Duration::ZERO);
            self.settle();
            host(|host| host.now += 200 * SECOND);
            if self.gateway.held().flows == [0, 0] {
                break;
            }
        }
        let held = self.gateway.held();
        assert_eq!((held.flows, held.committed), ([0, 0], 0), "a flow is left");
        assert_eq!(held.out, 0);
        for end in datagrams {
            assert!(
                send(&end.socket, &[], SendFlags::DONTWAIT).is_err(),
                "a socket is open without a flow"
            );
        }
        for (name, value) in self.gateway.counters().all() {
            assert!(value == 0 || !name.ends_with("_now"), "{name} is {value}");
        }
    }
}

/// Sends bytes or a datagram to the gateway.
fn write(end: &mut End, input: &mut Input<'_>) {
    let length = any_length(input);
    if end.protocol == TCP {
        if end.starts.is_some() {
            let data = data_at(end.written, length);
            let sent = send(
                &end.socket,
                &data,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            );
            end.written = end.written.wrapping_add(sent.unwrap_or(0) as u32);
        }
        return;
    }
    let mut data = vec![input.byte()];
    data.resize(length, 0);
    if input.byte() & 1 == 0
        && let Some(first) = data.first_mut()
    {
        *first = if end.protocol == ICMP { 0 } else { 129 };
    }
    let _ = send(&end.socket, &data, SendFlags::DONTWAIT);
}
