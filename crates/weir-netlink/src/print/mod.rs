// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats messages as text, for traces and tests. It names everything that Linux defines and
//! validates nothing.
//!
//! Each message and each attribute takes one line; nests are indented. A `*` after a name stands
//! for `NLA_F_NESTED`, a `~` for `NLA_F_NET_BYTEORDER`. An attribute without a name is shown as `#`
//! and its number. A payload whose length does not fit its type is shown in hexadecimal, up to 64
//! bytes. Sequence numbers are shown; port ids only if they are not 0.
//!
//! A family of attributes is one table of names and forms in `link`, `ip` or `tc`. An attribute
//! that is not in a table is shown by number and bytes.

mod ip;
mod link;
mod tc;

use std::fmt::{self, Display, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::ack::echoed_len;
use crate::attr::{Attr, Attrs};
use crate::consts::{errno, nlm, rtm};
use crate::header::*;
use crate::message::{Header, Message, messages};

/// The form in which a payload is shown.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    U8,
    U16,
    U32,
    U64,
    I32,
    /// 32 bits, shown in hexadecimal: flags and masks.
    X32,
    Be16,
    /// 16 bits in network order, shown in hexadecimal: protocols.
    XBe16,
    Be32,
    Be64,
    Str,
    Mac,
    /// IPv4 or IPv6, according to the length.
    Ip,
    Flag,
    Hex,
    Bits,
    /// `major:minor`.
    Handle,
    /// A nest of a family.
    Nest(&'static Family),
    /// A nest of numbered nests of a family.
    List(&'static Family),
    /// A nest of the family named by its sibling attribute `KIND`.
    Kind(fn(&str) -> Option<&'static Family>),
    /// A structure, formatted by its own function.
    Struct(fn(&[u8]) -> Option<String>),
    /// A structure, followed by attributes of a family.
    Headed(usize, fn(&[u8]) -> Option<String>, &'static Family),
    /// An attribute that a function prints completely.
    Own(fn(&mut Printer<'_>, &Attr<'_>)),
}

/// The attributes of one level.
pub(crate) struct Family {
    /// The type of the attribute that names the kind; 0 if there is none.
    pub kind: u16,
    pub attrs: &'static [(u16, &'static str, Form)],
}

/// Defines a family: constants of a module with their forms.
macro_rules! family {
    ($(#[$doc:meta])* $vis:vis $name:ident in $($m:ident)::+ $(, kind $kind:expr)?;
        $($attr:ident $form:expr),* $(,)?) => {
        $(#[$doc])*
        $vis static $name: $crate::print::Family = {
            #[allow(unused_imports)]
            use $crate::print::{Form::*, as_struct};
            use $crate::consts::$($m)::+ as names;
            $crate::print::Family {
                kind: 0 $(+ $kind)?,
                attrs: &[$((names::$attr, stringify!($attr), $form)),*],
            }
        };
    };
}
pub(crate) use family;

/// Formats a structure.
pub(crate) fn as_struct<T: Fixed + fmt::Debug>(bytes: &[u8]) -> Option<String> {
    T::from_bytes(bytes).map(|value| format!("{value:?}"))
}

pub(crate) struct Printer<'o> {
    pub out: &'o mut String,
    /// The family byte of the message.
    pub family: u8,
    pub depth: usize,
}

/// Formats a datagram. Trailing bytes that form no message are shown as their number.
pub fn datagram(bytes: &[u8]) -> String {
    let mut walk = messages(bytes);
    let mut out = String::new();
    for m in walk.by_ref() {
        out.push_str(&message(&m));
    }
    if !walk.rest().is_empty() {
        let _ = writeln!(out, "{} bytes that are no message", walk.rest().len());
    }
    out
}

/// Formats one message.
pub fn message(m: &Message<'_>) -> String {
    let mut out = String::new();
    let h = &m.header;
    let _ = write!(
        out,
        "{}{} seq {}",
        type_name(h.ty),
        Flags(h, m.is_served()),
        h.seq
    );
    if h.pid != 0 {
        let _ = write!(out, " pid {}", h.pid);
    }
    let mut p = Printer {
        out: &mut out,
        family: m.family().unwrap_or(0),
        depth: 1,
    };
    match h.ty {
        nlm::ERROR => p.error(m),
        nlm::DONE => p.done(m),
        _ => p.body(m),
    }
    out
}

/// Returns Linux's name of a message type.
fn type_name(ty: u16) -> String {
    const CONTROL: [&str; 5] = ["0", "NOOP", "ERROR", "DONE", "OVERRUN"];
    const OBJECTS: [(u16, &str); 25] = [
        (rtm::NEWLINK, "LINK"),
        (rtm::NEWADDR, "ADDR"),
        (rtm::NEWROUTE, "ROUTE"),
        (rtm::NEWNEIGH, "NEIGH"),
        (rtm::NEWRULE, "RULE"),
        (rtm::NEWQDISC, "QDISC"),
        (rtm::NEWTCLASS, "TCLASS"),
        (rtm::NEWTFILTER, "TFILTER"),
        (rtm::NEWACTION, "ACTION"),
        (rtm::NEWPREFIX, "PREFIX"),
        (rtm::GETMULTICAST - 2, "MULTICAST"),
        (rtm::GETANYCAST - 2, "ANYCAST"),
        (rtm::NEWNEIGHTBL, "NEIGHTBL"),
        (rtm::NEWNDUSEROPT, "NDUSEROPT"),
        (rtm::NEWADDRLABEL, "ADDRLABEL"),
        (rtm::NEWNETCONF, "NETCONF"),
        (rtm::NEWMDB, "MDB"),
        (rtm::NEWNSID, "NSID"),
        (rtm::NEWSTATS, "STATS"),
        (rtm::NEWCACHEREPORT, "CACHEREPORT"),
        (rtm::NEWCHAIN, "CHAIN"),
        (rtm::NEWNEXTHOP, "NEXTHOP"),
        (rtm::NEWLINKPROP, "LINKPROP"),
        (rtm::NEWVLAN, "VLAN"),
        (rtm::NEWNEXTHOPBUCKET, "NEXTHOPBUCKET"),
    ];
    if let Some(name) = CONTROL.get(usize::from(ty)) {
        return (*name).to_owned();
    }
    let verb = ["NEW", "DEL", "GET", "SET"][usize::from(ty & 3)];
    match OBJECTS.iter().find(|(base, _)| *base == ty & !3) {
        Some((_, object)) => format!("{verb}{object}"),
        None => format!("type {ty}"),
    }
}

/// The flags of a header. Their names depend on the kind of request.
struct Flags<'a>(&'a Header, bool);

impl Display for Flags<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const COMMON: [(u16, &str); 6] = [
            (nlm::F_REQUEST, "REQUEST"),
            (nlm::F_MULTI, "MULTI"),
            (nlm::F_ACK, "ACK"),
            (nlm::F_ECHO, "ECHO"),
            (nlm::F_DUMP_INTR, "DUMP_INTR"),
            (nlm::F_DUMP_FILTERED, "DUMP_FILTERED"),
        ];
        const NEW: [(u16, &str); 4] = [
            (nlm::F_REPLACE, "REPLACE"),
            (nlm::F_EXCL, "EXCL"),
            (nlm::F_CREATE, "CREATE"),
            (nlm::F_APPEND, "APPEND"),
        ];
        const DELETE: [(u16, &str); 2] = [(nlm::F_NONREC, "NONREC"), (nlm::F_BULK, "BULK")];
        const GET: [(u16, &str); 4] = [
            (nlm::F_DUMP, "DUMP"),
            (nlm::F_ROOT, "ROOT"),
            (nlm::F_MATCH, "MATCH"),
            (nlm::F_ATOMIC, "ATOMIC"),
        ];
        const ACK: [(u16, &str); 2] = [(nlm::F_CAPPED, "CAPPED"), (nlm::F_ACK_TLVS, "ACK_TLVS")];
        let Flags(h, served) = self;
        let special: &[_] = match h.ty {
            nlm::ERROR | nlm::DONE => &ACK,
            _ if !served => &[],
            ty => match ty & 3 {
                0 => &NEW,
                1 => &DELETE,
                _ => &GET,
            },
        };
        let mut left = h.flags;
        for (bits, name) in COMMON.iter().chain(special) {
            if left & bits == *bits {
                write!(f, " {name}")?;
                left &= !bits;
            }
        }
        match left {
            0 => Ok(()),
            left => write!(f, " {left:#x}"),
        }
    }
}

