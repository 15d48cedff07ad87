// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `balance`: a layer-4 load balancer. Not in Linux; `weir balance` makes it.
//!
//! Parameters: the service (family, protocol, address and port of the packets that clients send), up to 1,024 backends
//! (address, port, weight), and the number of flows that are remembered (default 65,536). A backend of port 0 gets the
//! service's port. A backend of weight 0 keeps its flows and gets no new ones.
//!
//! A packet to the service gets the address and port of its flow's backend as its destination; checksums are adjusted. A
//! packet from a backend gets those of the service as its source, so the action also belongs where answers arrive. ICMP
//! errors about either are translated with the packet inside. Other packets pass unchanged. A packet of the service is
//! dropped and counts as a drop if there is no backend. Truncated packets pass unchanged and count as overlimits.
//!
//! Only the first fragment of a packet has ports. Fragments to the service's address, or from a backend's, wait for the
//! others of their packet and count as stolen, as those of IPVS do (`ip_vs_gather_frags`); the last one goes on as the
//! whole packet. They share memory, time-outs and the way out with those of the action `ct` of zone 0.
//!
//! The backend of a new flow is that of a Maglev table (`weir_map::balance`). An LRU map remembers it while backends come
//! and go. A change of the action replaces the backends. With another number of flows it begins with an empty memory.
//! Replies need no memory: a backend has one service in an action.
//!
//! The options of a dump end with four numbers of 64 bits ([`attr::MOVES`]): flows that were new, and flows that were kept,
//! moved, and would have been moved by the table alone, counted at their first packet after a change.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_conntrack::{Family, Seen, ends_of_fragment};
use weir_map::balance::{Balancer, Memory, Moves};
use weir_map::{LruOptions, balance};
use weir_netlink::errno::{EINVAL, ENOMEM};
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Strictness, TcGen, Writer, policy};
use weir_packet::Packet;
use weir_packet::header::ethernet::{ETH_P_IP, ETH_P_IPV6};
use weir_sync::rcu::{Guard, Published};

use super::place::Place;
use super::{Common, Kind, Spec};
use crate::context::{Context, Defragmented};
use crate::env::Env;
use crate::host::Host;
use crate::net::NetTc;
use crate::verdict::{Code, Outcome, code};

/// The attributes. tc prints an action that it does not know as a gact, so the first two have the numbers of a gact's:
/// index, references, control action and ages are shown as they are.
pub mod attr {
    /// The ages, in dumps.
    pub const TM: u16 = 1;
    /// The common start.
    pub const PARMS: u16 = 2;
    /// The service: an [`Ends`](super::Ends).
    pub const SERVICE: u16 = 5;
    /// The number of flows that are remembered, 32 bits.
    pub const FLOWS: u16 = 6;
    /// The backends: a list of attributes with the weight (16 bits) and an [`Ends`](super::Ends).
    pub const BACKENDS: u16 = 7;
    /// What the changes did to flows, in dumps.
    pub const MOVES: u16 = 8;
    pub(super) const MAX: u16 = 8;
    /// The type of an element of the list of backends.
    pub const BACKEND: u16 = 1;
}

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::exact(TcGen::LEN as u16),
    attr::SERVICE => Rule::exact(Ends::LEN as u16),
    attr::FLOWS => Rule::u32(),
    attr::BACKENDS => Rule::nested_any(),
};

/// The flows that are remembered by default.
pub const FLOWS: u32 = 65_536;
/// The most flows that are remembered.
pub const MOST_FLOWS: u32 = 1 << 24;
/// The most backends.
pub const MOST_BACKENDS: usize = 1024;

/// A family, a protocol, an address and a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ends {
    /// The family of the address.
    pub family: Family,
    /// The protocol number.
    pub protocol: u8,
    /// The address. An IPv4 address is in the first 4 bytes, and the others are 0.
    pub address: [u8; 16],
    /// The port.
    pub port: u16,
}

