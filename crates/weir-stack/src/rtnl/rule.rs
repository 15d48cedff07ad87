// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policy rules: RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE (`net/core/fib_rules.c`).
//!
//! Rules of multicast routing choose the table of multicast routes ([`crate::multicast::tables`]). Addresses and types of
//! service mean nothing in them.
//!
//! Not implemented, and rejected by name: realms.

use std::sync::Arc;

use weir_netlink::fra::{self, act};
use weir_netlink::{
    Attr, Error, FibRuleHdr, Policy, Rule as Check, Strictness, Table, Writer, af, errno, policy,
    rtm,
};

use crate::device::Device;
use crate::fib::host::{AnyRule, WithRoutes};
use crate::fib::rule::{Entry, Ports, Rule};
use crate::fib::{Address, Family, lpm};
use crate::ipv4::multicast::V4;
use crate::ipv6::multicast::V6;
use crate::multicast::tables;
use crate::namespace::Namespace;
use crate::rtnl::route::multicast::Told;
use crate::rtnl::{Collected, Ctl, Dump, Handler, announce};
use crate::stack::Stack;

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWRULE,
        doit: Some(|ctl| change(ctl, true)),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELRULE,
        doit: Some(|ctl| change(ctl, false)),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETRULE,
        doit: None,
        dumpit: Some(dump),
    },
];

/// `fib_rule_policy`
static POLICY: Policy = policy! {
    max fra::MAX;
    fra::IIFNAME => Check::string(15),
    fra::OIFNAME => Check::string(15),
    fra::PRIORITY => Check::u32(),
    fra::FWMARK => Check::u32(),
    fra::FLOW => Check::u32(),
    fra::TUN_ID => Check::u64(),
    fra::FWMASK => Check::u32(),
    fra::TABLE => Check::u32(),
    fra::SUPPRESS_PREFIXLEN => Check::u32(),
    fra::SUPPRESS_IFGROUP => Check::u32(),
    fra::GOTO => Check::u32(),
    fra::L3MDEV => Check::u8(),
    fra::UID_RANGE => Check::unspec(8),
    fra::PROTOCOL => Check::u8(),
    fra::IP_PROTO => Check::u8(),
    fra::SPORT_RANGE => Check::unspec(4),
    fra::DPORT_RANGE => Check::unspec(4),
};

fn invalid<T>(text: &'static str) -> Result<T, Error> {
    Err(Error::msg(errno::EINVAL, text))
}

fn group<K: Address>() -> u32 {
    if K::IPV6 {
        rtm::grp::IPV6_RULE
    } else {
        rtm::grp::IPV4_RULE
    }
}

/// Adds or deletes a rule (`fib_nl_newrule`, `fib_nl_delrule`).
fn change(ctl: &mut Ctl<'_>, add: bool) -> Result<(), Error> {
    let ns = ctl.ns.clone();
    let message = ctl.message;
    let Ok(header) = message.fixed::<FibRuleHdr>() else {
        return invalid("Invalid msg length");
    };
    match header.family {
        af::INET => change_in(ctl, &ns, &ns.fib().v4, add),
        af::INET6 => change_in(ctl, &ns, &ns.fib().v6, add),
        af::IPMR => change_multicast::<V4>(ctl, &ns, add),
        af::IP6MR => change_multicast::<V6>(ctl, &ns, add),
        _ => Err(Error::msg(errno::EAFNOSUPPORT, "Rule family not supported")),
    }
}

