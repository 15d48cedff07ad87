// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The attributes of a macvlan (`macvlan_policy`, `macvlan_validate`, `macvlan_changelink`, `macvlan_fill_info`).

use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::{macvlan as attr, macvlan_mode as mode};
use weir_netlink::{Attr, Error, Policy, Rule, Strictness, Table, Writer, errno, parse_at, policy};

use super::port::{mac, word};
use super::{Macvlan, NODST, NOPROMISC};
use crate::device::Mac;
use crate::kind::check_mac;

static POLICY: Policy = policy! {
    max attr::MAX;
    attr::MODE => Rule::u32(),
    attr::FLAGS => Rule::u16(),
    attr::MACADDR_MODE => Rule::u32(),
    attr::MACADDR => Rule::binary(32),
    attr::MACADDR_DATA => Rule::nested_any(),
    attr::MACADDR_COUNT => Rule::u32(),
    attr::BC_QUEUE_LEN => Rule::u32(),
    attr::BC_QUEUE_LEN_USED => Rule::reject("Attribute failed policy validation"),
};

/// `MACVLAN_MACADDR_*`
mod sources {
    pub const ADD: u32 = 0;
    pub const DEL: u32 = 1;
    pub const FLUSH: u32 = 2;
    pub const SET: u32 = 3;
}

/// `MACVLAN_DEFAULT_BC_QUEUE_LEN`
const QUEUE: u32 = 1000;

/// The settings of a new macvlan.
pub struct Settings {
    /// `IFLA_MACVLAN_MODE`
    pub mode: u32,
    /// `IFLA_MACVLAN_FLAGS`
    pub flags: u16,
    /// `IFLA_MACVLAN_BC_QUEUE_LEN`
    pub queue: u32,
}

fn invalid() -> Error {
    Error::new(errno::EINVAL)
}

/// Checks the address of a source.
fn source(attr: &Attr<'_>) -> Result<Mac, Error> {
    let mac: Mac = attr.payload.try_into().map_err(|_| invalid())?;
    check_mac(&mac)?;
    Ok(mac)
}

/// Parses and checks `IFLA_INFO_DATA` (`macvlan_validate`).
pub fn parse(data: Option<Attr<'_>>) -> Result<Table<'_>, Error> {
    let Some(data) = data else {
        return Ok(Table::empty());
    };
    let inside = data.attrs();
    let table = parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Liberal)?;
    if table.u16(attr::FLAGS)?.unwrap_or(0) & !(NOPROMISC | NODST) != 0 {
        return Err(invalid());
    }
    if let Some(wanted) = table.u32(attr::MODE)? {
        match wanted {
            mode::PRIVATE | mode::VEPA | mode::BRIDGE | mode::PASSTHRU | mode::SOURCE => {}
            _ => return Err(invalid()),
        }
    }
    if table
        .u32(attr::MACADDR_MODE)?
        .is_some_and(|how| how > sources::SET)
    {
        return Err(invalid());
    }
    if let Some(one) = table.get(attr::MACADDR) {
        source(&one)?;
    }
    for one in table
        .get(attr::MACADDR_DATA)
        .into_iter()
        .flat_map(|nest| nest.attrs())
    {
        if one.ty != attr::MACADDR {
            return Err(invalid());
        }
        source(&one)?;
    }
    if table.has(attr::MACADDR_COUNT) {
        return Err(invalid());
    }
    Ok(table)
}

/// Returns the settings of a new macvlan.
pub fn new(table: &Table<'_>) -> Result<Settings, Error> {
    Ok(Settings {
        mode: table.u32(attr::MODE)?.unwrap_or(mode::VEPA),
        flags: table.u16(attr::FLAGS)?.unwrap_or(0),
        queue: table.u32(attr::BC_QUEUE_LEN)?.unwrap_or(QUEUE),
    })
}

/// Changes a list of sources as requested (`macvlan_changelink_sources`).
pub fn change_sources(list: &mut Vec<u64>, now: u32, table: &Table<'_>) -> Result<(), Error> {
    let Some(how) = table.u32(attr::MACADDR_MODE)? else {
        return Ok(());
    };
    if now != mode::SOURCE {
        return Err(invalid());
    }
    let one = table
        .get(attr::MACADDR)
        .map(|one| source(&one))
        .transpose()?;
    let add = |list: &mut Vec<u64>, mac: Mac| {
        if !list.contains(&word(mac)) {
            list.push(word(mac));
        }
    };
    match how {
        sources::ADD => add(list, one.ok_or_else(invalid)?),
        sources::DEL => {
            let gone = word(one.ok_or_else(invalid)?);
            list.retain(|other| *other != gone);
        }
        sources::FLUSH => list.clear(),
        _ => {
            list.clear();
            if let Some(mac) = one {
                add(list, mac);
            }
            for one in table
                .get(attr::MACADDR_DATA)
                .into_iter()
                .flat_map(|nest| nest.attrs())
            {
                add(list, source(&one)?);
            }
        }
    }
    Ok(())
}

/// Applies the attributes of a request to a macvlan (`macvlan_changelink`). As in Linux, what was applied
/// before an attribute that is refused stays.
pub fn change(macvlan: &Macvlan, table: &Table<'_>) -> Result<(), Error> {
    let now = macvlan.mode.load(Relaxed);
    let wanted = table.u32(attr::MODE)?;
    let mut sources = macvlan.sources.lock();
    if let Some(wanted) = wanted {
        if (wanted == mode::PASSTHRU) != (now == mode::PASSTHRU) {
            return Err(invalid());
        }
        if now == mode::SOURCE && wanted != now {
            sources.clear();
        }
    }
    if let Some(flags) = table.u16(attr::FLAGS)? {
        macvlan.flags.store(flags, Relaxed);
    }
    if let Some(len) = table.u32(attr::BC_QUEUE_LEN)? {
        macvlan.queue.store(len, Relaxed);
    }
    let now = wanted.unwrap_or(now);
    macvlan.mode.store(now, Relaxed);
    change_sources(&mut sources, now, table)
}

/// Returns the place of an address in Linux's table of sources (`macvlan_eth_hash`), which orders the list.
fn place(address: u64) -> u64 {
    let [a, b, c, d, e, f] = mac(address);
    let value = u64::from_le_bytes([0, 0, a, b, c, d, e, f]);
    // `hash_64`, of 8 bits
    value.wrapping_mul(0x61c8_8646_80b5_83eb) >> 56
}

/// Writes `IFLA_INFO_DATA` (`macvlan_fill_info`). `used` is the largest queue that a macvlan of the port asked for.
pub fn fill(macvlan: &Macvlan, used: u32, out: &mut Writer) {
    // The newest of a place comes first.
    let mut list: Vec<u64> = macvlan.sources.lock().iter().rev().copied().collect();
    list.sort_by_key(|address| place(*address));
    out.put_u32(attr::MODE, macvlan.mode.load(Relaxed));
    out.put_u16(attr::FLAGS, macvlan.flags.load(Relaxed));
    out.put_u32(attr::MACADDR_COUNT, list.len() as u32);
    if !list.is_empty() {
        let nest = out.nest_noflag(attr::MACADDR_DATA);
        for address in list {
            out.put(attr::MACADDR, &mac(address));
        }
        out.end(nest);
    }
    out.put_u32(attr::BC_QUEUE_LEN, macvlan.queue.load(Relaxed));
    out.put_u32(attr::BC_QUEUE_LEN_USED, used);
}
