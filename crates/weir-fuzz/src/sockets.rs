// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets, ICMP errors and calls into the sockets of a [`router`].
//!
//! Each step begins with a byte that says what happens. Segments follow what the router has sent last, so that they get
//! past the checks of sequence numbers; ICMP errors quote it.
//!
//! Invariants: errnos are positive; once the sockets are closed and their time-outs over, none is left, and all frames are
//! back in the pool.

use crate::input::Input;
use std::sync::{Arc, Mutex, PoisonError};

use weir_netlink::errno;
use weir_packet::header::{ipv4, transport};
use weir_packet::{Batch, checksum};
use weir_socket::{Message, Outgoing, Ready, Shutdown, Socket, User};
use weir_stack::cpu::Cx;
use weir_stack::device::{Direction, Observer, Tap};
use weir_stack::{Config, Cpu, Device, Namespace, Stack};

use crate::router;

/// Maximum number of steps of one input.
const STEPS: usize = 300;
/// The most sockets at a time.
const SOCKETS: usize = 16;
const SECOND: u64 = 1_000_000_000;
/// After so long every connection has ended, whatever its peer does.
const END: u64 = 4000 * SECOND;
const MACS: [u8; 12] = [2, 0, 0, 1, 0, 1, 2, 0, 0, 1, 0, 2];
const OWN: [u8; 4] = [10, 1, 0, 1];
const PEER: [u8; 4] = [10, 1, 0, 2];
const OWN6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const PEER6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
/// The port of the listeners and of the peer.
const PORT: u16 = 4000;
/// Family, type and protocol of the sockets that a step may open.
const KINDS: [(i32, i32, i32); 12] = [
    (2, 1, 0),
    (10, 1, 0),
    (2, 2, 0),
    (10, 2, 0),
    (2, 2, 1),
    (10, 2, 58),
    (2, 3, 1),
    (2, 3, 255),
    (10, 3, 58),
    (10, 3, 255),
    (17, 3, 0x0300),
    (17, 2, 0x0008),
];

/// The packet that the router has sent last, without its Ethernet header.
#[derive(Default)]
struct Last(Mutex<Vec<u8>>);

impl Observer for Last {
    fn frame(&self, tap: &Tap<'_>) {
        if tap.direction == Direction::Tx {
            let data = tap.packet.data().get(14..).unwrap_or_default();
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            last.clear();
            last.extend_from_slice(data.get(..128).unwrap_or(data));
        }
    }
}

struct Program;

impl User for Program {
    fn message(&self, message: &Message<'_>) -> bool {
        message.data.len() != 7
    }

    fn wake(&self, _: &mut Cx<'_>, _: Ready) {}
}

/// A length of at most `most`, and as many bytes.
fn bytes(input: &mut Input<'_>, most: u8) -> Vec<u8> {
    let length = usize::from(input.byte() % most);
    input.bytes(length).to_vec()
}

/// A number near `base`.
fn near(input: &mut Input<'_>, base: u32) -> u32 {
    match input.byte() % 8 {
        0..=4 => base,
        5 => base.wrapping_add(input.short().into()),
        6 => base.wrapping_sub(input.short().into()),
        _ => u32::from(input.short()) << 16 | u32::from(input.short()),
    }
}

struct Bench {
    stack: Stack,
    ns: Arc<Namespace>,
    cpu: Cpu,
    port: Arc<Device>,
    last: Arc<Last>,
    sockets: Vec<Arc<Socket>>,
    /// The next sequence number of the peer.
    seq: u32,
}

/// Runs the steps that `bytes` describe on a new router.
pub fn run(bytes: &[u8]) {
    let stack = weir_stack::build(Config::default());
    router::set_up(&stack);
    let ns = stack
        .namespace(Stack::INITIAL)
        .expect("a stack has an initial namespace");
    let port = ns.device_by_name("d0").expect("the router has this device");
    let last = Arc::<Last>::default();
    port.observe(&stack.domain.pin(), last.clone());
    let mut bench = Bench {
        cpu: Cpu::new(&stack, 0),
        stack,
        ns,
        port,
        last,
        sockets: Vec::new(),
        seq: 1,
    };
    bench.cpu.settle();
    let mut input = Input(bytes);
    for _ in 0..STEPS {
        if input.0.is_empty() {
            break;
        }
        bench.step(&mut input);
        bench.cpu.settle();
    }
    bench.finish();
}

impl Bench {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() {
            0..=79 => self.segment(input),
            80..=99 => self.icmp(input),
            100..=114 => {
                let (protocol, v6) = (input.byte(), input.byte() & 1 == 1);
                let payload = bytes(input, u8::MAX);
                self.packet(v6, protocol, &payload);
            }
            115..=124 => {
                let mut datagram = PORT.to_be_bytes().repeat(2);
                let data = bytes(input, 100);
                datagram.extend((8 + data.len() as u16).to_be_bytes());
                datagram.extend([0, 0]);
                datagram.extend(data);
                self.packet(input.byte() & 1 == 1, 17, &datagram);
            }
            125..=134 => {
                let time = u64::from(input.byte()) * SECOND / 16;
                self.pass(time);
            }
            135..=139 => {
                let time = u64::from(input.byte()) * SECOND;
                self.pass(time);
            }
            140..=154 => self.open(input),
            _ => self.call(input),
        }
    }

