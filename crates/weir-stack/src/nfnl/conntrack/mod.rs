// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections (`ctnetlink`): list, look up, make, change, delete and count them.
//!
//! Mirrors net/netfilter/nf_conntrack_netlink.c. The table is [`weir_conntrack::Conntrack`]; a namespace without one
//! has an empty list.
//!
//! Not served, with EOPNOTSUPP and a sentence: helpers, connections with a master. Sequence adjustment and SYN proxies are ignored, as Linux ignores them for
//! connections without these extensions.

use std::sync::Arc;

use weir_conntrack::{
    Change, Conntrack, Create, CreateError, CreateNat, DccpInfo, DccpState, Handle, Origin,
    SctpInfo, SctpState, Snapshot, Statistics, TcpChange, TcpState, Tuple, Zone, ipct, ips, tuple,
};
use weir_netlink::{Attr, Error, Strictness, Table, Writer, cta, errno, nfnl, nlm};

use super::{Callback, Request, Started};
use crate::rtnl::{Collected, Ctl, Dump, DumpCtl};
use filter::Filter;
use wire::Side;

pub(crate) mod events;
mod filter;
pub(crate) mod wire;

/// The messages of the subsystem (`ctnl_cb`).
pub(super) static CALLBACKS: &[Callback] = &[
    Callback {
        message: nfnl::MSG_CT_NEW,
        call: new,
        policy: Some(&wire::POLICY),
    },
    Callback {
        message: nfnl::MSG_CT_GET,
        call: get,
        policy: Some(&wire::POLICY),
    },
    Callback {
        message: nfnl::MSG_CT_DELETE,
        call: delete,
        policy: Some(&wire::POLICY),
    },
    Callback {
        message: nfnl::MSG_CT_GET_CTRZERO,
        call: get,
        policy: Some(&wire::POLICY),
    },
    Callback {
        message: nfnl::MSG_CT_GET_STATS_CPU,
        call: statistics,
        policy: None,
    },
    Callback {
        message: nfnl::MSG_CT_GET_STATS,
        call: count,
        policy: None,
    },
    Callback {
        message: nfnl::MSG_CT_GET_DYING,
        call: none,
        policy: None,
    },
    Callback {
        message: nfnl::MSG_CT_GET_UNCONFIRMED,
        call: none,
        policy: None,
    },
];

fn invalid() -> Error {
    Error::new(errno::EINVAL)
}

/// The table of the socket's namespace.
fn table<'a>(ctl: &Ctl<'a>) -> Result<&'a Arc<Conntrack>, Error> {
    ctl.ns.tc.conntrack().ok_or(Error::new(errno::ENOMEM))
}

/// The origin of an event that the request causes.
fn origin(ctl: &Ctl<'_>) -> Origin {
    Origin::Netlink {
        portid: ctl.portid,
        report: ctl.has(nlm::F_ECHO),
    }
}

/// Sends the requester a copy of the event, if it asked for one (`NLM_F_ECHO`).
fn report(ctl: &mut Ctl<'_>, events: u32, connection: &Snapshot) {
    if ctl.has(nlm::F_ECHO) {
        let epoch = ctl.stack.clock.epoch_ns();
        let mut out = Writer::new();
        self::events::write(&mut out, events, connection, ctl.portid, epoch);
        ctl.answers.extend_from_slice(out.bytes());
    }
}

/// Finds the connection that a request names.
fn find(
    table: &Conntrack,
    (tuple, side): (&Tuple, Side),
    zone: Zone,
    now: u64,
) -> Result<Handle, Error> {
    let found = table.find(tuple, zone.of(side.direction()), now);
    found
        .map(|(handle, _)| handle)
        .ok_or(Error::new(errno::ENOENT))
}

