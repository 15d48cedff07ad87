// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ife`: carries metadata of a packet to another machine, in front of the packet.
//!
//! Mirrors net/sched/act_ife.c, net/sched/act_meta_*.c and net/ife/ife.c
//! (draft-ietf-forces-interfelfb).
//!
//! Parameters: the control action (default of tc: pipe), `encode` or `decode`; for encoding `type`
//! (the outer Ethertype, default 0xed3e), `dst` and `src` (the outer addresses, default: the
//! packet's), and the metadata: `allow mark|prio|tcindex` takes the value from the packet, `use ...
//! VALUE` uses the given value instead. Without any, all three are allowed, in this order.
//!
//! Encoding adds a copy of the Ethernet header, the length of the metadata and the metadata that
//! are not 0 in front of the frame. A packet without such metadata counts as an overlimit and
//! continues unchanged. A packet is dropped if it becomes longer than the device's MTU at egress,
//! or if the control action is drop. Decoding removes the metadata and sets those allowed; each one
//! not allowed counts as an overlimit. A malformed frame is dropped, and so is a packet without an
//! Ethernet header.
//!
//! As in Linux, a packet decoded at egress is sent without its Ethernet header, and one encoded at
//! ingress loses the outer header when it is redirected. Use encoding at egress and decoding at
//! ingress.

use weir_netlink::errno::{EINVAL, ENOENT};
use weir_netlink::tca::ife as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Strictness, TcGen, TcIfe, Writer, policy};
use weir_packet::header::ethernet;
use weir_packet::{Packet, PacketType};
use weir_sync::rcu::Published;

use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome, code};

/// `ETH_P_IFE`
const ETH_P_IFE: u16 = 0xed3e;
/// Size of an Ethernet header in bytes.
const ETH: usize = 14;
/// Size of the metadata's length field in bytes (`IFE_METAHDRLEN`).
const LENGTH: usize = 2;
/// Size of the type and length of one metadata item in bytes.
const HEADER: usize = 4;
/// Size of one metadata item in bytes. A value of two bytes is padded.
const DATUM: usize = 8;

type Mac = [u8; 6];

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcIfe::LEN as u16),
    attr::DMAC => Rule::unspec(6),
    attr::SMAC => Rule::unspec(6),
    attr::TYPE => Rule::u16(),
};

static META: Policy = policy! { max attr::META_MAX; };

/// A metadata item, and the value to use instead of the packet's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Meta {
    id: u16,
    value: Option<u32>,
}

impl Meta {
    const ALL: [u16; 3] = [attr::META_SKBMARK, attr::META_PRIO, attr::META_TCINDEX];

    /// Returns the size of the value in bytes.
    fn size(self) -> usize {
        if self.id == attr::META_TCINDEX { 2 } else { 4 }
    }

    fn of(self, packet: &Packet) -> u32 {
        match self.id {
            attr::META_SKBMARK => packet.mark,
            attr::META_PRIO => packet.priority,
            _ => u32::from(packet.tc_index),
        }
    }

    /// Returns whether the item takes space in the encoded metadata (`check_presence`).
    fn is_present(self, packet: &Packet) -> bool {
        self.value.is_some() || self.of(packet) != 0
    }

    /// Encodes the item and returns the bytes written. Writes nothing for a value of 0.
    fn encode(self, packet: &Packet, room: &mut [u8]) -> usize {
        let value = self.value.unwrap_or_else(|| self.of(packet));
        let size = self.size();
        let Some(room) = room.get_mut(..DATUM).filter(|_| value != 0) else {
            return 0;
        };
        room.fill(0);
        room[..2].copy_from_slice(&self.id.to_be_bytes());
        room[2..4].copy_from_slice(&((HEADER + size) as u16).to_be_bytes());
        room[4..4 + size].copy_from_slice(&value.to_be_bytes()[4 - size..]);
        DATUM
    }

    /// Sets the packet's metadata from the bytes where the value begins, whatever its length field
    /// says.
    fn decode(self, packet: &mut Packet, value: [u8; 4]) {
        match self.id {
            attr::META_SKBMARK => packet.mark = u32::from_be_bytes(value),
            attr::META_PRIO => packet.priority = u32::from_be_bytes(value),
            _ => packet.tc_index = u16::from_be_bytes([value[0], value[1]]),
        }
    }
}

/// The parameters of an action.
#[derive(Debug, Clone)]
pub struct Params {
    encode: bool,
    dst: Mac,
    src: Mac,
    ty: u16,
    metas: Vec<Meta>,
}

/// The kind's part of an action.
pub struct Ife {
    params: Published<Params>,
}

