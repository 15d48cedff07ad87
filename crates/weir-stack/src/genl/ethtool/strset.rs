// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sets of strings that name bits and counters (net/ethtool/strset.c), and the standard statistics
//! (net/ethtool/stats.c), which no driver here counts.

use weir_netlink::{
    Error, Policy, Rule, Strictness, Table, Writer, errno, ethtool as attr, parse_at, policy,
};

use super::{HEADER, Head, ID, bitset, names, put_header};
use crate::device::Device;
use crate::features;
use crate::rtnl::{Collected, Ctl, Dump, DumpCtl};
use attr::{stats, strset as ty};

/// The driver's counters (`ETH_SS_STATS`).
pub const COUNTERS: u32 = 1;
/// `ETH_SS_STATS_ETH_PHY`, the first of the sets of standard statistics.
const FIRST_STATS: u32 = 17;
/// The number of sets.
const SETS: u32 = 21;

/// `ethnl_strset_get_policy`
pub static POLICY: Policy = policy! { max ty::COUNTS_ONLY;
    attr::HEADER => Rule::nested(&HEADER),
    ty::STRINGSETS => Rule::nested_any(),
    ty::COUNTS_ONLY => Rule::flag(),
};
static SET: Policy = policy! { max ty::ID;
    ty::ID => Rule::u32(),
};
static LIST: Policy = policy! { max ty::STRINGSET;
    ty::STRINGSET => Rule::nested(&SET),
};
/// `ethnl_stats_get_policy`
pub static STATS: Policy = policy! { max stats::GROUPS;
    stats::HEADER => Rule::nested(&HEADER),
    stats::GROUPS => Rule::nested_any(),
};

/// Returns whether a set belongs to a driver.
fn is_of_driver(id: u32) -> bool {
    matches!(id, 0..=2 | 7)
}

/// Returns the strings of a set that is the same for all devices.
pub fn fixed(id: u32) -> Option<&'static [&'static str]> {
    Some(match id {
        4 => &features::NAMES,
        5 => names::HASH_FUNCTIONS,
        6 => names::TUNABLES,
        8 => names::PHY_TUNABLES,
        9 => names::LINK_MODES,
        10 => names::MESSAGE_CLASSES,
        11 => names::WAKE_MODES,
        12 => names::TIME_STAMPS,
        13 => names::STAMP_TYPES,
        14 => names::STAMP_FILTERS,
        15 => names::TUNNEL_TYPES,
        16 => names::STATS,
        17 => names::PHY_STATS,
        18 => names::MAC_STATS,
        19 => names::CONTROL_STATS,
        20 => names::RMON_STATS,
        _ => return None,
    })
}

/// Returns the strings of a set.
fn strings(device: Option<&Device>, id: u32) -> Option<Vec<String>> {
    match fixed(id) {
        Some(names) => Some(names.iter().map(|name| (*name).to_owned()).collect()),
        None if id == COUNTERS => {
            let list = device?.link.driver_stats(device?);
            Some(list.into_iter().map(|(name, _)| name).collect())
        }
        None if is_of_driver(id) => Some(Vec::new()),
        None => None,
    }
}

/// The sets that a request asks for.
#[derive(Clone, Copy)]
struct Asked {
    /// The ids as a bit map; `None` for all.
    ids: Option<u32>,
    counts_only: bool,
}

impl Asked {
    /// `strset_parse_request`
    fn parse(tb: &Table<'_>) -> Result<Self, Error> {
        let counts_only = tb.has(ty::COUNTS_ONLY);
        let Some(list) = tb.get(ty::STRINGSETS) else {
            return Ok(Self {
                ids: None,
                counts_only,
            });
        };
        let inside = list.attrs();
        parse_at(inside.rest(), inside.offset(), &LIST, Strictness::Strict)?;
        let mut ids = 0;
        for set in list.attrs() {
            let inside = set.attrs();
            let tb = parse_at(inside.rest(), inside.offset(), &SET, Strictness::Strict)?;
            let id = tb.get(ty::ID).ok_or(Error::new(errno::EINVAL))?;
            let number = id.u32()?;
            if number >= SETS {
                let text = "unknown string set id";
                return Err(Error::msg(errno::EOPNOTSUPP, text).at(&id));
            }
            ids |= 1 << number;
        }
        // Linux takes an empty list for none at all.
        Ok(Self {
            ids: Some(ids).filter(|ids| *ids != 0),
            counts_only,
        })
    }