/// Looks a connection up, or dumps the table (`ctnetlink_get_conntrack`).
fn get(ctl: &mut Ctl<'_>, request: &Request<'_>) -> Started {
    let zero = request.message == nfnl::MSG_CT_GET_CTRZERO;
    let family = request.header.family;
    if request.is_dump(ctl) {
        return request.dump(Box::new(All {
            from: 0,
            filter: Filter::read(&request.attrs, family)?,
            zero,
        }));
    }
    let mut zone = wire::zone(request.attrs.get(cta::ZONE))?;
    let named = wire::named(&request.attrs, family, &mut zone)?.ok_or_else(invalid)?;
    let (table, now) = (table(ctl)?, ctl.stack.clock.now());
    let handle = find(table, (&named.0, named.1), zone, now)?;
    let connection = table.snapshot(handle, now);
    let connection = connection.ok_or(Error::new(errno::ENOENT))?;
    if zero {
        zero_counters(table, &connection, now, Origin::Packet);
    }
    let epoch = ctl.stack.clock.epoch_ns();
    let ty = nfnl::msg_type(nfnl::SUBSYS_CTNETLINK, nfnl::MSG_CT_NEW);
    // A message of this family has the flag even outside of a dump.
    ctl.reply(ty, nlm::F_MULTI, |w| {
        wire::put_connection(w, &connection, epoch, 2)
    })?;
    Ok(None)
}

fn zero_counters(table: &Conntrack, connection: &Snapshot, now: u64, origin: Origin) {
    if connection.counters.is_some() {
        let change = Change {
            zero_counters: true,
            ..Change::default()
        };
        table.change(connection.handle, &change, now, origin);
    }
}

/// A dump of the table. It continues at an index, so connections that come and go meanwhile do no harm.
struct All {
    from: u32,
    filter: Option<Filter>,
    zero: bool,
}

impl Dump for All {
    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        let Some(table) = ctl.ns.tc.conntrack_if_used() else {
            return Ok(true);
        };
        let (now, epoch) = (ctl.stack.clock.now(), ctl.stack.clock.epoch_ns());
        let ty = nfnl::msg_type(nfnl::SUBSYS_CTNETLINK, nfnl::MSG_CT_NEW);
        while let Some(connection) = table.next(self.from, now) {
            let passes = self.filter.as_ref();
            if passes.is_none_or(|filter| filter.passes(&connection)) {
                if !ctl.message(out, ty, |w| wire::put_connection(w, &connection, epoch, 1)) {
                    self.from = connection.handle.index;
                    return match out.is_empty() {
                        true => Err(Error::new(errno::EMSGSIZE)),
                        false => Ok(false),
                    };
                }
                if self.zero {
                    zero_counters(table, &connection, now, Origin::Packet);
                }
            }
            self.from = connection.handle.index + 1;
        }
        Ok(true)
    }

    fn is_filtered(&self) -> bool {
        self.filter.is_some()
    }
}

/// Deletes a connection, or all that pass a filter (`ctnetlink_del_conntrack`).
fn delete(ctl: &mut Ctl<'_>, request: &Request<'_>) -> Started {
    let tb = &request.attrs;
    let mut zone = wire::zone(tb.get(cta::ZONE))?;
    let named = wire::named(tb, request.header.family, &mut zone)?;
    let now = ctl.stack.clock.now();
    let Some((tuple, side)) = named else {
        flush(ctl, request, now)?;
        return Ok(None);
    };
    let table = table(ctl)?;
    let handle = find(table, (&tuple, side), zone, now)?;
    let missing = || Error::new(errno::ENOENT);
    let connection = table.snapshot(handle, now).ok_or_else(missing)?;
    if let Some(id) = tb.get(cta::ID)
        && id.be32()? != connection.id
    {
        return Err(missing());
    }
    if !table.delete(handle, now, origin(ctl)) {
        return Err(missing());
    }
    report(ctl, ipct::DESTROY, &connection);
    Ok(None)
}

