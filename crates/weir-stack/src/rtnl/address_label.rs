// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The labels for IPv6 source address selection: RTM_NEWADDRLABEL, RTM_DELADDRLABEL,
//! RTM_GETADDRLABEL (`ip addrlabel`; `net/ipv6/addrlabel.c`). The table is in
//! [`crate::ipv6::label`].

use std::net::Ipv6Addr;

use weir_netlink::{
    Error, IfAddrLblMsg, Policy, Rule, Strictness, Table, Writer, addrlabel, af, errno, nlm,
    policy, rtm,
};

use crate::ipv6::WithIpv6;
use crate::ipv6::label::{self, Label};
use crate::rtnl::{Collected, Ctl, Dump, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWADDRLABEL,
        doit: Some(change),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELADDRLABEL,
        doit: Some(change),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETADDRLABEL,
        doit: Some(get),
        dumpit: Some(dump),
    },
];

/// `ifal_policy`
static POLICY: Policy = policy! {
    max addrlabel::MAX;
    addrlabel::ADDRESS => Rule::unspec(16),
    addrlabel::LABEL => Rule::unspec(4),
};

fn invalid() -> Error {
    Error::new(errno::EINVAL)
}

fn prefix(attrs: &Table<'_>) -> Result<Ipv6Addr, Error> {
    let attr = attrs.get(addrlabel::ADDRESS).ok_or_else(invalid)?;
    let octets: &[u8; 16] = attr.payload.first_chunk().ok_or_else(invalid)?;
    Ok(Ipv6Addr::from(*octets))
}

/// Adds or deletes a label (`ip6addrlbl_newdel`).
fn change(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    // Copied because the parsed attributes borrow from the message.
    let message = ctl.message;
    let (header, attrs) = message.parse::<IfAddrLblMsg>(&POLICY, Strictness::Liberal)?;
    if header.family != af::INET6 || header.prefixlen > 128 {
        return Err(invalid());
    }
    let prefix = prefix(&attrs)?;
    let label = attrs.u32(addrlabel::LABEL)?.ok_or_else(invalid)?;
    if label == label::NONE {
        return Err(invalid());
    }
    let labels = &ctl.ns.ipv6().labels;
    if message.header.ty == rtm::DELADDRLABEL {
        return labels.remove(ctl.guard, prefix, header.prefixlen, header.index);
    }
    if header.index != 0 && ctl.ns.device(header.index, ctl.guard).is_none() {
        return Err(invalid());
    }
    let new = Label::new(prefix, header.prefixlen, header.index, label)?;
    labels.add(ctl.guard, new, ctl.has(nlm::F_REPLACE))
}

fn write(entry: &Label, seq: u32, out: &mut Writer) {
    out.fixed(&IfAddrLblMsg {
        family: af::INET6,
        prefixlen: entry.prefix_len,
        index: entry.ifindex,
        seq,
        ..IfAddrLblMsg::default()
    });
    out.put_ipv6(addrlabel::ADDRESS, entry.prefix);
    out.put_u32(addrlabel::LABEL, entry.label);
}

/// Returns the entry of an address (`ip6addrlbl_get`).
fn get(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let message = ctl.message;
    let (header, attrs) = message.parse::<IfAddrLblMsg>(&POLICY, ctl.get_strictness())?;
    if ctl.strict {
        if header.flags != 0 || header.seq != 0 {
            return Err(Error::msg(
                errno::EINVAL,
                "Invalid values in header for addrlabel get request",
            ));
        }
        if attrs.has(addrlabel::LABEL) {
            return Err(Error::msg(
                errno::EINVAL,
                "Unsupported attribute in addrlabel get request",
            ));
        }
    }
    if header.family != af::INET6
        || header.prefixlen != 128
        || header.index != 0 && ctl.ns.device(header.index, ctl.guard).is_none()
    {
        return Err(invalid());
    }
    let table = ctl.ns.ipv6().labels.table(ctl.guard);
    let entry = table.find(prefix(&attrs)?, header.index);
    let entry = *entry.ok_or_else(|| Error::new(errno::ESRCH))?;
    let seq = table.seq;
    ctl.reply(rtm::NEWADDRLABEL, 0, |out| write(&entry, seq, out))
}

/// Dumps the table (`ip6addrlbl_dump`).
fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let table = ctl.ns.ipv6().labels.table(ctl.guard);
    let seq = table.seq;
    Ok(Collected::boxed(
        table.list.clone(),
        false,
        move |ctl, entry, out| ctl.message(out, rtm::NEWADDRLABEL, |out| write(entry, seq, out)),
    ))
}
