// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tcp_metrics`: what TCP connections have learned about their peers.
//!
//! Mirrors the netlink part of net/ipv4/tcp_metrics.c. The table is [`weir_socket::Metrics`]. `ip tcp_metrics` shows and
//! deletes its entries.

use std::net::IpAddr;

use weir_netlink::{Attr, Error, GenlMsg, Policy, Rule, Table, Writer, errno, genl, policy};
use weir_socket::MetricsEntry;

use super::{Command, Family};
use crate::rtnl::{Collected, Ctl, Dump, DumpCtl};

const ID: u16 = genl::START_ALLOC + 2;
const VERSION: u8 = 1;
const GET: u8 = 1;
const DELETE: u8 = 2;
const MS: u64 = 1_000_000;

/// `TCP_METRICS_ATTR_*`
mod attr {
    pub const ADDR_IPV4: u16 = 1;
    pub const ADDR_IPV6: u16 = 2;
    pub const AGE: u16 = 3;
    pub const VALS: u16 = 6;
    pub const FOPEN_MSS: u16 = 7;
    pub const FOPEN_SYN_DROPS: u16 = 8;
    pub const FOPEN_SYN_DROP_TS: u16 = 9;
    pub const FOPEN_COOKIE: u16 = 10;
    pub const SADDR_IPV4: u16 = 11;
    pub const SADDR_IPV6: u16 = 12;
    pub const PAD: u16 = 13;
}

/// `TCP_METRIC_*`, each plus one: times in ms and in microseconds, the round-trip time times 8 and its variance times 4.
mod value {
    pub const RTT: u16 = 1;
    pub const RTT_VAR: u16 = 2;
    pub const SSTHRESH: u16 = 3;
    pub const CWND: u16 = 4;
    pub const REORDERING: u16 = 5;
    pub const RTT_US: u16 = 6;
    pub const RTT_VAR_US: u16 = 7;
}

/// The family; see the module documentation.
pub static FAMILY: Family = Family {
    id: ID,
    name: "tcp_metrics",
    version: VERSION,
    max: attr::PAD,
    strict: false,
    commands: &[
        Command {
            cmd: GET,
            admin: false,
            doit: Some(get),
            dumpit: Some(dump),
            policy: Some(&POLICY),
        },
        Command {
            cmd: DELETE,
            admin: true,
            doit: Some(delete),
            dumpit: None,
            policy: Some(&POLICY),
        },
    ],
    groups: &[],
};

/// `tcp_metrics_nl_policy`
static POLICY: Policy = policy! { max attr::PAD;
    attr::ADDR_IPV4 => Rule::u32(),
    attr::ADDR_IPV6 => Rule::binary(16),
    attr::SADDR_IPV4 => Rule::u32(),
    attr::SADDR_IPV6 => Rule::binary(16),
};

/// One entry: own address, peer's address, what is known.
type Item = (IpAddr, IpAddr, MetricsEntry);

/// Reads an address of either family (`__parse_nl_addr`).
fn address(tb: &Table<'_>, v4: u16, v6: u16) -> Result<Option<IpAddr>, Error> {
    let read = |attr: Attr<'_>| attr.ip().map_err(|_| Error::new(errno::EINVAL));
    match (tb.get(v4), tb.get(v6)) {
        (Some(attr), _) | (None, Some(attr)) => read(attr).map(Some),
        (None, None) => Ok(None),
    }
}

fn peer(tb: &Table<'_>) -> Result<Option<IpAddr>, Error> {
    address(tb, attr::ADDR_IPV4, attr::ADDR_IPV6)
}

fn own(tb: &Table<'_>) -> Result<Option<IpAddr>, Error> {
    address(tb, attr::SADDR_IPV4, attr::SADDR_IPV6)
}

/// Shows one entry (`tcp_metrics_nl_cmd_get`).
fn get(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    let remote = peer(tb)?.ok_or(Error::new(errno::EAFNOSUPPORT))?;
    let local = own(tb)?;
    let all = weir_socket::metrics(ctl.ns).all();
    let mut found = all.into_iter();
    let found = found.find(|item| item.1 == remote && local.is_none_or(|local| local == item.0));
    let item = found.ok_or(Error::new(errno::ESRCH))?;
    let now = ctl.stack.clock.now();
    ctl.reply(ID, 0, |w| fill(w, &item, now))
}

/// Deletes the entries of a peer, or all (`tcp_metrics_nl_cmd_del`).
fn delete(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    let metrics = weir_socket::metrics(ctl.ns);
    let Some(remote) = peer(tb)? else {
        metrics.clear();
        return Ok(());
    };
    match metrics.remove(own(tb)?, remote) {
        true => Ok(()),
        false => Err(Error::new(errno::ESRCH)),
    }
}

/// Dumps all entries (`tcp_metrics_nl_dump`).
fn dump(ctl: &Ctl<'_>, _: &Table<'_>) -> Result<Box<dyn Dump>, Error> {
    let now = ctl.stack.clock.now();
    let items: Vec<Item> = weir_socket::metrics(ctl.ns).all();
    let fill = move |ctl: &DumpCtl<'_>, item: &Item, out: &mut Writer| {
        ctl.message(out, ID, |w| fill(w, item, now))
    };
    Ok(Collected::boxed(items, false, fill))
}

/// Writes an entry (`tcp_metrics_fill_info`).
fn fill(w: &mut Writer, (local, remote, entry): &Item, now: u64) {
    w.fixed(&GenlMsg {
        cmd: GET,
        version: VERSION,
        reserved: 0,
    });
    match remote {
        IpAddr::V4(_) => {
            w.put_ip(attr::ADDR_IPV4, *remote);
            w.put_ip(attr::SADDR_IPV4, *local);
        }
        IpAddr::V6(_) => {
            w.put_ip(attr::ADDR_IPV6, *remote);
            w.put_ip(attr::SADDR_IPV6, *local);
        }
    }
    let since = |time: u64| now.saturating_sub(time) / MS;
    w.put_u64_pad(attr::AGE, since(entry.time), attr::PAD);
    let values = &entry.values;
    let (rtt, variance) = (values.rtt << 3, values.rtt_var << 2);
    let ms = |us: u32| if us == 0 { 0 } else { (us / 1000).max(1) };
    let list = [
        (value::RTT_US, rtt),
        (value::RTT, ms(rtt)),
        (value::RTT_VAR_US, variance),
        (value::RTT_VAR, ms(variance)),
        (value::SSTHRESH, values.ssthresh),
        (value::CWND, values.cwnd),
        (value::REORDERING, values.reordering),
    ];
    if list.iter().any(|(_, value)| *value != 0) {
        let nest = w.nest_noflag(attr::VALS);
        for (ty, value) in list.into_iter().filter(|(_, value)| *value != 0) {
            w.put_u32(ty, value);
        }
        w.end(nest);
    }
    if entry.mss != 0 {
        w.put_u16(attr::FOPEN_MSS, entry.mss);
    }
    if entry.drops.0 != 0 {
        w.put_u16(attr::FOPEN_SYN_DROPS, entry.drops.0);
        w.put_u64_pad(attr::FOPEN_SYN_DROP_TS, since(entry.drops.1), attr::PAD);
    }
    if let Some(cookie) = &entry.cookie {
        w.put(attr::FOPEN_COOKIE, cookie.bytes());
    }
}