/// `ctnetlink_flush_conntrack`
fn flush(ctl: &mut Ctl<'_>, request: &Request<'_>, now: u64) -> Result<(), Error> {
    let family = match request.header.version {
        0 => 0,
        _ => request.header.family,
    };
    let filter = Filter::read(&request.attrs, family)?;
    if filter.is_some() && request.attrs.has(cta::FILTER) {
        return Err(Error::unsupported("A flush has no filter of tuples"));
    }
    let Some(table) = ctl.ns.tc.conntrack_if_used() else {
        return Ok(());
    };
    let mut from = 0;
    while let Some(connection) = table.next(from, now) {
        from = connection.handle.index + 1;
        if filter
            .as_ref()
            .is_none_or(|filter| filter.passes(&connection))
            && table.delete(connection.handle, now, origin(ctl))
        {
            report(ctl, ipct::DESTROY, &connection);
        }
    }
    Ok(())
}

/// Makes or changes a connection (`ctnetlink_new_conntrack`).
fn new(ctl: &mut Ctl<'_>, request: &Request<'_>) -> Started {
    let (tb, family) = (&request.attrs, request.header.family);
    let mut zone = wire::zone(tb.get(cta::ZONE))?;
    let mut read = |ty, side| match tb.get(ty) {
        Some(attr) => wire::tuple(&attr, family, side, &mut zone).map(Some),
        None => Ok(None),
    };
    let original = read(cta::TUPLE_ORIG, Side::Original)?;
    let reply = read(cta::TUPLE_REPLY, Side::Reply)?;
    let (table, now) = (table(ctl)?, ctl.stack.clock.now());
    let named = original.map(|tuple| (tuple, Side::Original));
    let named = named.or(reply.map(|tuple| (tuple, Side::Reply)));
    let found = named.map(|(tuple, side)| find(table, (&tuple, side), zone, now));
    match found {
        Some(Ok(_)) if ctl.has(nlm::F_EXCL) => Err(Error::new(errno::EEXIST)),
        Some(Ok(handle)) => {
            change(ctl, table, handle, tb, now)?;
            Ok(None)
        }
        _ if !ctl.has(nlm::F_CREATE) => Err(Error::new(errno::ENOENT)),
        _ => {
            let (Some(original), Some(reply)) = (original, reply) else {
                return Err(invalid());
            };
            if original.protocol != reply.protocol {
                return Err(invalid());
            }
            create(ctl, table, (original, reply, zone), tb, now)?;
            Ok(None)
        }
    }
}

/// `ctnetlink_create_conntrack`
fn create(
    ctl: &mut Ctl<'_>,
    table: &Conntrack,
    (original, reply, zone): (Tuple, Tuple, Zone),
    tb: &Table<'_>,
    now: u64,
) -> Result<(), Error> {
    let timeout = tb.get(cta::TIMEOUT).ok_or_else(invalid)?.be32()?;
    if let Some(attr) = tb.get(cta::HELP) {
        return Err(no_helper(&attr));
    }
    let range = |ty| match tb.get(ty) {
        Some(attr) => wire::range(&attr, original.family).map(Some),
        None => Ok(None),
    };
    let (destination, source) = (range(cta::NAT_DST)?, range(cta::NAT_SRC)?);
    let translates = destination.is_some() || source.is_some();
    let nat = translates.then_some(CreateNat {
        destination,
        source,
    });
    let status = match tb.get(cta::STATUS) {
        Some(attr) => change_status(ips::CONFIRMED, attr.be32()?)?,
        None => ips::CONFIRMED,
    };
    let info = protocol(tb, &original)?;
    let mark = match tb.get(cta::MARK) {
        Some(attr) => attr.be32()?,
        None => 0,
    };
    if let Some(attr) = tb.get(cta::TUPLE_MASTER) {
        let mut own = zone;
        let master = wire::tuple(&attr, original.family as u8, Side::Original, &mut own)?;
        find(table, (&master, Side::Original), zone, now)?;
        return Err(
            Error::unsupported("A connection has no master: there are no helpers").at(&attr),
        );
    }
    // Linux makes the connection even if its labels are wrong.
    let labels = labels(tb).ok().flatten();
    let create = Create {
        original,
        reply,
        zone,
        timeout: clamp(timeout),
        status,
        mark,
        labels: labels.map(|(labels, mask)| std::array::from_fn(|at| labels[at] & mask[at])),
        tcp: info.tcp,
        sctp: info.sctp,
        dccp: info.dccp,
        nat,
    };
    let made = table.create(&create, now, origin(ctl));
    let handle = made.map_err(|error| {
        Error::new(match error {
            CreateError::Exists => errno::EEXIST,
            CreateError::Full | CreateError::NoMemory => errno::ENOMEM,
        })
    })?;
    if let Some(connection) = table.snapshot(handle, now) {
        report(ctl, REQUESTED | ipct::NEW, &connection);
    }
    Ok(())
}

