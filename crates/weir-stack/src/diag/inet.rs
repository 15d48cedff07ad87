// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Internet sockets (`net/ipv4/inet_diag.c`, `udp_diag.c`, `raw_diag.c`).

use std::net::IpAddr;
use std::sync::Arc;

use weir_netlink::{Error, Writer, attrs, errno};

use super::filter::Filter;
use super::{AF_INET6, BY_FAMILY, DESTROY, Started, word};
use crate::request::Collected;
use crate::rtnl::Ctl;
use crate::socket::Socket;
use crate::socket::shown::{Kind, Shown};

const IPPROTO_TCP: u8 = 6;
/// `TCP_SYN_RECV`
const SYN_RECEIVED: u8 = 3;
const IPPROTO_UDP: u8 = 17;
const IPPROTO_RAW: u8 = 255;

/// The length of `struct inet_diag_req_v2` in bytes.
const REQUEST: usize = 56;

/// `INET_DIAG_*`
mod attr {
    pub const MEMINFO: u16 = 1;
    pub const INFO: u16 = 2;
    pub const VEGASINFO: u16 = 3;
    pub const CONG: u16 = 4;
    pub const TOS: u16 = 5;
    pub const TCLASS: u16 = 6;
    pub const SKMEMINFO: u16 = 7;
    pub const SHUTDOWN: u16 = 8;
    pub const PROTOCOL: u16 = 10;
    pub const SKV6ONLY: u16 = 11;
    pub const MARK: u16 = 15;
    pub const BBRINFO: u16 = 16;
    pub const CGROUP_ID: u16 = 21;
    pub const SOCKOPT: u16 = 22;
    /// `INET_DIAG_REQ_BYTECODE`
    pub const BYTECODE: u16 = 1;
}

/// A request (`struct inet_diag_req_v2`).
struct Request {
    family: u8,
    kind: Kind,
    /// The protocol of raw sockets, or 0 for all.
    raw: u8,
    ext: u8,
    states: u32,
    ports: (u16, u16),
    src: [u8; 16],
    dst: [u8; 16],
    device: u32,
    cookie: [u32; 2],
}

fn parse(bytes: &[u8]) -> Result<Request, Error> {
    let invalid = || Error::new(errno::EINVAL);
    let head = bytes.first_chunk::<REQUEST>().ok_or_else(invalid)?;
    let [family, protocol, ext, pad, ..] = *head;
    let be16 = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let octets = |at: usize| {
        let bytes = head.get(at..).and_then(|rest| rest.first_chunk::<16>());
        bytes.copied().unwrap_or_default()
    };
    let at = |at| word(head, at).unwrap_or(0);
    Ok(Request {
        family,
        kind: match protocol {
            IPPROTO_TCP => Kind::Tcp,
            IPPROTO_UDP => Kind::Udp,
            IPPROTO_RAW => Kind::Raw,
            // A kernel without the protocol's module.
            _ => return Err(Error::new(errno::ENOENT)),
        },
        raw: if protocol == IPPROTO_RAW { pad } else { 0 },
        ext,
        states: at(4),
        ports: (be16(8), be16(10)),
        src: octets(12),
        dst: octets(28),
        device: at(44),
        cookie: [at(48), at(52)],
    })
}

/// Serves a request (`inet_diag_handler_cmd`).
pub fn start(ctl: &mut Ctl<'_>, dump: bool) -> Started {
    let payload = ctl.message.payload();
    let request = parse(payload)?;
    if !dump {
        return exact(ctl, &request);
    }
    let mut filter = None;
    let attributes = payload.get(REQUEST..).unwrap_or_default();
    for attribute in attrs(attributes) {
        if attribute.ty == attr::BYTECODE {
            filter = Some(Filter::new(attribute.payload).map_err(Error::new)?);
        }
    }
    let now = ctl.stack.clock.now();
    let listed = match request.kind {
        Kind::Tcp => crate::socket::listed(ctl.ns, now, ctl.guard),
        _ => Vec::new(),
    };
    let shown: Vec<Shown> = crate::socket::all(ctl.ns)
        .iter()
        .filter(|socket| socket.shown_as() == request.kind)
        .map(|socket| socket.shown(now))
        .chain(listed)
        .filter(|one| request.takes(one))
        .filter(|one| filter.as_ref().is_none_or(|filter| filter.takes(one)))
        .collect();
    let ext = request.ext;
    Ok(Some(Collected::boxed(
        shown,
        false,
        move |ctl, one, out| ctl.message(out, BY_FAMILY, |out| fill(out, one, ext)),
    )))
}

impl Request {
    /// Returns whether a dump shows a socket.
    fn takes(&self, one: &Shown) -> bool {
        one.kind == self.kind
            && one.family == i32::from(self.family)
            && self.states >> one.state & 1 == 1
            && (self.raw == 0 || i32::from(self.raw) == one.protocol)
            && (self.ports.0 == 0 || self.ports.0 == one.local.1 || one.kind == Kind::Raw)
            && (self.ports.1 == 0 || self.ports.1 == one.remote.1 || one.kind == Kind::Raw)
    }

