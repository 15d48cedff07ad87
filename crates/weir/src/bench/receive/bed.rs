// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stacks that `weir bench receive` plays frames into, and the loop that plays them.

use std::sync::Arc;
use std::time::Instant;

use weir_netlink::af;
use weir_netlink::tca::{flower, matchall};
use weir_packet::Batch;
use weir_packet::checksum::checksum;
use weir_packet::header::transport::{fill_check_v4, tcp};
use weir_port::Port;
use weir_port::replay::Replay;
use weir_stack::datapath::EarlyDrop;
use weir_stack::features::bit;
use weir_stack::link::update_features;
use weir_stack::stages::Stage;
use weir_stack::{Config, Cpu, Cx, Device, Stack, datapath};

use super::super::client::{Client, DROP, put_actions, put_gact, put_readdress};
use crate::report::stages::{self, StageReport};

/// `ETH_P_ALL`
const ALL: u16 = 3;
const IP: u16 = 0x0800;
/// The address of the receiving device.
const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THERE: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Routes and gateways of each namespace that forwards.
pub const ROUTES: u32 = 100_000;
pub const NEIGHBOURS: u32 = 10_000;

/// The path that the frames take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// A matchall filter that drops frames before packets are made of them.
    Early,
    /// The same with a flower filter for the MAC addresses.
    EarlyFlower,
    /// A flower filter that needs every header, and a matchall filter that drops.
    Drop,
    /// A filter that sets both MAC addresses and redirects to a device that discards.
    Readdress,
    /// Two namespaces that forward.
    Forward,
}

/// A stack, a source of frames and the device that receives them.
pub struct Bed {
    cpu: Cpu,
    source: Replay,
    device: Arc<Device>,
    early: Option<EarlyDrop>,
    /// Frames travel on through the CPU's backlog.
    backlog: bool,
    /// Kept until the CPU is gone.
    stack: Stack,
}