fn change_in<K: Address>(
    ctl: &mut Ctl<'_>,
    ns: &Arc<Namespace>,
    family: &Family<K, Arc<Device>>,
    add: bool,
) -> Result<(), Error> {
    let message = ctl.message;
    let (header, attrs) = message
        .parse::<FibRuleHdr>(&POLICY, Strictness::Liberal)
        .map_err(|error| error.or_msg("Error parsing msg"))?;
    let mut rule = parse::<K>(&header, &attrs)?;
    let priority = attrs.u32(fra::PRIORITY)?;
    if !add {
        rule.priority = priority.unwrap_or(0);
        // The rule is read before it is looked for (`fib_nl2rule`).
        rule.check_goto(attrs.u32(fra::GOTO)?)?;
        let gone = family.rules().delete(&rule, priority.is_some())?;
        notify(ctl, ns, rtm::DELRULE, &gone);
        return Ok(());
    }
    if K::IPV6 {
        if header.tos & 3 != 0 {
            return invalid("Invalid dsfield (tos): ECN bits must be 0");
        }
        if rule.action == act::TO_TBL && rule.table == 0 && !rule.l3mdev {
            return invalid("Invalid table");
        }
    } else {
        if header.tos & 3 != 0 {
            return invalid("Invalid dsfield (tos): ECN bits must be 0");
        }
        if header.tos & !0x1e != 0 {
            return invalid("Invalid tos");
        }
        if rule.action == act::TO_TBL && rule.table == 0 && !rule.l3mdev {
            rule.table = family
                .empty_table(ctl.guard)
                .ok_or_else(|| Error::new(errno::ENOBUFS))?;
        }
    }
    let table = rule.table;
    let looks_up = rule.action == act::TO_TBL && !rule.l3mdev;
    let index = |name: &str| ns.device_by_name(name).map(|device| device.ifindex());
    let flags = message.header.flags;
    let entry = family
        .rules()
        .add(rule, priority, attrs.u32(fra::GOTO)?, flags, index)?;
    if looks_up && (K::IPV6 || header.table == 0 && !attrs.has(fra::TABLE)) {
        family.make_table(table, ctl.guard);
    }
    notify(ctl, ns, rtm::NEWRULE, &entry);
    Ok(())
}

/// Adds or deletes a rule of multicast routing.
fn change_multicast<F: Told>(
    ctl: &mut Ctl<'_>,
    ns: &Arc<Namespace>,
    add: bool,
) -> Result<(), Error> {
    let message = ctl.message;
    let (header, attrs) = message
        .parse::<FibRuleHdr>(&POLICY, Strictness::Liberal)
        .map_err(|error| error.or_msg("Error parsing msg"))?;
    let mut rule = Rule {
        src: lpm::Key::ZERO,
        src_len: 0,
        dst: lpm::Key::ZERO,
        dst_len: 0,
        tos: 0,
        ..parse::<F::Prefix>(&header, &attrs)?
    };
    let (priority, goto) = (attrs.u32(fra::PRIORITY)?, attrs.u32(fra::GOTO)?);
    let host = super::route::host(ctl);
    let entry = match add {
        true => tables::add_rule::<F>(&host, rule, priority, goto, message.header.flags)?,
        false => {
            rule.priority = priority.unwrap_or(0);
            rule.check_goto(goto)?;
            tables::delete_rule::<F>(&host, &rule, priority.is_some())?
        }
    };
    let ty = if add { rtm::NEWRULE } else { rtm::DELRULE };
    ctl.notify(ns, group::<F::Prefix>(), ty, 0, |out| {
        fill(out, F::FAMILY, &entry);
    });
    Ok(())
}