/// The events that Linux reports for every request that makes or changes a connection.
pub(super) const REQUESTED: u32 = ipct::REPLY
    | ipct::ASSURED
    | ipct::HELPER
    | ipct::PROTOINFO
    | ipct::SEQADJ
    | ipct::MARK
    | ipct::SYNPROXY;

/// `ctnetlink_change_conntrack`
fn change(
    ctl: &mut Ctl<'_>,
    table: &Conntrack,
    handle: Handle,
    tb: &Table<'_>,
    now: u64,
) -> Result<(), Error> {
    for ty in [cta::NAT_SRC, cta::NAT_DST, cta::TUPLE_MASTER] {
        if tb.has(ty) {
            return Err(Error::new(errno::EOPNOTSUPP));
        }
    }
    let missing = || Error::new(errno::ENOENT);
    let old = table.snapshot(handle, now).ok_or_else(missing)?;
    if let Some(attr) = tb.get(cta::HELP) {
        let name = helper(&attr)?;
        // A connection without a helper may be told to have none.
        if !name.is_empty() {
            return Err(no_helper(&attr));
        }
    }
    let mut change = Change::default();
    if let Some(attr) = tb.get(cta::TIMEOUT) {
        let timeout = attr.be32()?;
        if old.status & ips::FIXED_TIMEOUT != 0 {
            return Err(Error::new(errno::EPERM));
        }
        change.timeout = Some(clamp(timeout));
    }
    if let Some(attr) = tb.get(cta::STATUS) {
        change.status = Some(change_status(old.status, attr.be32()?)?);
    }
    let info = protocol(tb, &old.original)?;
    (change.tcp, change.sctp, change.dccp) = (info.tcp, info.sctp, info.dccp);
    if let Some(attr) = tb.get(cta::MARK) {
        let mask = tb
            .get(cta::MARK_MASK)
            .map_or(Ok(u32::MAX), |attr| attr.be32())?;
        // Linux does not mask the value (`ctnetlink_change_mark`).
        change.mark = Some(((old.mark & !mask) ^ attr.be32()?, u32::MAX));
    }
    change.labels = labels(tb)?;
    if !table.change(handle, &change, now, origin(ctl)) {
        return Err(missing());
    }
    if let Some(connection) = table.snapshot(handle, now) {
        report(ctl, REQUESTED | ipct::LABEL, &connection);
    }
    Ok(())
}

/// The longest time-out in seconds: Linux's is a signed number of its ticks.
fn clamp(timeout: u32) -> u32 {
    timeout.min(i32::MAX as u32 / 250)
}

/// Checks a change of the status (`nf_ct_change_status_common`). Returns the new one.
fn change_status(old: u32, new: u32) -> Result<u32, Error> {
    let changed = old ^ new;
    let only_set = ips::SEEN_REPLY | ips::ASSURED;
    if changed & (ips::EXPECTED | ips::CONFIRMED | ips::DYING) != 0
        || changed & !new & only_set != 0
    {
        return Err(Error::new(errno::EBUSY));
    }
    Ok(old & ips::UNCHANGEABLE | new & !ips::UNCHANGEABLE)
}

/// The state of a connection's protocol in a request.
#[derive(Default)]
struct ProtocolInfo {
    tcp: Option<TcpChange>,
    sctp: Option<SctpInfo>,
    dccp: Option<DccpInfo>,
}