    /// Returns whether a socket is the one that the request names.
    fn names(&self, one: &Shown) -> bool {
        let same = |address: IpAddr, octets: &[u8; 16]| match address {
            IpAddr::V4(ip) => octets.first_chunk() == Some(&ip.octets()),
            IpAddr::V6(ip) => *octets == ip.octets(),
        };
        let v6 = self.family == AF_INET6;
        one.kind == self.kind
            && (one.family == i32::from(AF_INET6)) == v6
            && one.local.1 == self.ports.0
            && (one.remote.1 == self.ports.1 || one.kind == Kind::Raw)
            && same(one.local.0, &self.src)
            && same(one.remote.0, &self.dst)
            && (self.device == 0 || one.device as u32 == self.device)
    }

    fn find(&self, ctl: &Ctl<'_>) -> Result<(Arc<Socket>, Shown), Error> {
        let now = ctl.stack.clock.now();
        let all = crate::socket::all(ctl.ns).into_iter();
        let of_kind = all.filter(|socket| socket.shown_as() == self.kind);
        let mut named = of_kind.map(|socket| {
            let shown = socket.shown(now);
            (socket, shown)
        });
        let found = named.find(|(_, shown)| self.names(shown));
        let (socket, shown) = found.ok_or_else(|| Error::new(errno::ENOENT))?;
        // INET_DIAG_NOCOOKIE
        let [low, high] = self.cookie;
        let wanted = u64::from(high) << 32 | u64::from(low);
        if (low, high) != (u32::MAX, u32::MAX) && wanted != shown.cookie {
            return Err(Error::new(errno::ESTALE));
        }
        Ok((socket, shown))
    }
}

/// Answers with one socket, or ends it (`inet_diag_cmd_exact`).
fn exact(ctl: &mut Ctl<'_>, request: &Request) -> Started {
    let (socket, shown) = request.find(ctl)?;
    if ctl.message.header.ty == DESTROY {
        ctl.stack.post(Box::new(move |cx| {
            // It may have been closed meanwhile.
            let _ = socket.destroy(cx);
        }));
        return Ok(None);
    }
    let ext = request.ext;
    ctl.reply(BY_FAMILY, 0, |out| fill(out, &shown, ext))?;
    Ok(None)
}

/// Writes a `struct inet_diag_msg` and its attributes (`inet_sk_diag_fill`).
fn fill(out: &mut Writer, one: &Shown, ext: u8) {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
        IpAddr::V6(ip) => ip.octets(),
    };
    let (timer, expires, retried) = one.timer;
    let mut head = vec![one.family as u8, one.state, timer, retried];
    head.extend(one.local.1.to_be_bytes());
    head.extend(one.remote.1.to_be_bytes());
    head.extend(octets(one.local.0));
    head.extend(octets(one.remote.0));
    head.extend(one.device.to_ne_bytes());
    head.extend((one.cookie as u32).to_ne_bytes());
    head.extend(((one.cookie >> 32) as u32).to_ne_bytes());
    for word in [
        expires,
        one.queued.0,
        one.queued.1,
        one.uid,
        one.inode as u32,
    ] {
        head.extend(word.to_ne_bytes());
    }
    out.raw(&head);
    if one.kind == Kind::Tcp && one.tcp.is_none() {
        // A half-open connection, or one in TIME_WAIT.
        if one.state == SYN_RECEIVED {
            out.put_u32(attr::MARK, one.mark);
        }
        return;
    }
    let wants = |attr: u16| ext >> (attr - 1) & 1 == 1;
    out.put_u8(attr::SHUTDOWN, one.shutdown);
    if wants(attr::TOS) {
        out.put_u8(attr::TOS, one.tos);
    }
    if one.family == i32::from(AF_INET6) {
        if wants(attr::TCLASS) {
            out.put_u8(attr::TCLASS, one.tclass);
        }
        if matches!(one.state, 7 | 10) {
            out.put_u8(attr::SKV6ONLY, one.v6only.into());
        }
    }
    out.put_u32(attr::MARK, one.mark);
    // The root of the hierarchy of control groups.
    out.put_u64(attr::CGROUP_ID, 1);
    out.put(attr::SOCKOPT, &[0, 0]);
    let (received, sent) = one.queued;
    if wants(attr::MEMINFO) {
        let words = [received, sent, 0, sent];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        out.put(attr::MEMINFO, &bytes);
    }
    if wants(attr::SKMEMINFO) {
        let (rcvbuf, sndbuf) = one.buffers;
        let words = [received, rcvbuf, sent, sndbuf, 0, sent, 0, 0, one.drops];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        out.put(attr::SKMEMINFO, &bytes);
    }
    if one.kind == Kind::Raw {
        out.put_u8(attr::PROTOCOL, one.protocol as u8);
    }
    if let Some((info, congestion)) = &one.tcp {
        if wants(attr::INFO) {
            out.put(attr::INFO, info);
        }
        if wants(attr::CONG) {
            out.put_str(attr::CONG, congestion);
        }
        // A request has no bit for it: that of Vegas stands for all algorithms (`bbr_get_info`).
        if let Some(info) = one.congestion_info.filter(|_| wants(attr::VEGASINFO)) {
            out.put(attr::BBRINFO, &info);
        }
    }
}