    fn pass(&mut self, time: u64) {
        self.cpu.run_until(Some(self.stack.clock.now() + time));
    }

    /// Opens a socket, which listens, connects or does nothing yet.
    fn open(&mut self, input: &mut Input<'_>) {
        let (family, kind, protocol) = KINDS[usize::from(input.byte()) % KINDS.len()];
        let what = input.byte() % 3;
        if self.sockets.len() >= SOCKETS {
            return;
        }
        let ns = self.ns.clone();
        let sockets = &mut self.sockets;
        self.cpu.with(|cx| {
            let opened = Socket::open(cx, &ns, family, kind, protocol, Arc::new(Program));
            let Ok(socket) = opened else { return };
            // A port may be taken.
            let _ = match what {
                0 => socket
                    .bind(cx, &address(family, false))
                    .and_then(|()| socket.listen(cx, 2)),
                1 => socket.connect(cx, &address(family, true)),
                _ => Ok(()),
            };
            sockets.push(socket);
        });
    }

    fn call(&mut self, input: &mut Input<'_>) {
        let what = input.byte();
        if self.sockets.is_empty() {
            return;
        }
        let index = usize::from(input.byte()) % self.sockets.len();
        let socket = self.sockets[index].clone();
        let to = match input.byte() % 4 {
            0 => Vec::new(),
            1 => address(socket.family(), true),
            2 => address(socket.family(), false),
            _ => bytes(input, 40),
        };
        let mut accepted = None;
        let result = match what % 12 {
            0 => {
                let user = Arc::new(Program);
                self.cpu
                    .with(|cx| socket.accept(cx, user))
                    .map(|socket| accepted = Some(socket))
            }
            1 => self
                .cpu
                .with(|cx| socket.read(cx, &mut |data| data.len().min(usize::from(what) << 4)))
                .map(drop),
            2 | 3 => {
                let data = vec![what; usize::from(input.byte()) << (what >> 5)];
                self.cpu.with(|cx| socket.write(cx, &data)).map(drop)
            }
            4 => self.cpu.with(|cx| socket.connect(cx, &to)),
            5 => self.cpu.with(|cx| socket.bind(cx, &to)),
            6 => self.cpu.with(|cx| socket.listen(cx, i32::from(what) - 130)),
            7 => {
                let how = [Shutdown::Read, Shutdown::Write, Shutdown::Both];
                let how = how[usize::from(what >> 4) % 3];
                self.cpu.with(|cx| socket.shutdown(cx, how))
            }
            8 | 9 => {
                let levels = [0, 1, 6, 6, 17, 41, 58, 263];
                let level = levels[usize::from(input.byte() % 8)];
                let name = i32::from(input.byte());
                let value = bytes(input, 200);
                let set = self
                    .cpu
                    .with(|cx| socket.set_option(cx, level, name, &value));
                set.and_then(|()| socket.option(0, level, name, &value).map(drop))
            }
            10 => {
                let (control, data) = (bytes(input, 100), bytes(input, 100));
                let message = Outgoing {
                    to: &to,
                    control: &control,
                    data: &data,
                    flags: i32::from(input.short()) << (what >> 4),
                };
                self.cpu.with(|cx| socket.send(cx, &message)).map(drop)
            }
            _ => {
                while socket.receive_error(&mut |_| ()) {}
                let _ = (socket.shown(0), socket.peer_address(), socket.ready());
                if what & 16 != 0 {
                    self.close(index, what & 32 != 0);
                }
                Ok(())
            }
        };
        if let Err(errno) = result {
            assert!(errno >= errno::EPERM, "errno {errno}");
        }
        self.sockets.extend(accepted);
    }

    fn close(&mut self, index: usize, reset: bool) {
        let socket = self.sockets.swap_remove(index);
        self.cpu.with(|cx| socket.close(cx, reset));
    }