impl Ends {
    /// The length in bytes: family, protocol, port in network order, address.
    pub const LEN: usize = 20;

    /// Returns the value of an attribute.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let [high, low] = self.port.to_be_bytes();
        bytes[..4].copy_from_slice(&[self.family as u8, self.protocol, high, low]);
        bytes[4..].copy_from_slice(&self.address);
        bytes
    }

    /// Reads the value of an attribute. `None` if the family is unknown, or an IPv4 address is longer than 4 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, address) = (bytes.first_chunk::<4>()?, bytes.get(4..)?);
        let address: [u8; 16] = address.try_into().ok()?;
        let family = match head[0] {
            2 if address[4..] == [0; 12] => Family::V4,
            10 => Family::V6,
            _ => return None,
        };
        Some(Self {
            family,
            protocol: head[1],
            address,
            port: u16::from_be_bytes([head[2], head[3]]),
        })
    }
}

/// What is remembered by: the address and port of a client.
type Key = [u8; 18];

/// A backend as a request lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its share of new flows.
    pub weight: u16,
    /// Its address and port, with the family and protocol of the service.
    pub ends: Ends,
}

/// The kind's part of an action.
pub struct Balance {
    state: Published<State>,
}

/// The state of an action.
struct State {
    service: Ends,
    balancer: Arc<Balancer<Key>>,
    /// The backends and their weights, by their numbers.
    backends: BTreeMap<u16, Listed>,
    /// Those that the last change removed: packets may be on their way to them and from them.
    leaving: BTreeMap<u16, Listed>,
    /// The addresses and ports of both.
    sources: BTreeSet<Ends>,
}

/// The attributes of a request.
pub struct Request {
    control: Code,
    service: Option<Ends>,
    flows: Option<u32>,
    backends: Vec<Listed>,
}

/// The parameters of an action.
pub struct Params {
    service: Ends,
    /// The number of flows of the request.
    flows: Option<u32>,
    memory: Memory<Key>,
    backends: Vec<Listed>,
}

/// What has become of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Done {
    /// It has another end now.
    Translated,
    /// It has nothing to do with the service.
    Other,
    /// It could not be read or translated.
    Unreadable,
    /// It is a fragment, and may belong to the service.
    Fragment,
    /// It belongs to the service, and there is no backend.
    NoBackend,
}

fn text(message: &'static str) -> Error {
    Error::msg(EINVAL, message)
}

/// Returns the number of each backend. A backend has the same number in every balancer and at every time, unless two
/// of them clash. `old` are those that were there before.
fn number(listed: &[Listed], old: &BTreeMap<u16, Listed>) -> BTreeMap<u16, Listed> {
    let before: BTreeMap<Ends, u16> = old.iter().map(|(id, old)| (old.ends, *id)).collect();
    let (mut numbered, mut new) = (BTreeMap::new(), Vec::new());
    for backend in listed {
        match before.get(&backend.ends) {
            Some(&id) => drop(numbered.insert(id, *backend)),
            None => new.push(*backend),
        }
    }
    // The order of a request does not matter.
    new.sort_unstable_by_key(|backend| backend.ends);
    for backend in new {
        let bytes = backend.ends.to_bytes();
        let mut id = (Balancer::hash(&bytes) >> 40) as u16;
        // The numbers of those that have just left are not used at once: flows remember them.
        while id == u16::MAX || numbered.contains_key(&id) || old.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        numbered.insert(id, backend);
    }
    numbered
}

impl State {
    fn new(
        service: Ends,
        balancer: Arc<Balancer<Key>>,
        backends: BTreeMap<u16, Listed>,
        mut leaving: BTreeMap<u16, Listed>,
    ) -> Self {
        leaving.retain(|id, _| !backends.contains_key(id));
        let all = backends.values().chain(leaving.values());
        Self {
            service,
            balancer,
            sources: all.map(|backend| backend.ends).collect(),
            backends,
            leaving,
        }
    }