/// Reads `CTA_PROTOINFO` of a connection (`ctnetlink_change_protoinfo`). The state of another protocol is ignored.
fn protocol(tb: &Table<'_>, original: &Tuple) -> Result<ProtocolInfo, Error> {
    let mut info = ProtocolInfo::default();
    let Some(attr) = tb.get(cta::PROTOINFO) else {
        return Ok(info);
    };
    let tb = attr.parse(&wire::PROTOINFO, Strictness::Liberal)?;
    match original.protocol {
        tuple::TCP => {
            info.tcp = tb
                .get(cta::protoinfo::TCP)
                .map(|attr| tcp(&attr))
                .transpose()?;
        }
        tuple::SCTP => {
            info.sctp = tb
                .get(cta::protoinfo::SCTP)
                .map(|attr| sctp(&attr))
                .transpose()?;
        }
        tuple::DCCP => {
            info.dccp = tb
                .get(cta::protoinfo::DCCP)
                .map(|attr| dccp(&attr))
                .transpose()?;
        }
        _ => {}
    }
    Ok(info)
}

/// `nlattr_to_sctp`
fn sctp(attr: &Attr<'_>) -> Result<SctpInfo, Error> {
    let tb = attr.parse(&wire::SCTP_INFO, Strictness::Liberal)?;
    let wanted = |ty| tb.get(ty).ok_or_else(invalid);
    Ok(SctpInfo {
        state: SctpState::of(wanted(cta::sctp::STATE)?.u8()?).ok_or_else(invalid)?,
        tags: [
            wanted(cta::sctp::VTAG_ORIGINAL)?.be32()?,
            wanted(cta::sctp::VTAG_REPLY)?.be32()?,
        ],
    })
}

/// `nlattr_to_dccp`
fn dccp(attr: &Attr<'_>) -> Result<DccpInfo, Error> {
    let tb = attr.parse(&wire::DCCP_INFO, Strictness::Liberal)?;
    let wanted = |ty| tb.get(ty).ok_or_else(invalid);
    let (state, role) = (
        wanted(cta::dccp::STATE)?.u8()?,
        wanted(cta::dccp::ROLE)?.u8()?,
    );
    if role > 1 {
        return Err(invalid());
    }
    let handshake = tb.get(cta::dccp::HANDSHAKE_SEQ).map(|attr| attr.be64());
    Ok(DccpInfo {
        state: DccpState::of(state).ok_or_else(invalid)?,
        reversed: role == 1,
        handshake: handshake.transpose()?.unwrap_or(0),
    })
}

/// `nlattr_to_tcp`
fn tcp(attr: &Attr<'_>) -> Result<TcpChange, Error> {
    let tb = attr.parse(&wire::TCP_INFO, Strictness::Liberal)?;
    let octet = |ty| tb.get(ty).map(|attr| attr.u8()).transpose();
    let flags = |ty| {
        let octets = tb.payload(ty).and_then(|octets| octets.first_chunk::<2>());
        octets.map(|&[flags, mask]| (flags, mask))
    };
    let scale = octet(cta::tcp::WSCALE_ORIGINAL)?.zip(octet(cta::tcp::WSCALE_REPLY)?);
    Ok(TcpChange {
        state: octet(cta::tcp::STATE)?.and_then(TcpState::of),
        scale: scale.map(|(original, reply)| [original, reply]),
        flags: [
            flags(cta::tcp::FLAGS_ORIGINAL),
            flags(cta::tcp::FLAGS_REPLY),
        ],
    })
}

/// Labels, and the mask of the bits that change.
type Labels = ([u8; 16], [u8; 16]);

/// Reads `CTA_LABELS` and their mask (`ctnetlink_attach_labels`).
fn labels(tb: &Table<'_>) -> Result<Option<Labels>, Error> {
    let Some(octets) = tb.payload(cta::LABELS) else {
        return Ok(None);
    };
    if !octets.len().is_multiple_of(4) || octets.len() > 16 {
        return Err(invalid());
    }
    let mut labels = [0; 16];
    labels[..octets.len()].copy_from_slice(octets);
    // Labels behind the given ones are cleared.
    let mut mask = [0xff; 16];
    if let Some(given) = tb.payload(cta::LABELS_MASK) {
        if given.is_empty() || given.len() != octets.len() {
            return Err(invalid());
        }
        mask[..given.len()].copy_from_slice(given);
    }
    Ok(Some((labels, mask)))
}