impl Printer<'_> {
    fn error(&mut self, m: &Message<'_>) {
        let payload = m.payload();
        let errno = i32::get(payload).unsigned_abs() as i32;
        let name = if errno == 0 { "ok" } else { errno::name(errno) };
        let Some(header) = payload.get(4..).and_then(<[u8]>::first_chunk) else {
            let _ = writeln!(self.out, " {name}");
            return;
        };
        let h = Header::from_bytes(header);
        let _ = writeln!(self.out, " {name} of {} seq {}", type_name(h.ty), h.seq);
        if m.header.has(nlm::F_ACK_TLVS) {
            self.attrs(m.attrs_after(4 + echoed_len(m)), &ip::ACK);
        }
    }

    fn done(&mut self, m: &Message<'_>) {
        let errno = i32::get(m.payload()).unsigned_abs() as i32;
        let name = if errno == 0 { "ok" } else { errno::name(errno) };
        let _ = writeln!(self.out, " {name}");
        if m.header.has(nlm::F_ACK_TLVS) {
            self.attrs(m.attrs_after(4), &ip::ACK);
        }
    }

    fn body(&mut self, m: &Message<'_>) {
        // iproute2 sends a bare rtgenmsg for some dumps.
        let bare = m.payload().len() < 4;
        match m.header.ty & !3 {
            _ if bare => self.head::<RtGenMsg>(m, &ip::NONE),
            rtm::NEWLINK | rtm::NEWLINKPROP => self.head::<IfInfoMsg>(m, &link::LINK),
            rtm::NEWADDR | 56 | 60 => self.head::<IfAddrMsg>(m, &ip::ADDR),
            rtm::NEWROUTE => self.head::<RtMsg>(m, &ip::ROUTE),
            rtm::NEWNEIGH => self.head::<NdMsg>(m, &ip::NEIGH),
            rtm::NEWRULE => self.head::<FibRuleHdr>(m, &ip::RULE),
            rtm::NEWQDISC | rtm::NEWTCLASS | rtm::NEWTFILTER | rtm::NEWCHAIN => {
                self.head::<TcMsg>(m, &tc::TC);
            }
            rtm::NEWACTION => self.head::<TcaMsg>(m, &tc::ROOT),
            rtm::NEWPREFIX => self.head::<PrefixMsg>(m, &ip::PREFIX),
            rtm::NEWNEIGHTBL => self.head::<NdtMsg>(m, &ip::NEIGHTBL),
            rtm::NEWADDRLABEL => self.head::<IfAddrLblMsg>(m, &ip::ADDRLABEL),
            rtm::NEWNETCONF => self.head::<NetConfMsg>(m, &ip::NETCONF),
            rtm::NEWNSID => self.head::<RtGenMsg>(m, &ip::NSID),
            rtm::NEWSTATS => self.head::<IfStatsMsg>(m, &link::STATS),
            rtm::NEWNEXTHOP | rtm::NEWNEXTHOPBUCKET => self.head::<NhMsg>(m, &ip::NEXTHOP),
            _ => {
                self.out.push(' ');
                self.hex(m.payload());
                self.out.push('\n');
            }
        }
    }

    fn head<T: Fixed + fmt::Debug>(&mut self, m: &Message<'_>, family: &'static Family) {
        match m.fixed::<T>() {
            Ok(fixed) => {
                let _ = writeln!(self.out, " {fixed:?}");
                self.attrs(m.attrs::<T>(), family);
            }
            Err(_) => {
                self.out.push_str(" cut header ");
                self.hex(m.payload());
                self.out.push('\n');
            }
        }
    }

    /// Prints a run of attributes, and any bytes left over after it.
    pub fn attrs(&mut self, attrs: Attrs<'_>, family: &'static Family) {
        let kind = match family.kind {
            0 => None,
            ty => attrs.find_type(ty).and_then(|a| a.str().ok()),
        };
        let mut walk = attrs;
        for attr in walk.by_ref() {
            let known = family.attrs.iter().find(|(ty, ..)| *ty == attr.ty);
            let name = known.map(|(_, name, _)| *name);
            self.attr(&attr, name, known.map_or(Form::Hex, |k| k.2), kind);
        }
        if !walk.rest().is_empty() {
            let _ = write!(self.out, "{:1$}leftover ", "", self.depth * 2);
            self.hex(walk.rest());
            self.out.push('\n');
        }
    }

    /// Prints one attribute. A nest beyond the maximum depth is shown as bytes.
    pub fn attr(&mut self, attr: &Attr<'_>, name: Option<&str>, form: Form, kind: Option<&str>) {
        let _ = write!(self.out, "{:1$}", "", self.depth * 2);
        let _ = match name {
            Some(name) => write!(self.out, "{name}"),
            None => write!(self.out, "#{}", attr.ty),
        };
        if attr.nested {
            self.out.push('*');
        }
        if attr.net_byteorder {
            self.out.push('~');
        }
        let family = match form {
            _ if self.depth > 16 => None,
            Form::Nest(family) => Some(family),
            Form::Kind(find) => kind.and_then(find),
            _ => None,
        };
        if let Some(family) = family {
            return self.nest(attr.attrs(), family);
        }
        match form {
            Form::List(family) if self.depth <= 16 => {
                self.out.push('\n');
                self.depth += 1;
                for entry in attr.attrs() {
                    self.attr(&entry, None, Form::Nest(family), None);
                }
                self.depth -= 1;
            }
            Form::Headed(len, print, family) if attr.len() >= len => {
                self.out.push(' ');
                self.out.push_str(&print(attr.payload).unwrap_or_default());
                self.nest(attr.attrs_after(len), family);
            }
            Form::Own(print) if self.depth <= 16 => print(self, attr),
            _ => {
                self.value(attr, form);
                self.out.push('\n');
            }
        }
    }

    /// Prints the nested attributes, indented by one more level.
    pub fn nest(&mut self, attrs: Attrs<'_>, family: &'static Family) {
        self.out.push('\n');
        self.depth += 1;
        self.attrs(attrs, family);
        self.depth -= 1;
    }

    fn value(&mut self, attr: &Attr<'_>, form: Form) {
        let b = attr.payload;
        let out = &mut *self.out;
        let _ = match (form, b.len()) {
            (Form::Flag, 0) => Ok(()),
            (Form::U8, 1) => write!(out, " {}", b[0]),
            (Form::U16, 2) => write!(out, " {}", u16::get(b)),
            (Form::U32, 4) => write!(out, " {}", u32::get(b)),
            (Form::I32, 4) => write!(out, " {}", i32::get(b)),
            (Form::X32, 4) => write!(out, " {:#x}", u32::get(b)),
            (Form::U64, 8) => write!(out, " {}", u64::get(b)),
            (Form::Be16, 2) => write!(out, " {}", u16::get(b).to_be()),
            (Form::XBe16, 2) => write!(out, " {:#06x}", u16::get(b).to_be()),
            (Form::Be32, 4) => write!(out, " {}", u32::get(b).to_be()),
            (Form::Be64, 8) => write!(out, " {}", u64::get(b).to_be()),
            (Form::Handle, 4) => {
                let handle = u32::get(b);
                write!(out, " {:x}:{:x}", handle >> 16, handle & 0xffff)
            }
            (Form::Bits, 8) => {
                let (value, selector) = (u32::get(b), u32::get(&b[4..]));
                write!(out, " {value:#x} of {selector:#x}")
            }
            (Form::Mac, 6) => write!(
                out,
                " {:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
                b[0], b[1], b[2], b[3], b[4], b[5]
            ),
            (Form::Ip, 4) => write!(out, " {}", Ipv4Addr::from(u32::get(b).to_be())),
            (Form::Ip, 16) => write!(out, " {}", Ipv6Addr::from(u128_be(b))),
            (Form::Str, _) if b.last() == Some(&0) && !b[..b.len() - 1].contains(&0) => {
                write!(out, " {:?}", String::from_utf8_lossy(&b[..b.len() - 1]))
            }
            // A string that is not terminated, or continues after its NUL.
            (Form::Str, 1..) => write!(out, " {:?}", String::from_utf8_lossy(b)),
            (Form::Struct(print), _) => match print(b) {
                Some(text) => write!(out, " {text}"),
                None => {
                    out.push(' ');
                    self.hex(b);
                    Ok(())
                }
            },
            (_, 0) => write!(out, " empty"),
            _ => {
                out.push(' ');
                self.hex(b);
                Ok(())
            }
        };
    }

    pub fn hex(&mut self, bytes: &[u8]) {
        let _ = write!(self.out, "[{}]", bytes.len());
        if !bytes.is_empty() {
            self.out.push(' ');
        }
        for b in bytes.iter().take(64) {
            let _ = write!(self.out, "{b:02x}");
        }
        if bytes.len() > 64 {
            self.out.push_str("...");
        }
    }
}

fn u128_be(bytes: &[u8]) -> u128 {
    bytes
        .first_chunk()
        .map_or(0, |b: &[u8; 16]| u128::from_be_bytes(*b))
}