    /// Has the balancer choose among the backends. The state is published already, so whoever gets one of them finds it
    /// there.
    fn choose(&self) {
        let of = |(&id, backend): (&u16, &Listed)| balance::Backend {
            id,
            weight: backend.weight,
        };
        let all: Vec<_> = self.backends.iter().map(of).collect();
        let set = self.balancer.set_backends(&all);
        debug_assert!(set.is_ok(), "the numbers differ");
    }

    /// Whether a packet comes from a backend's address or goes to the service's.
    fn is_known(&self, src: &[u8; 16], dst: &[u8; 16]) -> bool {
        let backend = |port| Ends {
            address: *src,
            port,
            ..self.service
        };
        let mut backends = self.sources.range(backend(0)..=backend(u16::MAX));
        *dst == self.service.address || backends.next().is_some()
    }

    /// Translates a packet that begins at its network header.
    fn translate(&self, packet: &mut [u8], family: Family, guard: &Guard) -> Done {
        if family != self.service.family {
            return Done::Other;
        }
        let Some(seen) = Seen::read(packet, family) else {
            return match ends_of_fragment(packet, family) {
                Some((src, dst)) if self.is_known(&src, &dst) => Done::Fragment,
                Some(_) => Done::Other,
                None => Done::Unreadable,
            };
        };
        let flow = seen.flow();
        let ends = |address, port| Ends {
            family,
            protocol: flow.protocol,
            address,
            port,
        };
        let translated = if ends(flow.dst, flow.dst_port) == self.service {
            let picked = self.balancer.pick(&key(flow.src, flow.src_port), guard);
            let known = |id| self.backends.get(&id).or_else(|| self.leaving.get(&id));
            let Some(to) = picked.and_then(|(id, _)| known(id)) else {
                return Done::NoBackend;
            };
            seen.send_to(packet, to.ends.address, to.ends.port)
        } else if self.sources.contains(&ends(flow.src, flow.src_port)) {
            seen.send_from(packet, self.service.address, self.service.port)
        } else {
            return Done::Other;
        };
        match translated {
            true => Done::Translated,
            false => Done::Unreadable,
        }
    }
}

fn key(address: [u8; 16], port: u16) -> Key {
    let mut key = [0; 18];
    key[..16].copy_from_slice(&address);
    key[16..].copy_from_slice(&port.to_be_bytes());
    key
}

fn family(packet: &Packet, place: Place) -> Option<Family> {
    match place.protocol(packet) {
        ETH_P_IP => Some(Family::V4),
        ETH_P_IPV6 => Some(Family::V6),
        _ => None,
    }
}

impl Balance {
    /// Translates a packet.
    fn translate(&self, cx: &Context<'_, '_>, packet: &mut Packet) -> Done {
        let place = Place::of(packet, cx);
        let Some(family) = family(packet, place) else {
            return Done::Other;
        };
        let state = self.state.load(cx.guard);
        let network = packet.mac_mut().get_mut(place.network..);
        let network = network.unwrap_or_default();
        match state.translate(network, family, cx.guard) {
            // The backends may have changed since the state was loaded.
            Done::NoBackend => {
                let state = self.state.load(cx.guard);
                state.translate(network, family, cx.guard)
            }
            done => done,
        }
    }
}