    fn includes(self, device: Option<&Device>, id: u32) -> bool {
        match self.ids {
            Some(ids) => ids >> id & 1 != 0,
            None => is_of_driver(id) == device.is_some(),
        }
    }

    /// Writes the sets (`strset_fill_reply`). Returns `false` if one of them does not exist.
    fn fill(self, w: &mut Writer, device: Option<&Device>) -> bool {
        put_header(w, attr::MSG_STRSET_GET_REPLY, device, attr::HEADER);
        let list = w.nest(ty::STRINGSETS);
        for id in (0..SETS).filter(|id| self.includes(device, *id)) {
            let Some(strings) = strings(device, id) else {
                // Of all sets, those that do not exist are left out.
                if self.ids.is_some() {
                    return false;
                }
                continue;
            };
            if strings.is_empty() {
                continue;
            }
            let set = w.nest(ty::STRINGSET);
            w.put_u32(ty::ID, id);
            w.put_u32(ty::COUNT, strings.len() as u32);
            if !self.counts_only {
                let list = w.nest(ty::STRINGS);
                for (index, string) in (0..).zip(&strings) {
                    let entry = w.nest(ty::STRING);
                    w.put_u32(ty::INDEX, index);
                    w.put_str(ty::VALUE, string);
                    w.end(entry);
                }
                w.end(list);
            }
            w.end(set);
        }
        w.end(list);
        true
    }
}

/// Answers `ETHTOOL_MSG_STRSET_GET`.
pub fn get(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    let header = tb.require(attr::HEADER)?;
    let head = Head::read(ctl.ns, ctl.guard, Some(header), false)?;
    let asked = Asked::parse(tb)?;
    let device = head.device.as_deref();
    let of_driver = |ids: u32| (0..SETS).any(|id| ids >> id & 1 != 0 && is_of_driver(id));
    if device.is_none() && asked.ids.is_some_and(of_driver) {
        let text = "requested per device strings without dev";
        return Err(Error::msg(errno::EINVAL, text));
    }
    let (before, mut known) = (ctl.answers.len(), true);
    ctl.reply(ID, 0, |w| known = asked.fill(w, device))?;
    if !known {
        ctl.answers.truncate(before);
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    Ok(())
}

/// Dumps the sets of every device.
pub fn dump(ctl: &Ctl<'_>, tb: &Table<'_>) -> Result<Box<dyn Dump>, Error> {
    if !tb.has(attr::HEADER) {
        return Err(Error::new(errno::EINVAL));
    }
    let asked = Asked::parse(tb)?;
    if asked.ids.is_some_and(|ids| {
        (0..SETS).any(|id| ids >> id & 1 != 0 && strings(None, id).is_none() && !is_of_driver(id))
    }) {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    let devices: Vec<_> = ctl.ns.links().by_index.values().cloned().collect();
    let each = move |ctl: &DumpCtl<'_>, device: &std::sync::Arc<Device>, out: &mut Writer| {
        ctl.message(out, ID, |w| {
            asked.fill(w, Some(device));
        })
    };
    Ok(Collected::boxed(devices, false, each))
}

/// Answers `ETHTOOL_MSG_STATS_GET`: the groups asked for, without a counter.
pub fn get_standard_stats(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    let header = tb.require(stats::HEADER)?;
    let head = Head::read(ctl.ns, ctl.guard, Some(header), true)?;
    let groups = tb.get(stats::GROUPS);
    let groups = groups.ok_or_else(|| Error::msg(errno::EINVAL, "no stats requested"))?;
    let (value, mask) = bitset::parse(&groups, names::STATS)?;
    let wanted = value & mask;
    if wanted == 0 {
        return Err(Error::msg(errno::EINVAL, "no stats requested"));
    }
    let device = head.device.as_deref();
    ctl.reply(ID, 0, |w| {
        put_header(w, attr::MSG_STATS_GET_REPLY, device, stats::HEADER);
        for id in (0..names::STATS.len() as u32).filter(|id| wanted >> id & 1 != 0) {
            let group = w.nest(stats::GRP);
            w.put_u32(stats::GRP_ID, id);
            w.put_u32(stats::GRP_SS_ID, FIRST_STATS + id);
            w.end(group);
        }
    })
}