    /// A segment from the peer that follows what was sent last.
    fn segment(&mut self, input: &mut Input<'_>) {
        let (v6, last) = {
            let last = self.last.0.lock().unwrap_or_else(PoisonError::into_inner);
            let v6 = last.first().is_some_and(|byte| byte >> 4 == 6);
            (v6, last.get(if v6 { 40 } else { 20 }..).map(<[u8]>::to_vec))
        };
        let seen = last.and_then(|segment| weir_tcp::Header::parse(&segment));
        let kind = input.byte();
        let (syn, ack) = (weir_tcp::header::SYN, weir_tcp::header::ACK);
        let mut header = weir_tcp::Header {
            source: PORT,
            destination: PORT,
            seq: near(input, self.seq),
            flags: syn,
            window: input.short(),
            ..weir_tcp::Header::default()
        };
        let mut v6 = v6;
        if kind & 0x80 != 0 {
            // A new connection to a listener.
            header.source = u16::from(input.byte() % 8) + 1;
            v6 = kind & 1 != 0;
        } else if let Some((seen, _)) = seen {
            header.source = seen.destination;
            header.destination = seen.source;
            let next = seen.seq.wrapping_add(u32::from(seen.flags & 3 != 0));
            header.ack = near(input, next);
            header.flags = match kind % 8 {
                0 => input.byte(),
                1 => ack | 1,
                _ if seen.flags & (syn | ack) == syn => syn | ack,
                _ => ack,
            };
            if seen.flags & ack != 0 && header.seq == self.seq {
                header.seq = seen.ack;
            }
            let echo = seen.options.timestamps.map(|stamps| (stamps.0, stamps.0));
            header.options.timestamps = echo.filter(|_| kind & 64 == 0);
        }
        if header.has(syn) {
            header.options.mss = Some(1000);
            header.options.window_scale = (kind & 16 != 0).then_some(3);
            header.options.sack_permitted = kind & 32 != 0;
        }
        let extra = if kind & 8 != 0 {
            bytes(input, 40 - header.options.length() as u8)
        } else {
            Vec::new()
        };
        let data = bytes(input, u8::MAX);
        let mut segment = vec![0; header.length()];
        header.write(&mut segment);
        segment.extend(&extra);
        segment.resize(segment.len().next_multiple_of(4).min(60), 0);
        segment[12] = (segment.len() as u8 / 4) << 4;
        segment.extend(&data);
        self.seq = header.seq.wrapping_add(header.sequence_length(data.len()));
        self.packet(v6, 6, &segment);
    }

    /// An ICMP error that quotes what was sent last.
    fn icmp(&mut self, input: &mut Input<'_>) {
        let quoted = {
            let last = self.last.0.lock().unwrap_or_else(PoisonError::into_inner);
            last.clone()
        };
        let v6 = quoted.first().is_some_and(|byte| byte >> 4 == 6);
        let mut message = vec![input.byte() % 16, input.byte() % 16, 0, 0, 0, 0];
        message.extend(input.short().to_be_bytes());
        message.extend(&quoted);
        if input.byte().is_multiple_of(4) {
            let at = usize::from(input.byte()) % message.len();
            message[at] = input.byte();
            let length = usize::from(input.byte());
            message.truncate(length.max(8));
        }
        self.packet(v6, if v6 { 58 } else { 1 }, &message);
    }

    /// Receives a packet with right checksums.
    fn packet(&mut self, v6: bool, protocol: u8, payload: &[u8]) {
        let mut payload = payload.to_vec();
        let mut frame = MACS.to_vec();
        if v6 {
            transport::fill_check_v6(PEER6, OWN6, protocol, &mut payload);
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((payload.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend(PEER6);
            frame.extend(OWN6);
        } else {
            if protocol == 1 && payload.len() >= 4 {
                payload[2..4].fill(0);
                let sum = checksum::checksum(&payload).to_be_bytes();
                payload[2..4].copy_from_slice(&sum);
            } else {
                transport::fill_check_v4(PEER, OWN, protocol, &mut payload);
            }
            let mut header = vec![0x45, 0];
            header.extend((20 + payload.len() as u16).to_be_bytes());
            header.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
            header.extend(PEER);
            header.extend(OWN);
            ipv4::fill_check(&mut header);
            frame.extend([8, 0]);
            frame.extend(header);
        }
        frame.extend(payload);
        let mut batch = Batch::new();
        if let Some(packet) = self.stack.pool.packet(&frame) {
            batch.push(packet).expect("an empty batch has room");
        }
        let port = self.port.clone();
        self.cpu.with(|cx| cx.receive_later(&port, batch));
    }

    /// Closes everything.
    fn finish(mut self) {
        while !self.sockets.is_empty() {
            self.close(0, false);
            self.cpu.settle();
        }
        self.pass(END);
        let left = weir_socket::all(&self.ns).len();
        assert_eq!(left, 0, "sockets after their end");
        drop(self.cpu);
        let stats = self.stack.pool.stats();
        assert_eq!(stats.frames, stats.frames_free, "leaked frames");
        assert_eq!(stats.jumbos, stats.jumbos_free, "leaked frames");
    }
}

/// The bytes of an address of the router, or of its peer.
fn address(family: i32, peer: bool) -> Vec<u8> {
    let mut bytes = (family as u16).to_ne_bytes().to_vec();
    bytes.extend(PORT.to_be_bytes());
    match family {
        10 => {
            bytes.extend([0; 4]);
            bytes.extend(if peer { PEER6 } else { OWN6 });
            bytes.extend([0; 4]);
        }
        17 => bytes.resize(20, 0),
        _ => {
            bytes.extend(if peer { PEER } else { OWN });
            bytes.extend([0; 8]);
        }
    }
    bytes
}