impl Kind for Balance {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let control = common.control();
        let mut done = self.translate(cx, packet);
        if done == Done::Fragment
            && let Some(defragment) = cx.defragment
        {
            match defragment(packet, 0) {
                Defragmented::Waits => return code::STOLEN,
                Defragmented::Whole(number) => {
                    cx.reassembled(packet, number);
                    done = self.translate(cx, packet);
                }
                Defragmented::Dropped(reason) => {
                    cx.note(packet, || format!("balance: {}", reason.sentence()));
                    common.counters.count_drop(cx.cpu);
                    out.reason = Some(reason);
                    return code::SHOT;
                }
            }
        }
        match done {
            Done::Translated => cx.packet_changed(),
            Done::Other => {}
            Done::Unreadable | Done::Fragment => common.counters.count_overlimit(cx.cpu),
            Done::NoBackend => {
                cx.note(packet, || "balance: there is no backend".to_owned());
                common.counters.count_drop(cx.cpu);
                return code::SHOT;
            }
        }
        control
    }

    fn prefetch_packets(&self, cx: &Context<'_, '_>, packets: &[Packet]) {
        let state = self.state.load(cx.guard);
        for packet in packets {
            let seen = family(packet, Place::of(packet, cx))
                .filter(|&family| family == state.service.family)
                .and_then(|family| Seen::read(packet.network(), family));
            if let Some(seen) = seen {
                let flow = seen.flow();
                state.balancer.prefetch(&key(flow.src, flow.src_port));
            }
        }
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let state = self.state.load(env.guard);
        w.put_fixed(attr::PARMS, &start);
        w.put(attr::SERVICE, &state.service.to_bytes());
        w.put_u32(attr::FLOWS, state.balancer.capacity());
        let list = w.nest(attr::BACKENDS);
        for backend in state.backends.values() {
            w.put(attr::BACKEND, &bytes_of(backend));
        }
        w.end(list);
        let moves = state.balancer.moves();
        let numbers = [moves.new, moves.kept, moves.moved, moves.table_moved];
        let bytes: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_ne_bytes())
            .collect();
        w.put(attr::MOVES, &bytes);
        w.put_fixed(attr::TM, &common.ages(env));
    }
}

/// Returns a backend as an element of the list.
pub fn bytes_of(backend: &Listed) -> [u8; 2 + Ends::LEN] {
    let mut bytes = [0; 2 + Ends::LEN];
    bytes[..2].copy_from_slice(&backend.weight.to_ne_bytes());
    bytes[2..].copy_from_slice(&backend.ends.to_bytes());
    bytes
}

/// Reads the list of backends of a service.
fn backends(list: &Attr<'_>, service: &Ends) -> Result<Vec<Listed>, Error> {
    let mut all = Vec::new();
    for element in list.attrs() {
        let read = element
            .payload
            .split_first_chunk::<2>()
            .and_then(|(weight, ends)| {
                Some(Listed {
                    weight: u16::from_ne_bytes(*weight),
                    ends: Ends::from_bytes(ends)?,
                })
            });
        let mut backend = read
            .filter(|_| element.ty == attr::BACKEND && element.payload.len() == 2 + Ends::LEN)
            .ok_or(text("act_balance: Invalid backend"))?;
        let ends = &mut backend.ends;
        if (ends.family, ends.protocol) != (service.family, service.protocol) {
            return Err(text(
                "act_balance: A backend differs from the service in family or protocol",
            ));
        }
        if ends.port == 0 {
            ends.port = service.port;
        }
        if *ends == *service {
            return Err(text("act_balance: The service cannot be its own backend"));
        }
        all.push(backend);
    }
    if all.len() > MOST_BACKENDS {
        return Err(text("act_balance: Too many backends"));
    }
    let different: BTreeSet<Ends> = all.iter().map(|backend| backend.ends).collect();
    if different.len() != all.len() {
        return Err(text("act_balance: A backend is listed twice"));
    }
    Ok(all)
}

