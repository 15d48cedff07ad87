// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fast Open of sockets (RFC 7413; `tcp_sendmsg_fastopen`, `tcp_try_fastopen`): `MSG_FASTOPEN` and `TCP_FASTOPEN_CONNECT` of
//! clients, `TCP_FASTOPEN` of listeners.
//!
//! Not served: `net.ipv4.tcp_fastopen_blackhole_timeout_sec` has no effect (its default of 0 means none).

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

use weir_inet::mib::{Count, Ext};
use weir_netlink::errno;
use weir_tcp::fast_open::{Client, Judgement, enable};
use weir_tcp::listener::Listener;
use weir_tcp::options::FastOpen;
use weir_tcp::{Config, Header, State};

use super::Tcp;
use super::core::{Core, Inner, Kind};
use super::opening::FastOpening;
use super::table::Connections;
use super::tuple::Tuple;
use crate::Outgoing;
use crate::cpu::Cx;
use crate::ports::tables;
use crate::socket::Socket;

const MSG_DONTWAIT: i32 = 0x40;
/// `MSG_FASTOPEN`
pub const MSG_FASTOPEN: i32 = 0x2000_0000;

/// The addresses that a cookie is made of: the client's and the server's.
fn addresses(client: IpAddr, server: IpAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    for ip in [client, server] {
        match ip {
            IpAddr::V4(ip) => bytes.extend(ip.octets()),
            IpAddr::V6(ip) => bytes.extend(ip.octets()),
        }
    }
    bytes
}

/// How a socket opens to a peer, if Fast Open takes part.
pub fn client(
    inner: &Inner,
    connections: &Connections,
    config: &Config,
    tuple: &Tuple,
    asked: bool,
) -> Option<Client> {
    if config.fast_open & enable::CLIENT == 0 || !(asked || inner.fast_open.connect) {
        return None;
    }
    let no_cookie = inner.fast_open.no_cookie || config.fast_open & enable::CLIENT_NO_COOKIE != 0;
    Some(
        connections
            .metrics()
            .client(tuple.local, tuple.remote, no_cookie),
    )
}

/// Whether a SYN opens a connection at once.
pub enum Verdict {
    /// Only a half-open one.
    No,
    /// Only a half-open one; the SYN-ACK carries a cookie.
    Cookie(FastOpen),
    /// It does; the SYN-ACK carries a new cookie in place of an old one.
    Yes(Option<FastOpen>),
}

/// Judges a SYN for a listener (`tcp_try_fastopen`).
pub fn judge(
    cx: &Cx<'_>,
    core: &Core,
    listener: &FastOpening,
    config: &Config,
    tuple: &Tuple,
    syn: &Header,
    data: bool,
) -> Verdict {
    let ext = &cx.mib(&core.ns).ext;
    let option = syn.options.fast_open;
    if option.is_some_and(|open| open.length == 0) {
        ext.add(Ext::TCPFastOpenCookieReqd, 1);
    }
    if config.fast_open & enable::SERVER == 0 || listener.most == 0 || !data && option.is_none() {
        return Verdict::No;
    }
    if listener.early.load(Relaxed) >= listener.most {
        ext.add(Ext::TCPFastOpenListenOverflow, 1);
        return Verdict::No;
    }
    if listener.no_cookie || config.fast_open & enable::SERVER_NO_COOKIE != 0 {
        ext.add(Ext::TCPFastOpenPassive, 1);
        return Verdict::Yes(None);
    }
    let Some(open) = option else {
        return Verdict::No;
    };
    let connections = &tables(&core.ns).tcp_connections;
    let keys = listener
        .keys
        .unwrap_or_else(|| connections.fast_open_keys(&core.ns));
    let addresses = addresses(tuple.remote, tuple.local);
    let mut new = keys.cookie(&addresses);
    new.experimental = open.experimental;
    if open.length == 0 {
        return Verdict::Cookie(new);
    }
    match keys.check(&addresses, &open) {
        Judgement::Wrong => {
            ext.add(Ext::TCPFastOpenPassiveFail, 1);
            Verdict::Cookie(new)
        }
        judgement => {
            ext.add(Ext::TCPFastOpenPassive, 1);
            let old = judgement == Judgement::Old;
            if old {
                ext.add(Ext::TCPFastOpenPassiveAltKey, 1);
            }
            Verdict::Yes(old.then_some(new))
        }
    }
}

impl Inner {
    /// The connection has left the state before its handshake: another early one may come.
    pub(super) fn count_early(&mut self) {
        let waits = matches!(&self.kind, Kind::Open(connection) if connection.is_early());
        if !waits && let Some(early) = self.early.take() {
            early.fetch_sub(1, Relaxed);
        }
    }
}

/// How many early connections a listener takes: all that may wait where the namespace says that no option is needed.
pub fn most<K, C>(inner: &FastOpening, config: &Config, listener: &Listener<K, C>) -> u32
where
    K: Ord + Clone,
{
    let all = enable::SERVER | enable::SERVER_WITHOUT_OPTION;
    if inner.most == 0 && config.fast_open & all == all {
        listener.backlog()
    } else {
        inner.most.min(listener.backlog())
    }
}

impl Tcp {
    /// `MSG_FASTOPEN`: connects, and sends data in the SYN if a cookie is there. Returns how many bytes that were.
    ///
    /// # Errors
    /// EINPROGRESS if none were sent; EOPNOTSUPP, EALREADY, those of `connect`.
    pub(super) fn send_fast(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        message: &Outgoing<'_>,
    ) -> Result<usize, i32> {
        let core = self.core(socket);
        let connections = &tables(socket.ns()).tcp_connections;
        let config = connections.config(socket.ns());
        let unspecified = crate::address::family(message.to) == Some(0);
        if config.fast_open & enable::CLIENT == 0 || unspecified {
            return Err(errno::EOPNOTSUPP);
        }
        let state = match &core.lock().kind {
            Kind::Open(connection) => Some((connection.state(), connection.is_deferred())),
            _ => None,
        };
        match state {
            None | Some((State::Closed, _)) => {}
            Some((State::SynSent, false)) => return Err(errno::EALREADY),
            // The SYN that waits for data, or a connection.
            Some(_) => return self.write_data(socket, cx, message.data, message.flags),
        }
        if message.to.is_empty() {
            return Err(errno::EDESTADDRREQ);
        }
        match self.begin(socket, cx, message.to, true) {
            Ok(()) | Err(errno::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
        if message.flags & MSG_DONTWAIT == 0
            && let Kind::Open(connection) = &mut core.lock().kind
            && connection.syn_room() < message.data.len()
        {
            connection.expect_data();
        }
        // The SYN waits, and leaves with what it has room for.
        match self.write_data(socket, cx, message.data, message.flags)? {
            0 => Err(errno::EINPROGRESS),
            count => Ok(count),
        }
    }
}
