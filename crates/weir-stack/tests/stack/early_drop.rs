// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Early drop on raw frames has the same effects as the ingress filters on packets: the same
//! statistics of filters, actions, qdisc and device, and the same packets survive.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use weir_netlink::tca::{self, flower, matchall};
use weir_netlink::{IfInfoMsg, TcGen, TcMsg, Writer, ifla, messages, nlm, rtm};
use weir_packet::Batch;
use weir_stack::connection::NoPeer;
use weir_stack::cpu::Cx;
use weir_stack::datapath::{self, EarlyDrop};
use weir_stack::link::RxHandler;
use weir_stack::{Config, Connection, Cpu, Device, Stack};

const ALL: u16 = 3;
const IP: u16 = 0x0800;
const VLAN: u16 = 0x8100;
const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Takes the packets that pass the filters.
#[derive(Default)]
struct Survivors(Mutex<Vec<(Vec<u8>, Option<u16>)>>);

impl RxHandler for Survivors {
    fn receive(&self, cx: &mut Cx<'_>, _: &Arc<Device>, batch: Batch) {
        let mut all = self.0.lock().unwrap();
        for packet in &batch {
            let tag = packet.vlan().map(|tag| tag.tci);
            all.push((packet.data().to_vec(), tag));
        }
        cx.consume_batch(batch);
    }
}

/// The keys of a flower filter.
#[derive(Debug, Clone, Default)]
struct Keys {
    destination: Option<u8>,
    source: Option<u8>,
    protocol: Option<u8>,
    address: Option<(u8, u8)>,
    port: Option<u8>,
    vlan: Option<u8>,
    indev: bool,
}

#[derive(Debug, Clone)]
enum Filter {
    Matchall,
    Flower(Keys),
}

/// A filter: priority, protocol, what it matches, the control action, and whether another action
/// follows.
type Rule = (u16, u16, Filter, i32, bool);

fn mac(n: u8) -> [u8; 6] {
    // Number 1 is the device, number 3 a group.
    [if n == 3 { 3 } else { 2 }, 0, 0, 0, 0, n]
}

struct Side {
    connection: Connection,
    cpu: Cpu,
    device: Arc<Device>,
    survivors: Arc<Survivors>,
}

impl Side {
    fn new(rules: &[Rule]) -> Self {
        let stack = weir_stack::build(Config::default());
        let ns = stack.namespace(Stack::INITIAL).unwrap();
        let mut connection = Connection::new(&stack, &ns, 1, Box::new(NoPeer), None);
        request(&mut connection, rtm::NEWLINK, nlm::F_CREATE, |out| {
            out.fixed(&IfInfoMsg {
                flags: ifla::iff::UP,
                change: ifla::iff::UP,
                ..IfInfoMsg::default()
            });
            out.put_str(ifla::IFNAME, "in0");
            out.put(ifla::ADDRESS, &HERE);
            let info = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, "dummy");
            out.end(info);
        });
        let device = ns.device_by_name("in0").unwrap();
        let tcm = TcMsg {
            ifindex: device.ifindex() as i32,
            handle: 0xffff_0000,
            parent: 0xffff_fff1,
            ..TcMsg::default()
        };
        request(&mut connection, rtm::NEWQDISC, nlm::F_CREATE, |out| {
            out.fixed(&tcm);
            out.put_str(tca::KIND, "clsact");
        });
        for rule in rules {
            // Some combinations are refused, on both sides.
            request(&mut connection, rtm::NEWTFILTER, nlm::F_CREATE, |out| {
                put_rule(out, device.ifindex(), rule);
            });
        }
        let mut cpu = Cpu::new(&stack, 0);
        cpu.settle();
        let survivors = Arc::new(Survivors::default());
        device.set_rx_handler(Some(survivors.clone()));
        Self {
            connection,
            cpu,
            device,
            survivors,
        }
    }

    /// Returns the statistics that `tc -s` shows, as messages.
    fn shown(&mut self) -> Vec<Vec<u8>> {
        let tcm = TcMsg {
            ifindex: self.device.ifindex() as i32,
            parent: 0xffff_fff2,
            ..TcMsg::default()
        };
        let mut shown = request(&mut self.connection, rtm::GETTFILTER, nlm::F_DUMP, |out| {
            out.fixed(&tcm);
        });
        let all = TcMsg::default();
        shown.extend(request(
            &mut self.connection,
            rtm::GETQDISC,
            nlm::F_DUMP,
            |out| out.fixed(&all),
        ));
        shown
    }
}