/// Parses a rule (`validate_rulemsg`, `fib_nl2rule`).
fn parse<K: Address>(header: &FibRuleHdr, attrs: &Table<'_>) -> Result<Rule<K>, Error> {
    let prefix = |ty, len: u8, text| -> Result<K, Error> {
        if len == 0 {
            return Ok(K::ZERO);
        }
        let address = attrs
            .get(ty)
            .filter(|attr| len <= K::BITS && attr.len() == usize::from(K::BITS / 8))
            .and_then(|attr| attr.ip().ok())
            .and_then(K::from_ip);
        address.map_or_else(|| invalid(text), Ok)
    };
    let src = prefix(fra::SRC, header.src_len, "Invalid source address")?;
    let dst = prefix(fra::DST, header.dst_len, "Invalid dst address")?;
    if attrs.u8(fra::L3MDEV)?.is_some_and(|value| value != 1) {
        return invalid("Invalid l3mdev attribute");
    }
    let unserved = [(fra::FLOW, "Weir has no routing realms")];
    for (ty, text) in unserved {
        if let Some(attr) = attrs.get(ty) {
            return Err(Error::unsupported(text).at(&attr));
        }
    }
    let l3mdev = attrs.has(fra::L3MDEV);
    let table = attrs
        .u32(fra::TABLE)?
        .unwrap_or_else(|| u32::from(header.table));
    if l3mdev && table != 0 {
        return invalid("l3mdev and table are mutually exclusive");
    }
    let mark = attrs.u32(fra::FWMARK)?.unwrap_or(0);
    // A mark without a mask compares all bits.
    let mask = if mark != 0 { u32::MAX } else { 0 };
    // -1 on the wire means none.
    let limit = |ty| -> Result<Option<u32>, Error> {
        Ok(attrs.u32(ty)?.filter(|&value| value != u32::MAX))
    };
    let name = |ty| -> Result<String, Error> { Ok(attrs.str(ty)?.unwrap_or_default().to_owned()) };
    let ports = |ty, text| -> Result<Option<Ports>, Error> {
        attrs.get(ty).map(|attr| range(&attr, text)).transpose()
    };
    Ok(Rule {
        priority: 0,
        action: header.action,
        table,
        l3mdev,
        flags: header.flags,
        src,
        src_len: header.src_len,
        dst,
        dst_len: header.dst_len,
        tos: header.tos,
        mark,
        mask: attrs.u32(fra::FWMASK)?.unwrap_or(mask),
        iif: name(fra::IIFNAME)?,
        oif: name(fra::OIFNAME)?,
        target: 0,
        suppress_prefixlen: limit(fra::SUPPRESS_PREFIXLEN)?,
        suppress_ifgroup: limit(fra::SUPPRESS_IFGROUP)?,
        protocol: attrs.u8(fra::PROTOCOL)?.unwrap_or(0),
        ip_proto: attrs.u8(fra::IP_PROTO)?.unwrap_or(0),
        sport: ports(fra::SPORT_RANGE, "Invalid sport range")?,
        dport: ports(fra::DPORT_RANGE, "Invalid dport range")?,
        tunnel: match attrs.get(fra::TUN_ID) {
            Some(attr) => attr.be64()?,
            None => 0,
        },
        uids: attrs
            .get(fra::UID_RANGE)
            .map(|attr| uids(&attr))
            .transpose()?,
    })
}

/// Parses a range of user ids (`nla_get_kuid_range`).
fn uids(attr: &Attr<'_>) -> Result<(u32, u32), Error> {
    let text = "Invalid uid range";
    let Some(&[a, b, c, d, e, f, g, h]) = attr.payload.first_chunk::<8>() else {
        return invalid(text);
    };
    let first = u32::from_ne_bytes([a, b, c, d]);
    let last = u32::from_ne_bytes([e, f, g, h]);
    if last == u32::MAX || first > last {
        return invalid(text);
    }
    Ok((first, last))
}

/// Parses a range of ports (`nla_get_port_range`).
fn range(attr: &Attr<'_>, text: &'static str) -> Result<Ports, Error> {
    let Some(&[a, b, c, d]) = attr.payload.first_chunk::<4>() else {
        return invalid(text);
    };
    let (start, end) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
    if start == 0 || end == u16::MAX || start > end {
        return invalid(text);
    }
    Ok((start, end))
}

fn notify<K: Address>(ctl: &mut Ctl<'_>, ns: &Arc<Namespace>, ty: u16, entry: &Entry<K>) {
    ctl.notify(ns, group::<K>(), ty, 0, |out| fill(out, K::FAMILY, entry));
}

/// Announces a rule that no request made.
pub fn hear(_stack: &Stack, ns: &Namespace, rule: AnyRule<'_>) {
    match rule {
        AnyRule::V4(entry) => came(ns, af::INET, entry),
        AnyRule::V6(entry) => came(ns, af::INET6, entry),
        AnyRule::Multicast4(entry) => came(ns, af::IPMR, entry),
        AnyRule::Multicast6(entry) => came(ns, af::IP6MR, entry),
    }
}

fn came<K: Address>(ns: &Namespace, family: u8, entry: &Entry<K>) {
    announce(ns, group::<K>(), rtm::NEWRULE, |out| {
        fill(out, family, entry);
    });
}

