// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench path`: the shipped capture, from memory, through receive, flower (10 masks, 10,000
//! rules), the FIB (100,000 routes) and transmit to a null port, on one CPU. The peer is testpmd's
//! macswap of the same packets, if DPDK is installed.
//!
//! The rules match nothing in the capture, so every IPv4 packet is looked up under all ten masks.
//! The frames are those of the capture that are routed. Frames to the router itself (ARP, neighbour
//! discovery) and frames that would make it answer are left out, and the report says so.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use weir_netlink::tca::{self, flower};
use weir_netlink::{
    IfAddrMsg, IfInfoMsg, NdMsg, RtMsg, TcMsg, Writer, af, ifa, ifla, nda, nlm, rta, rtm,
};
use weir_packet::Batch;
use weir_port::pcap::Reader;
use weir_port::{Frame, Source};
use weir_stack::connection::{Connection, NoPeer};
use weir_stack::stages::Stage;
use weir_stack::{Config, Cpu, Stack};

use super::{Bench, Options, Report, Row, Series, testpmd};
use crate::report::stages;

/// The benchmark.
pub static BENCH: Bench = Bench {
    name: "path",
    about: "a packet's path: receive, 10,000 flower rules, 100,000 routes, transmit",
    run,
};

static CAPTURE: &[u8] = include_bytes!("../../../../examples/edge-router/lan.pcapng.gz");

const MASKS: u32 = 10;
const RULES: u32 = 10_000;
const ROUTES: u32 = 100_000;
/// The goal of the project, ns per packet.
const GOAL: f64 = 150.0;
/// The router's address in the capture.
const ROUTER: [u8; 6] = [2, 0, 0, 1, 0, 1];

struct Client(Connection);

impl Client {
    /// Sends one request. An error ends the benchmark.
    fn send(&mut self, ty: u16, flags: u16, fill: impl FnOnce(&mut Writer)) -> Result<(), String> {
        let mut out = Writer::new();
        let mark = out.message(ty, nlm::F_REQUEST | flags, 1, 0);
        fill(&mut out);
        out.finish(mark)
            .map_err(|_| "a request is too long".to_owned())?;
        self.0.request(out.bytes());
        while let Some(answer) = self.0.mailbox().take() {
            for message in weir_netlink::messages(&answer) {
                let errno = message
                    .payload()
                    .first_chunk()
                    .map_or(0, |code| i32::from_ne_bytes(*code));
                if message.header.ty == nlm::ERROR && errno != 0 {
                    return Err(format!(
                        "set-up: request {ty} was refused with errno {}",
                        -errno
                    ));
                }
            }
        }
        Ok(())
    }

    fn dummy(&mut self, name: &str, mac: [u8; 6]) -> Result<(), String> {
        self.send(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&IfInfoMsg {
                flags: ifla::iff::UP,
                change: ifla::iff::UP,
                ..IfInfoMsg::default()
            });
            out.put_str(ifla::IFNAME, name);
            out.put(ifla::ADDRESS, &mac);
            let info = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, "dummy");
            out.end(info);
        })
    }

    fn address(
        &mut self,
        index: u32,
        family: u8,
        address: &[u8],
        prefixlen: u8,
    ) -> Result<(), String> {
        self.send(rtm::NEWADDR, nlm::F_CREATE | nlm::F_EXCL, |out| {
            let flags = if family == af::INET6 {
                ifa::f::NODAD as u8
            } else {
                0
            };
            out.fixed(&IfAddrMsg {
                family,
                prefixlen,
                flags,
                scope: 0,
                index,
            });
            out.put(ifa::LOCAL, address);
            out.put(ifa::ADDRESS, address);
        })
    }

    fn route(&mut self, family: u8, dst: &[u8], dst_len: u8, via: &[u8]) -> Result<(), String> {
        self.send(rtm::NEWROUTE, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&RtMsg {
                family,
                dst_len,
                table: 254,
                protocol: 4,
                ty: 1,
                ..RtMsg::default()
            });
            if dst_len > 0 {
                out.put(rta::DST, dst);
            }
            out.put(rta::GATEWAY, via);
        })
    }

    fn neighbour(&mut self, index: u32, family: u8, address: &[u8]) -> Result<(), String> {
        self.send(rtm::NEWNEIGH, nlm::F_CREATE | nlm::F_REPLACE, |out| {
            out.fixed(&NdMsg {
                family,
                ifindex: index as i32,
                state: nda::nud::PERMANENT,
                ..NdMsg::default()
            });
            out.put(nda::DST, address);
            out.put(nda::LLADDR, &[2, 0, 0, 2, 0, 2]);
        })
    }

    fn clsact(&mut self, index: u32) -> Result<(), String> {
        self.send(rtm::NEWQDISC, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&TcMsg {
                ifindex: index as i32,
                handle: 0xffff_0000,
                parent: 0xffff_fff1,
                ..TcMsg::default()
            });
            out.put_str(tca::KIND, "clsact");
        })
    }

    /// Adds a rule that drops packets to one prefix of 172.16.0.0/12.
    fn rule(&mut self, index: u32, number: u32) -> Result<(), String> {
        let length = 32 - number % MASKS;
        let address = 0xac10_0000 | (number / MASKS) << MASKS;
        let mask = u32::MAX << (32 - length);
        self.send(rtm::NEWTFILTER, nlm::F_CREATE | nlm::F_EXCL, |out| {
            let info = 1 << 16 | u32::from(0x0800u16.to_be());
            out.fixed(&TcMsg {
                ifindex: index as i32,
                parent: 0xffff_fff2,
                info,
                ..TcMsg::default()
            });
            out.put_str(tca::KIND, "flower");
            let options = out.nest(tca::OPTIONS);
            out.put_be16(flower::KEY_ETH_TYPE, 0x0800);
            out.put_be32(flower::KEY_IPV4_DST, address & mask);
            out.put_be32(flower::KEY_IPV4_DST_MASK, mask);
            let actions = out.nest(flower::ACT);
            let action = out.nest(1);
            out.put_str(tca::act::KIND, "gact");
            let inside = out.nest(tca::act::OPTIONS);
            // struct tc_gact: index, capab, action (drop), refcnt, bindcnt.
            let mut parameters = [0u8; 20];
            parameters[8..12].copy_from_slice(&2i32.to_ne_bytes());
            out.put(tca::gact::PARMS, &parameters);
            out.end(inside);
            out.end(action);
            out.end(actions);
            out.end(options);
        })
    }
}