impl Spec for Balance {
    const KIND: &'static str = "balance";
    type Request = Request;
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Request), Error> {
        let options = options.ok_or(text("act_balance: Attributes are missing"))?;
        let tb = options.parse(&POLICY, Strictness::Strict)?;
        let parms = tb
            .get(attr::PARMS)
            .and_then(|parms| TcGen::from_bytes(parms.payload))
            .ok_or(text("act_balance: Parameters are missing"))?;
        let service = match tb.get(attr::SERVICE) {
            Some(service) => {
                let service = Ends::from_bytes(service.payload)
                    .filter(|service| matches!(service.protocol, 6 | 17 | 33 | 132 | 136))
                    .filter(|service| service.port != 0)
                    .ok_or(text("act_balance: Invalid service"))?;
                Some(service)
            }
            None => None,
        };
        let flows = tb.get(attr::FLOWS).map(|flows| flows.u32()).transpose()?;
        if flows.is_some_and(|flows| !(1..=MOST_FLOWS).contains(&flows)) {
            return Err(text("act_balance: Invalid number of flows"));
        }
        let backends = match (tb.get(attr::BACKENDS), &service) {
            (Some(list), Some(service)) => backends(&list, service)?,
            _ => Vec::new(),
        };
        let request = Request {
            control: parms.action,
            service,
            flows,
            backends,
        };
        Ok((parms.index, request))
    }

    fn validate(request: &Request, _exists: bool) -> Result<(), Error> {
        match request.service {
            Some(_) => Ok(()),
            None => Err(text("act_balance: The service is missing")),
        }
    }

    fn control(request: &Request) -> Code {
        request.control
    }

    fn prepare(request: Request, _host: &dyn Host) -> Result<Params, Error> {
        let service = request
            .service
            .ok_or(text("act_balance: The service is missing"))?;
        let memory = Memory::new(request.flows.unwrap_or(FLOWS), LruOptions::default())
            .map_err(|_| Error::new(ENOMEM))?;
        Ok(Params {
            service,
            flows: request.flows,
            memory,
            backends: request.backends,
        })
    }

    fn create(params: Params, env: &Env<'_>) -> Self {
        env.net.look_up();
        let domain = env.net.domain();
        let balancer = Arc::new(Balancer::with_memory(domain, params.memory));
        let backends = number(&params.backends, &BTreeMap::new());
        let state = State::new(params.service, balancer, backends, BTreeMap::new());
        state.choose();
        Self {
            state: Published::new(domain, state),
        }
    }

    fn change(&self, params: Params) {
        let guard = self.state.domain().pin();
        let old = self.state.load(&guard);
        let fits = |flows| flows == old.balancer.capacity();
        // What was remembered of another service is of no use.
        let balancer = if params.service == old.service && params.flows.is_none_or(fits) {
            old.balancer.clone()
        } else {
            Arc::new(Balancer::with_memory(self.state.domain(), params.memory))
        };
        let backends = number(&params.backends, &old.backends);
        let state = State::new(params.service, balancer, backends, old.backends.clone());
        self.state.replace(state);
        self.state.load(&guard).choose();
    }
}

/// What an action does, for reports.
#[derive(Clone, Debug)]
pub struct Report {
    /// The index of the action.
    pub index: u32,
    /// The service.
    pub service: Ends,
    /// The number of flows that are remembered at most.
    pub flows: u32,
    /// The backends, in the order of their addresses.
    pub backends: Vec<Listed>,
    /// What the changes did to flows.
    pub moves: Moves,
    /// The packets that the action has seen, and those that it dropped.
    pub packets: [u64; 2],
}

/// Returns a report of each action of a namespace, by index.
pub fn reports(net: &NetTc, guard: &Guard) -> Vec<Report> {
    let ops = super::find_ops(Balance::KIND.as_bytes());
    let Some(table) = ops.and_then(|ops| net.actions_if_used(ops)) else {
        return Vec::new();
    };
    let (mut reports, mut from) = (Vec::new(), 0);
    while let Some((index, action)) = table.next(from) {
        from = index + 1;
        let kind: &dyn Any = &action.kind;
        let Some(balance) = kind.downcast_ref::<Balance>() else {
            continue;
        };
        let state = balance.state.load(guard);
        let mut backends: Vec<Listed> = state.backends.values().copied().collect();
        backends.sort_unstable_by_key(|backend| backend.ends);
        let totals = action.common.counters.totals();
        reports.push(Report {
            index,
            service: state.service,
            flows: state.balancer.capacity(),
            backends,
            moves: state.balancer.moves(),
            packets: [totals.packets, totals.drops.into()],
        });
    }
    reports
}

#[cfg(test)]
#[path = "balance/tests.rs"]
mod tests;