/// Writes a rule (`fib_nl_fill_rule`).
fn fill<K: Address>(out: &mut Writer, family: u8, entry: &Entry<K>) {
    let rule = &*entry.rule;
    out.fixed(&FibRuleHdr {
        family,
        dst_len: rule.dst_len,
        src_len: rule.src_len,
        tos: rule.tos,
        table: super::route::table_byte(rule.table),
        action: rule.action,
        flags: entry.flags(),
        ..FibRuleHdr::default()
    });
    out.put_u32(fra::TABLE, rule.table);
    out.put_u32(
        fra::SUPPRESS_PREFIXLEN,
        rule.suppress_prefixlen.unwrap_or(u32::MAX),
    );
    out.put_u8(fra::PROTOCOL, rule.protocol);
    if !rule.iif.is_empty() {
        out.put_str(fra::IIFNAME, &rule.iif);
    }
    if !rule.oif.is_empty() {
        out.put_str(fra::OIFNAME, &rule.oif);
    }
    let mut put = |ty, value: u32| {
        if value != 0 {
            out.put_u32(ty, value);
        }
    };
    put(fra::PRIORITY, rule.priority);
    put(fra::FWMARK, rule.mark);
    if rule.mark != 0 || rule.mask != 0 {
        out.put_u32(fra::FWMASK, rule.mask);
    }
    if rule.target != 0 {
        out.put_u32(fra::GOTO, rule.target);
    }
    if rule.tunnel != 0 {
        out.put_64bit(fra::TUN_ID, &rule.tunnel.to_be_bytes(), fra::PAD);
    }
    if rule.l3mdev {
        out.put_u8(fra::L3MDEV, 1);
    }
    if let Some((first, last)) = rule.uids {
        out.put(
            fra::UID_RANGE,
            &[first, last].map(u32::to_ne_bytes).concat(),
        );
    }
    for (ty, ports) in [
        (fra::SPORT_RANGE, rule.sport),
        (fra::DPORT_RANGE, rule.dport),
    ] {
        if let Some((start, end)) = ports {
            let [a, b] = start.to_ne_bytes();
            let [c, d] = end.to_ne_bytes();
            out.put(ty, &[a, b, c, d]);
        }
    }
    if rule.ip_proto != 0 {
        out.put_u8(fra::IP_PROTO, rule.ip_proto);
    }
    if let Some(group) = rule.suppress_ifgroup {
        out.put_u32(fra::SUPPRESS_IFGROUP, group);
    }
    if rule.dst_len != 0 {
        out.put_ip(fra::DST, rule.dst.ip());
    }
    if rule.src_len != 0 {
        out.put_ip(fra::SRC, rule.src.ip());
    }
}

/// A rule of some family.
enum Any {
    Short(u8, Entry<u32>),
    Long(u8, Entry<u128>),
}

/// Dumps the rules (`fib_nl_dumprule`).
fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let message = ctl.message;
    if ctl.strict {
        let Ok(header) = message.fixed::<FibRuleHdr>() else {
            return invalid("Invalid header for fib rule dump request");
        };
        let wanted = FibRuleHdr {
            family: header.family,
            ..FibRuleHdr::default()
        };
        if header != wanted {
            return invalid("Invalid values in header for fib rule dump request");
        }
        if !message.attrs::<FibRuleHdr>().rest().is_empty() {
            return invalid("Invalid data after header in fib rule dump request");
        }
    }
    let (fib, ns, guard) = (ctl.ns.fib(), ctl.ns, ctl.guard);
    let asked = message.family().unwrap_or(af::UNSPEC);
    let served = [af::INET, af::IPMR, af::IP6MR, af::INET6];
    if asked != af::UNSPEC && !served.contains(&asked) {
        return Err(Error::new(errno::EAFNOSUPPORT));
    }
    let mut rules = Vec::new();
    for family in served {
        if asked != af::UNSPEC && asked != family {
            continue;
        }
        let short = |entry| Any::Short(family, entry);
        let long = |entry| Any::Long(family, entry);
        match family {
            af::INET => rules.extend(fib.v4.rules().entries(guard).into_iter().map(short)),
            af::IPMR => rules.extend(tables::rules::<V4>(ns, guard).into_iter().map(short)),
            af::INET6 => rules.extend(fib.v6.rules().entries(guard).into_iter().map(long)),
            _ => rules.extend(tables::rules::<V6>(ns, guard).into_iter().map(long)),
        }
    }
    Ok(Collected::boxed(rules, false, |ctl, rule, out| {
        ctl.message(out, rtm::NEWRULE, |out| match rule {
            Any::Short(family, entry) => fill(out, *family, entry),
            Any::Long(family, entry) => fill(out, *family, entry),
        })
    }))
}