/// Builds a UDP frame of `size` bytes to an address.
fn frame(destination: u32, sport: u16, size: usize) -> Vec<u8> {
    let length = (size - 14) as u16;
    let mut frame = [HERE, THERE].concat();
    frame.extend(IP.to_be_bytes());
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 2]);
    frame.extend(destination.to_be_bytes());
    let words = frame[14..34].chunks(2);
    let words = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    frame.extend(sport.to_be_bytes());
    frame.extend(5001u16.to_be_bytes());
    frame.extend((length - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.resize(size, 0);
    frame
}

/// Returns an address in the network of route `n`: 20.0.0.0/24 and up.
fn address(n: u32) -> u32 {
    0x1400_0001 + (n << 8)
}

/// Returns frames of `size` bytes to `count` different routes, scattered over all of them.
pub fn frames(count: u32, size: usize) -> Vec<Vec<u8>> {
    let route = |n: u32| n.wrapping_mul(0x9e37_79b1) % ROUTES;
    (0..count)
        .map(|n| frame(address(route(n)), 1024 + n as u16, size))
        .collect()
}

/// Returns `each` TCP segments of each of `count` flows, with `payload` bytes, one flow after the other.
pub fn segments(count: u32, each: u32, payload: usize) -> Vec<Vec<u8>> {
    let segment = |flow: u32, n: u32| {
        let (src, dst) = ([10, 0, 0, 2], address(flow * 1000).to_be_bytes());
        let mut frame = frame(u32::from_be_bytes(dst), 0, 54 + payload);
        let ip = &mut frame[14..34];
        (ip[9], ip[10], ip[11]) = (6, 0, 0);
        let check = checksum(ip).to_be_bytes();
        ip[10..12].copy_from_slice(&check);
        let at = 1 + n * payload as u32;
        const ACK: u16 = 0x10;
        let header = tcp(1024 + flow as u16, 5001, at, 1, ACK);
        let (head, rest) = frame[34..].split_at_mut(header.len());
        head.copy_from_slice(&header);
        rest.fill(n as u8);
        fill_check_v4(src, dst, 6, &mut frame[34..]);
        frame
    };
    (0..count)
        .flat_map(|flow| (0..each).map(move |n| segment(flow, n)))
        .collect()
}

/// Gives a namespace its routes and gateways behind device `out`.
fn forwards(client: &mut Client, out: u32, net: u8) -> Result<(), String> {
    client.address(out, af::INET, &[10, net, 0, 1], 16)?;
    let gateway = |n: u32| {
        let [high, low] = (n as u16 + 256).to_be_bytes();
        [10, net, high, low]
    };
    for n in 0..NEIGHBOURS {
        client.neighbour(out, af::INET, &gateway(n), THERE)?;
    }
    for n in 0..ROUTES {
        let dst = (address(n) & !0xff).to_be_bytes();
        client.route(af::INET, &dst, 24, &gateway(n % NEIGHBOURS))?;
    }
    Ok(())
}

impl Bed {
    /// Sets up a stack for a path. The source replays `frames`.
    pub fn new(path: Path, frames: &[Vec<u8>]) -> Result<Self, String> {
        let stack = weir_stack::build(Config {
            virtual_time: false,
            ..Config::default()
        });
        let ns = stack
            .namespace(Stack::INITIAL)
            .ok_or("the stack has no namespace")?;
        let mut client = Client::new(&stack, &ns);
        client.dummy("in0", HERE)?;
        let device = ns.device_by_name("in0").ok_or("in0 is gone")?;
        let index = device.ifindex();
        match path {
            Path::Early => {
                client.clsact(index)?;
                client.filter(index, 1, ALL, "matchall", |out| {
                    put_actions(out, matchall::ACT, |out| put_gact(out, DROP));
                })?;
            }
            Path::EarlyFlower => {
                client.clsact(index)?;
                client.filter(index, 1, IP, "flower", |out| {
                    out.put_be16(flower::KEY_ETH_TYPE, IP);
                    out.put(flower::KEY_ETH_DST, &HERE);
                    out.put(flower::KEY_ETH_SRC, &THERE);
                    put_actions(out, flower::ACT, |out| put_gact(out, DROP));
                })?;
            }
            Path::Drop => {
                client.clsact(index)?;
                client.filter(index, 1, IP, "flower", |out| {
                    out.put(flower::KEY_ETH_DST, &HERE);
                    out.put(flower::KEY_ETH_SRC, &HERE);
                    out.put_be16(flower::KEY_ETH_TYPE, IP);
                    out.put_u8(flower::KEY_IP_PROTO, 17);
                    out.put(flower::KEY_IPV4_SRC, &[10, 0, 0, 3]);
                    out.put(flower::KEY_IPV4_DST, &[10, 0, 0, 3]);
                    out.put_u8(flower::KEY_IP_TOS, 8);
                    out.put_u8(flower::KEY_IP_TTL, 9);
                    out.put_be16(flower::KEY_UDP_SRC, 1);
                    out.put_be16(flower::KEY_UDP_DST, 2);
                    put_actions(out, flower::ACT, |out| put_gact(out, DROP));
                })?;
                client.filter(index, 2, ALL, "matchall", |out| {
                    put_actions(out, matchall::ACT, |out| put_gact(out, DROP));
                })?;
            }
            Path::Readdress => {
                client.dummy("out0", THERE)?;
                let to = ns.device_by_name("out0").ok_or("out0 is gone")?.ifindex();
                client.clsact(index)?;
                client.filter(index, 1, ALL, "matchall", |out| {
                    put_actions(out, matchall::ACT, |out| {
                        put_readdress(out, HERE, THERE, to);
                    });
                })?;
            }
            Path::Forward => {
                let second = stack.create_namespace();
                let mut other = Client::new(&stack, &second);
                client.veth(("v0", HERE), ("v1", THERE), second.id)?;
                other.dummy("out0", HERE)?;
                for ns in [&ns, &second] {
                    weir_stack::sysctl::tree::write(&stack, ns, "ipv4/ip_forward", b"1")
                        .map_err(|errno| format!("ip_forward: errno {errno}"))?;
                }
                let index = |ns: &weir_stack::Namespace, name: &str| {
                    let device = ns.device_by_name(name);
                    device
                        .map(|device| device.ifindex())
                        .ok_or(format!("{name} is gone"))
                };
                client.address(device.ifindex(), af::INET, &[10, 0, 0, 1], 24)?;
                forwards(&mut client, index(&ns, "v0")?, 1)?;
                other.address(index(&second, "v1")?, af::INET, &[10, 1, 0, 2], 16)?;
                forwards(&mut other, index(&second, "out0")?, 2)?;
            }
        }
        let mut cpu = Cpu::new(&stack, 0);
        cpu.settle();
        Ok(Self {
            cpu,
            source: Replay::new(frames),
            device,
            early: matches!(path, Path::Early | Path::EarlyFlower).then(EarlyDrop::default),
            backlog: path == Path::Forward,
            stack,
        })
    }

    /// Plays at least `packets` frames in batches of up to `most`. Returns nanoseconds per packet.
    pub fn play(&mut self, packets: usize, most: usize) -> f64 {
        self.source.limit(most);
        let (start, mut done) = (Instant::now(), 0);
        while done < packets {
            let (source, device, early) = (&self.source, &self.device, self.early.as_ref());
            let received = self.cpu.with(|cx| receive(cx, source, device, early));
            if received == 0 {
                return f64::NAN;
            }
            done += received;
            if self.backlog {
                self.cpu.turn();
            }
        }
        self.cpu.settle();
        start.elapsed().as_nanos() as f64 / done as f64
    }

    /// Does the same and returns the cost of each stage as well.
    pub fn play_by_stage(&mut self, packets: usize, most: usize) -> (f64, StageReport) {
        let before = stages::of(&self.cpu.state().stages);
        let ns = self.play(packets, most);
        (ns, stages::of(&self.cpu.state().stages).since(&before))
    }

    /// Switches the merging of received segments (`ethtool -K in0 gro`).
    pub fn merge(&self, on: bool) {
        let (features, guard) = (&self.device.features, self.stack.domain.pin());
        features.want(if on { bit::GRO } else { 0 }, bit::GRO);
        update_features(&self.stack, &guard, &self.device);
    }

    /// Switches the accounting of stages.
    pub fn account(&self, on: bool) {
        self.cpu.state().stages.switch(on);
    }

    /// Returns the number of packets that were dropped or sent at the end of the path.
    pub fn ended(&self) -> u64 {
        let guard = self.stack.domain.pin();
        let all = self.stack.all_namespaces();
        let devices = all.iter().flat_map(|ns| ns.all_devices());
        let ended = devices.map(|device| {
            let dropped: u64 = device.drops().iter().map(|(_, _, count)| count).sum();
            let sent = match device.name().as_str() {
                "out0" => device.totals().tx_packets,
                _ => 0,
            };
            dropped + sent
        });
        let ended = ended.sum();
        drop(guard);
        ended
    }
}

/// Receives a batch, as the loop of a CPU does.
fn receive(
    cx: &mut Cx<'_>,
    source: &Replay,
    device: &Arc<Device>,
    early: Option<&EarlyDrop>,
) -> usize {
    let mut batch = Batch::new();
    cx.state.stages.start();
    let taken = match early {
        Some(early) => early.receive(cx, device, |memory, sieve| {
            source.take(0, memory, &mut batch, sieve)
        }),
        None => {
            let mut memory = cx.state.cache.borrow_mut();
            source.receive(0, &mut memory, &mut batch)
        }
    };
    cx.state.stages.end(Stage::Port, batch.len());
    if !batch.is_empty() {
        datapath::receive(cx, device, batch);
    }
    // A source in memory does not fail.
    taken.unwrap_or_default()
}