/// Returns the frames of the capture that are routed.
fn frames() -> Result<Vec<Vec<u8>>, String> {
    let mut reader =
        Reader::new("the shipped capture", CAPTURE).map_err(|error| error.to_string())?;
    let mut frame = Frame::new(0, Vec::new());
    let mut all = Vec::new();
    while reader.read(&mut frame).map_err(|error| error.to_string())? {
        let data = &frame.data;
        let routed = match data.get(12..14) {
            // Addressed to the WAN's network, with a TTL above 1.
            Some([0x08, 0x00]) => {
                data.get(30..32) == Some(&[10, 2]) && data.get(22).is_some_and(|ttl| *ttl > 1)
            }
            Some([0x86, 0xdd]) => {
                data.get(38..44) == Some(&[0x20, 0x01, 0x0d, 0xb8, 0, 2])
                    && data.get(21).is_some_and(|hops| *hops > 1)
            }
            _ => false,
        };
        if routed && data.get(..6) == Some(&ROUTER) {
            all.push(data.clone());
        }
    }
    if all.is_empty() {
        Err("the shipped capture has no routed frames".into())
    } else {
        Ok(all)
    }
}

struct Bed {
    stack: Stack,
    cpu: Cpu,
    frames: Vec<Vec<u8>>,
}

fn set_up() -> Result<Bed, String> {
    let stack = weir_stack::build(Config::default());
    let ns = stack
        .namespace(Stack::INITIAL)
        .ok_or("the stack has no namespace")?;
    let mut client = Client(Connection::new(&stack, &ns, 1, Box::new(NoPeer), None));
    for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        weir_stack::sysctl::tree::write(&stack, &ns, path, b"1")
            .map_err(|errno| format!("{path}: errno {errno}"))?;
    }
    let v6 = |net: u8, host: u8| [0x20, 1, 0x0d, 0xb8, 0, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, host];
    client.dummy("lan0", ROUTER)?;
    client.dummy("wan0", [2, 0, 0, 2, 0, 1])?;
    client.address(2, af::INET, &[10, 1, 0, 1], 24)?;
    client.address(3, af::INET, &[10, 2, 0, 1], 24)?;
    client.address(2, af::INET6, &v6(1, 1), 64)?;
    client.address(3, af::INET6, &v6(2, 1), 64)?;
    client.neighbour(3, af::INET, &[10, 2, 0, 2])?;
    client.neighbour(3, af::INET6, &v6(2, 2))?;
    client.route(af::INET, &[], 0, &[10, 2, 0, 2])?;
    client.clsact(2)?;
    for number in 0..ROUTES {
        // 20.0.0.0 and up, /24 each, scattered by an odd multiplier.
        let net = 0x1400_0000 | (number.wrapping_mul(0x9e37_79b1) >> 15) << 8 & 0x01ff_ff00;
        // Some prefixes come up twice; the second gets another prefix length.
        let added = client.route(af::INET, &net.to_be_bytes(), 24, &[10, 2, 0, 2]);
        if added.is_err() {
            let other = 0x4000_0000 | number << 8;
            client.route(af::INET, &other.to_be_bytes(), 24, &[10, 2, 0, 2])?;
        }
        if number < RULES {
            client.rule(2, number)?;
        }
        if number % 20_000 == 0 {
            eprint!("\rset-up: {} %", number * 100 / ROUTES);
        }
    }
    eprintln!("\rset-up done     ");
    let mut cpu = Cpu::new(&stack, 0);
    cpu.settle();
    Ok(Bed {
        stack,
        cpu,
        frames: frames()?,
    })
}