/// The packet cannot be handled and must be dropped.
struct Bad;

/// Adds the metadata in front of the packet, whose data begin at the Ethernet header.
fn encode(packet: &mut Packet, params: &Params, len: usize) -> Result<(), Bad> {
    let header: [u8; ETH] = packet.data().first_chunk().copied().ok_or(Bad)?;
    let mut metas = [0; DATUM * Meta::ALL.len()];
    let mut at = 0;
    for meta in &params.metas {
        at += meta.encode(packet, metas.get_mut(at..).unwrap_or_default());
    }
    let more = ETH + LENGTH + len;
    if packet.headroom() < more {
        *packet = packet.copy_with_headroom(more).ok_or(Bad)?;
    }
    let room = packet.push(more).ok_or(Bad)?;
    room[..ETH].copy_from_slice(&header);
    if params.dst != Mac::default() {
        room[..6].copy_from_slice(&params.dst);
    }
    if params.src != Mac::default() {
        room[6..12].copy_from_slice(&params.src);
    }
    room[12..ETH].copy_from_slice(&params.ty.to_be_bytes());
    room[ETH..ETH + LENGTH].copy_from_slice(&((len + LENGTH) as u16).to_be_bytes());
    room[ETH + LENGTH..].copy_from_slice(metas.get(..len).ok_or(Bad)?);
    packet.reset_mac();
    Ok(())
}

/// Returns the big-endian number in two bytes at offset `at`.
fn word(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..at + 2)?;
    Some(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
}

/// Removes the metadata from the packet, whose data begin at the outer Ethernet header. Returns the
/// number of items that were not allowed.
fn decode(packet: &mut Packet, params: &Params) -> Result<u32, Bad> {
    let len = word(packet.data(), ETH)
        .filter(|&len| len >= LENGTH)
        .ok_or(Bad)?;
    let end = ETH + len;
    if packet.len() < end + ETH {
        return Err(Bad);
    }
    let (mut at, mut unknown) = (ETH + LENGTH, 0);
    while at < end {
        let data = packet.data();
        let (id, len) = match (word(data, at), word(data, at + 2)) {
            (Some(id), Some(len)) if at + HEADER <= end && len >= HEADER => (id, len),
            _ => return Err(Bad),
        };
        let next = at + len.next_multiple_of(4);
        if next > end {
            return Err(Bad);
        }
        // An Ethernet header follows, so four bytes can be read even after an empty value.
        let value = data
            .get(at + HEADER..)
            .and_then(|data| data.first_chunk().copied());
        let meta = params.metas.iter().find(|meta| usize::from(meta.id) == id);
        match meta {
            Some(meta) => meta.decode(packet, value.unwrap_or_default()),
            None => unknown += 1,
        }
        at = next;
    }
    if packet.pull(end) {
        Ok(unknown)
    } else {
        Err(Bad)
    }
}

/// Sets the packet's fields as on reception (`eth_type_trans`) and the network header. The data
/// then begin after the Ethernet header.
fn set_received(packet: &mut Packet, address: Option<Mac>) -> Result<(), Bad> {
    packet.reset_mac();
    let header: [u8; ETH] = packet.data().first_chunk().copied().ok_or(Bad)?;
    if !packet.pull(ETH) {
        return Err(Bad);
    }
    packet.set_network(0);
    packet.unset_transport();
    packet.protocol =
        ethernet::protocol(u16::from_be_bytes([header[12], header[13]]), packet.data());
    if address.is_some_and(|address| header[..6] != address) {
        // A packet addressed to this device keeps its packet type.
        packet.set_pkt_type(match header[..6] {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => PacketType::Broadcast,
            [first, ..] if first & 1 != 0 => PacketType::Multicast,
            _ => PacketType::OtherHost,
        });
    }
    Ok(())
}

impl Ife {
    /// Encodes or decodes a packet and returns the resulting code.
    fn process(
        &self,
        common: &Common,
        cx: &mut Context<'_, '_>,
        packet: &mut Packet,
    ) -> Result<Code, Bad> {
        if cx.ingress && Context::mac_len(packet) != ETH {
            return Err(Bad);
        }
        let params = self.params.load(cx.guard);
        let control = common.control();
        if !params.encode {
            if cx.ingress && !packet.data_to_mac() {
                return Err(Bad);
            }
            let unknown = decode(packet, params)?;
            for _ in 0..unknown {
                common.counters.count_overlimit(cx.cpu);
            }
            set_received(packet, cx.device().map(|device| device.address()))?;
            return match cx.ingress && !packet.data_to_mac() {
                true => Err(Bad),
                false => Ok(control),
            };
        }
        let present = params.metas.iter().filter(|meta| meta.is_present(packet));
        let len = present.count() * DATUM;
        if len == 0 {
            common.counters.count_overlimit(cx.cpu);
            return Ok(control);
        }
        let mtu = cx.device().map_or(u32::MAX, |device| device.mtu());
        let new_len = packet.len() + len + ETH + LENGTH;
        if control == code::SHOT || (!cx.ingress && new_len as u64 > u64::from(mtu)) {
            return Err(Bad);
        }
        if cx.ingress && !packet.data_to_mac() {
            return Err(Bad);
        }
        encode(packet, params, len)?;
        if cx.ingress && !packet.pull(ETH) {
            return Err(Bad);
        }
        Ok(control)
    }
}