fn request(
    connection: &mut Connection,
    ty: u16,
    flags: u16,
    fill: impl FnOnce(&mut Writer),
) -> Vec<Vec<u8>> {
    let mut out = Writer::new();
    let message = out.message(ty, nlm::F_REQUEST | flags, 1, 0);
    fill(&mut out);
    out.finish(message).unwrap();
    connection.request(out.bytes());
    let mut answers = Vec::new();
    while let Some(datagram) = connection.mailbox().take() {
        answers.extend(messages(&datagram).map(|message| message.payload().to_vec()));
    }
    answers
}

fn put_action(out: &mut Writer, place: u16, control: i32) {
    let action = out.nest(place);
    out.put_str(tca::act::KIND, "gact");
    let inside = out.nest(tca::act::OPTIONS);
    let parms = TcGen {
        action: control,
        ..TcGen::default()
    };
    out.put_fixed(tca::gact::PARMS, &parms);
    out.end(inside);
    out.end(action);
}

fn put_rule(out: &mut Writer, ifindex: u32, (prio, protocol, filter, control, more): &Rule) {
    out.fixed(&TcMsg {
        ifindex: ifindex as i32,
        parent: 0xffff_fff2,
        info: TcMsg::make_info(*prio, *protocol),
        ..TcMsg::default()
    });
    let (kind, act) = match filter {
        Filter::Matchall => ("matchall", matchall::ACT),
        Filter::Flower(_) => ("flower", flower::ACT),
    };
    out.put_str(tca::KIND, kind);
    let options = out.nest(tca::OPTIONS);
    if let Filter::Flower(keys) = filter {
        put_keys(out, *protocol, keys);
    }
    let actions = out.nest(act);
    put_action(out, 1, *control);
    if *more {
        put_action(out, 2, 2);
    }
    out.end(actions);
    out.end(options);
}

fn put_keys(out: &mut Writer, protocol: u16, keys: &Keys) {
    if protocol != ALL {
        out.put_be16(flower::KEY_ETH_TYPE, protocol);
    }
    if let Some(n) = keys.destination {
        out.put(flower::KEY_ETH_DST, &mac(n));
    }
    if let Some(n) = keys.source {
        out.put(flower::KEY_ETH_SRC, &mac(n));
    }
    if keys.indev {
        out.put_str(flower::INDEV, "in0");
    }
    if protocol == VLAN
        && let Some(id) = keys.vlan
    {
        out.put_u16(flower::KEY_VLAN_ID, id.into());
    }
    if protocol == IP {
        if let Some(protocol) = keys.protocol {
            out.put_u8(flower::KEY_IP_PROTO, protocol);
        }
        if let Some((n, bits)) = keys.address {
            out.put(flower::KEY_IPV4_DST, &[10, 0, 0, n]);
            out.put_be32(flower::KEY_IPV4_DST_MASK, u32::MAX << (bits % 32));
        }
        if let Some(port) = keys.port
            && keys.protocol == Some(17)
        {
            out.put_be16(flower::KEY_UDP_DST, port.into());
        }
    }
}

/// Builds a frame: addresses, up to two tags, protocol, address, port, and a length to cut it to.
fn frame(
    (destination, source, tags, ty, protocol, address, port, cut): (
        u8,
        u8,
        Vec<u8>,
        u16,
        u8,
        u8,
        u8,
        usize,
    ),
) -> Vec<u8> {
    let mut frame = [mac(destination), mac(source)].concat();
    for tag in tags {
        frame.extend(VLAN.to_be_bytes());
        frame.extend([0x20, tag]);
    }
    frame.extend(ty.to_be_bytes());
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 9]);
    frame.extend([10, 0, 0, address, 0, 1, 0, port, 0, 26, 0, 0]);
    frame.resize(64, 7);
    frame.truncate(cut);
    frame
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let ty = prop_oneof![6 => Just(IP), 1 => Just(0x86dd_u16), 1 => Just(0x0806), 1 => Just(100)];
    let cut = prop_oneof![12 => Just(64_usize), 1 => 0..40_usize];
    let protocol = prop_oneof![Just(17_u8), Just(6), Just(1)];
    let tags = proptest::collection::vec(1..3_u8, 0..3);
    (1..4_u8, 1..4_u8, tags, ty, protocol, 1..5_u8, 1..4_u8, cut).prop_map(frame)
}