/// Plays the frames `rounds` times. Returns nanoseconds per packet.
fn play(bed: &mut Bed, rounds: usize) -> Result<f64, String> {
    let ns = bed
        .stack
        .namespace(Stack::INITIAL)
        .ok_or("the stack has no namespace")?;
    let lan = ns.device_by_name("lan0").ok_or("lan0 is gone")?;
    let (start, mut packets) = (Instant::now(), 0usize);
    for _ in 0..rounds {
        for chunk in bed.frames.chunks(64) {
            packets += bed.cpu.with(|cx| {
                let mut batch = Batch::new();
                let wanted = chunk.len();
                let stages = &cx.state.stages;
                stages.start();
                let got = stages.inner(Stage::Buffers, wanted, || {
                    cx.state.cache.borrow_mut().alloc_bulk(&mut batch, wanted)
                });
                let mut packets = batch.iter_mut().zip(chunk);
                let whole = packets.all(|(packet, frame)| packet.append(frame));
                if got < wanted || !whole {
                    return Err("the frames do not fit into the pool's buffers");
                }
                // The frames come from memory, as from a port.
                cx.state.stages.end(Stage::Port, got);
                weir_stack::datapath::receive(cx, &lan, batch);
                Ok(got)
            })?;
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / packets as f64)
}

/// Writes the frames as a plain capture file, for testpmd.
fn write_capture(frames: &[Vec<u8>], path: &std::path::Path) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    file.write_all(&0xa1b2_c3d4u32.to_ne_bytes())?;
    file.write_all(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
    file.write_all(&65_535u32.to_ne_bytes())?;
    file.write_all(&1u32.to_ne_bytes())?;
    for frame in frames {
        let len = (frame.len() as u32).to_ne_bytes();
        file.write_all(&[0; 8])?;
        file.write_all(&len)?;
        file.write_all(&len)?;
        file.write_all(frame)?;
    }
    file.flush()
}

fn run(options: &Options) -> Result<Report, String> {
    let mut bed = set_up()?;
    let (runs, rounds) = if options.short { (5, 200) } else { (9, 2_000) };
    let mut notes = vec![format!(
        "{} routed frames of the shipped capture, in batches of up to 64",
        bed.frames.len()
    )];
    let mut weir = Series::default();
    let mut peer = Series::default();
    let file = std::env::temp_dir().join(format!("weir-bench-{}.pcap", std::process::id()));
    let mut peer_works = match testpmd::available() {
        Ok(()) if options.short => {
            notes.push("testpmd is not measured with --short".into());
            false
        }
        Ok(()) => write_capture(&bed.frames, &file).is_ok(),
        Err(why) => {
            notes.push(why);
            false
        }
    };
    play(&mut bed, rounds / 10)?; // warm
    let before = stages::of(&bed.cpu.state().stages);
    let mut total = 0.0;
    for run in 0..runs {
        eprint!("\rrun {} of {runs}", run + 1);
        let ns = play(&mut bed, rounds)?;
        total += ns * (rounds * bed.frames.len()) as f64;
        weir.0.push(ns);
        if peer_works {
            match testpmd::run(&file, 3) {
                Ok(ns) => peer.0.push(ns),
                Err(why) => {
                    notes.push(why);
                    peer_works = false;
                }
            }
        }
    }
    eprintln!("\rruns done     ");
    // The file may never have been written.
    let _ = std::fs::remove_file(&file);
    let stages = stages::of(&bed.cpu.state().stages).since(&before);
    let dropped: u64 = bed
        .stack
        .all_namespaces()
        .iter()
        .flat_map(|ns| ns.all_devices())
        .flat_map(|device| device.drops())
        .map(|(_, _, count)| count)
        .sum();
    notes.push(format!("{dropped} packets dropped in all runs"));
    let mut peers = BTreeMap::new();
    if !peer.0.is_empty() {
        peers.insert("testpmd".to_owned(), peer);
    }
    let row = Row {
        id: "forward".into(),
        measure: format!(
            "a packet through receive, flower ({MASKS} masks, {RULES} rules), FIB ({ROUTES} routes), transmit"
        ),
        unit: "ns",
        higher_is_better: false,
        weir,
        peers,
        goal: Some(GOAL),
        note: notes.join("; "),
    };
    let packets = (runs * rounds * bed.frames.len()) as f64;
    let detail = format!(
        "{}{}the clock measured {:.1} ns per packet\n",
        stages.to_text(),
        stages.groups_to_text(),
        total / packets,
    );
    Ok(Report {
        bench: BENCH.name,
        rows: vec![row],
        curves: Vec::new(),
        detail,
    })
}