/// Reads the name of a helper (`ctnetlink_parse_help`).
fn helper<'a>(attr: &Attr<'a>) -> Result<&'a [u8], Error> {
    let tb = attr.parse(&wire::HELP, Strictness::Liberal)?;
    Ok(tb.get(cta::help::NAME).ok_or_else(invalid)?.c_str())
}

/// The refusal of a helper, by name.
fn no_helper(attr: &Attr<'_>) -> Error {
    match helper(attr) {
        Ok(name) => {
            let name = String::from_utf8_lossy(name);
            Error::unsupported(format!("There is no helper {name}")).at(attr)
        }
        Err(error) => error,
    }
}

/// Dumps the counters of each CPU (`ctnetlink_stat_ct_cpu`).
fn statistics(ctl: &mut Ctl<'_>, request: &Request<'_>) -> Started {
    if !request.is_dump(ctl) {
        return Ok(None);
    }
    let counted = ctl
        .ns
        .tc
        .conntrack_if_used()
        .map(|table| table.statistics());
    let all = every_cpu(counted.unwrap_or_default(), ctl.stack.config.cpus);
    let fill = |ctl: &DumpCtl<'_>, of: &Statistics, out: &mut Writer| {
        let ty = nfnl::msg_type(nfnl::SUBSYS_CTNETLINK, nfnl::MSG_CT_GET_STATS_CPU);
        ctl.message(out, ty, |w| {
            wire::header(w, 0, of.cpu as u16);
            w.put_be32(cta::stats::FOUND, of.found);
            w.put_be32(cta::stats::INVALID, of.invalid);
            w.put_be32(cta::stats::INSERT, of.insert);
            w.put_be32(cta::stats::INSERT_FAILED, of.insert_failed);
            w.put_be32(cta::stats::DROP, of.drop);
            w.put_be32(cta::stats::EARLY_DROP, of.early_drop);
            w.put_be32(cta::stats::ERROR, of.error);
            w.put_be32(cta::stats::SEARCH_RESTART, of.search_restart);
            w.put_be32(cta::stats::CLASH_RESOLVE, of.clash_resolve);
            w.put_be32(cta::stats::CHAIN_TOOLONG, of.chain_too_long);
        })
    };
    request.dump(Collected::boxed(all, false, fill))
}

/// Adds the CPUs that have counted nothing.
pub fn every_cpu(counted: Vec<Statistics>, cpus: usize) -> Vec<Statistics> {
    let mut all: Vec<Statistics> = (0..cpus as u32)
        .map(|cpu| Statistics {
            cpu,
            ..Statistics::default()
        })
        .collect();
    for of in counted {
        match all.get_mut(of.cpu as usize) {
            Some(place) => *place = of,
            None => all.push(of),
        }
    }
    all
}

/// Answers how many connections there are (`ctnetlink_stat_ct`).
fn count(ctl: &mut Ctl<'_>, _: &Request<'_>) -> Started {
    let count = ctl
        .ns
        .tc
        .conntrack_if_used()
        .map_or(0, |table| table.count());
    let most = ctl
        .ns
        .tc
        .conntrack_settings()
        .get(weir_conntrack::Setting::max);
    let ty = nfnl::msg_type(nfnl::SUBSYS_CTNETLINK, nfnl::MSG_CT_GET_STATS);
    ctl.reply(ty, nlm::F_MULTI, |w| {
        wire::header(w, 0, 0);
        w.put_be32(cta::stats_global::ENTRIES, count);
        w.put_be32(cta::stats_global::MAX_ENTRIES, most);
    })?;
    Ok(None)
}

/// Dumps the connections that are not in the table yet, or not any more: there are none at rest.
fn none(ctl: &mut Ctl<'_>, request: &Request<'_>) -> Started {
    if !request.is_dump(ctl) {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    let fill = |_: &DumpCtl<'_>, (): &(), _: &mut Writer| true;
    request.dump(Collected::boxed(Vec::new(), false, fill))
}