fn any_keys() -> impl Strategy<Value = Keys> {
    let maybe = |values: std::ops::Range<u8>| proptest::option::of(values);
    let protocol = proptest::option::of(prop_oneof![Just(17_u8), Just(6)]);
    let address = proptest::option::of((1..5_u8, prop_oneof![Just(0_u8), Just(1), Just(8)]));
    let indev = proptest::bool::weighted(0.05);
    let all = (
        maybe(1..4),
        maybe(1..4),
        protocol,
        address,
        maybe(1..4),
        maybe(1..3),
        indev,
    );
    all.prop_map(
        |(destination, source, protocol, address, port, vlan, indev)| Keys {
            destination,
            source,
            protocol,
            address,
            port,
            vlan,
            indev,
        },
    )
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let filter = prop_oneof![
        1 => Just(Filter::Matchall),
        6 => any_keys().prop_map(Filter::Flower),
    ];
    let protocol = prop_oneof![3 => Just(IP), 2 => Just(ALL), 1 => Just(VLAN)];
    // Drop, pass, continue, pipe, stolen.
    let control =
        prop_oneof![6 => Just(2), 1 => Just(0), 1 => Just(-1), 1 => Just(3), 1 => Just(4)];
    let more = proptest::bool::weighted(0.1);
    (1..5_u16, protocol, filter, control, more)
}

/// Receives frames as a port does that has them judged.
fn through_sieve(early: &EarlyDrop, cx: &mut Cx<'_>, device: &Arc<Device>, frames: &[Vec<u8>]) {
    let batch = early.receive(cx, device, |memory, sieve| {
        let all: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let dropped = sieve.map_or(0, |sieve| sieve(&all));
        let mut batch = Batch::new();
        for (n, frame) in all.iter().enumerate() {
            if dropped >> n & 1 == 0 {
                batch.push(memory.packet(frame).unwrap()).unwrap();
            }
        }
        batch
    });
    if !batch.is_empty() {
        datapath::receive(cx, device, batch);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn early_drop_counts_and_passes_what_the_filters_do(
        rules in proptest::collection::vec(any_rule(), 0..8),
        frames in proptest::collection::vec(any_frame(), 1..150),
    ) {
        let (mut plain, mut early) = (Side::new(&rules), Side::new(&rules));
        let state = EarlyDrop::default();
        for frames in frames.chunks(64) {
            let device = plain.device.clone();
            plain.cpu.with(|cx| {
                let mut batch = Batch::new();
                for frame in frames {
                    let packet = cx.state.cache.borrow_mut().packet(frame).unwrap();
                    batch.push(packet).unwrap();
                }
                datapath::receive(cx, &device, batch);
            });
            let device = early.device.clone();
            early.cpu.with(|cx| through_sieve(&state, cx, &device, frames));
        }
        prop_assert_eq!(plain.shown(), early.shown());
        let of = |side: &Side| {
            let totals = format!("{:?}", side.device.totals());
            (totals, side.device.drops(), side.survivors.0.lock().unwrap().clone())
        };
        prop_assert_eq!(of(&plain), of(&early));
    }
}

#[test]
fn early_drop_is_on_while_only_the_filters_look_at_frames() {
    struct Observer;
    impl weir_stack::device::Observer for Observer {
        fn frame(&self, _: &weir_stack::device::Tap<'_>) {}
    }
    let drop = (1, ALL, Filter::Matchall, 2, false);
    let mut side = Side::new(&[drop]);
    let (device, state) = (side.device.clone(), EarlyDrop::default());
    let frames = vec![frame((1, 2, vec![], IP, 17, 1, 1, 64)); 10];
    side.cpu
        .with(|cx| through_sieve(&state, cx, &device, &frames));
    assert_eq!(state.dropped(), 10);
    // A capture sees frames in front of the filters, so nothing is dropped before it.
    side.cpu
        .with(|cx| device.observe(cx.guard, Arc::new(Observer)));
    side.cpu
        .with(|cx| through_sieve(&state, cx, &device, &frames));
    assert_eq!(state.dropped(), 10);
    let why = side
        .cpu
        .with(|cx| datapath::early::why_not(cx.stack, &device, cx.guard));
    assert_eq!(why, Some("the device's frames are captured"));
    assert_eq!(device.totals().rx_packets, 20);
}

#[test]
fn early_drop_pauses_while_hardly_any_frame_is_dropped() {
    let keys = Keys {
        destination: Some(2),
        ..Keys::default()
    };
    let mut side = Side::new(&[(1, ALL, Filter::Flower(keys), 2, false)]);
    let (device, state) = (side.device.clone(), EarlyDrop::default());
    let passing = vec![frame((1, 2, vec![], IP, 17, 1, 1, 64)); 64];
    for _ in 0..64 {
        side.cpu
            .with(|cx| through_sieve(&state, cx, &device, &passing));
    }
    let dropped = vec![frame((2, 2, vec![], IP, 17, 1, 1, 64)); 64];
    for _ in 0..1024 {
        side.cpu
            .with(|cx| through_sieve(&state, cx, &device, &dropped));
    }
    assert_eq!(state.dropped(), 0);
    side.cpu
        .with(|cx| through_sieve(&state, cx, &device, &dropped));
    assert_eq!(state.dropped(), 64);
    assert_eq!(device.drops()[0].2, 64 * 1025);
}