impl Kind for Ife {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let result = self.process(common, cx, packet);
        cx.packet_changed();
        result.unwrap_or_else(|Bad| {
            common.counters.count_drop(cx.cpu);
            code::SHOT
        })
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let params = self.params.load(env.guard);
        w.put_fixed(
            attr::PARMS,
            &TcIfe {
                common: start,
                flags: if params.encode { attr::ENCODE } else { 0 },
                pad: 0,
            },
        );
        w.put_fixed(attr::TM, &common.ages(env));
        for (ty, mac) in [(attr::DMAC, params.dst), (attr::SMAC, params.src)] {
            if mac != Mac::default() {
                w.put(ty, &mac);
            }
        }
        w.put_u16(attr::TYPE, params.ty);
        if !params.metas.is_empty() {
            let nest = w.nest_noflag(attr::METALST);
            for meta in &params.metas {
                match meta.value {
                    Some(value) if meta.size() == 2 => w.put_u16(meta.id, value as u16),
                    Some(value) => w.put_u32(meta.id, value),
                    None => w.put(meta.id, &[]),
                }
            }
            w.end(nest);
        }
    }
}

/// Options whose syntax has been checked.
pub struct Request {
    control: Code,
    params: Params,
}

/// Parses a list of metadata (`load_metalist`).
fn metas(list: &Attr<'_>) -> Result<Vec<Meta>, Error> {
    let tb = list.parse(&META, Strictness::Liberal)?;
    let one = |id| {
        let attr = tb.get(id)?;
        let meta = Meta { id, value: None };
        if !Meta::ALL.contains(&id) {
            return Some(Err(Error::new(ENOENT)));
        }
        let value = match (attr.len(), meta.size()) {
            (0, _) => Ok(None),
            (2, 2) => attr.u16().map(|value| Some(u32::from(value))),
            (4, 4) => attr.u32().map(Some),
            _ => Err(Error::new(EINVAL)),
        };
        Some(value.map(|value| Meta { id, value }))
    };
    (1..=attr::META_MAX).filter_map(one).collect()
}

impl Spec for Ife {
    const KIND: &'static str = "ife";
    type Request = Request;
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Request), Error> {
        let missing = "act_ife: IFE requires attributes to be passed";
        let options = options.ok_or(Error::msg(EINVAL, missing))?;
        let tb = options.parse_quietly(&POLICY)?;
        let parms = tb.get(attr::PARMS).ok_or(Error::new(EINVAL))?;
        let parms = TcIfe::from_bytes(parms.payload).ok_or(Error::new(EINVAL))?;
        if parms.flags & !attr::ENCODE != 0 {
            return Err(Error::new(EINVAL));
        }
        let encode = parms.flags & attr::ENCODE != 0;
        let mac = |ty| -> Result<Mac, Error> {
            match tb.get(ty).filter(|_| encode) {
                Some(mac) => mac.array().map_err(Error::quiet),
                None => Ok(Mac::default()),
            }
        };
        let metas = match tb.get(attr::METALST) {
            Some(list) => metas(&list).map_err(Error::quiet)?,
            None => Meta::ALL.map(|id| Meta { id, value: None }).to_vec(),
        };
        let ty = match tb.get(attr::TYPE) {
            Some(ty) => ty.u16().map_err(Error::quiet)?,
            None => ETH_P_IFE,
        };
        let params = Params {
            encode,
            dst: mac(attr::DMAC)?,
            src: mac(attr::SMAC)?,
            ty: if encode { ty } else { 0 },
            metas,
        };
        let control = parms.common.action;
        Ok((parms.common.index, Request { control, params }))
    }

    fn control(request: &Request) -> Code {
        request.control
    }

    fn prepare(request: Request, _host: &dyn Host) -> Result<Params, Error> {
        Ok(request.params)
    }

    published!(params: Published);
}
