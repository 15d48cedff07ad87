// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ethtool`: the features, channels, link state and driver counters of devices.
//!
//! Mirrors net/ethtool/netlink.c and the files beside it. A request names its device in a header
//! (`Head`). Requests for an operation that no driver of Weir has (wake-on-LAN, rings, coalescing, pause
//! frames and so on) are checked and then get EOPNOTSUPP, as on Linux for these drivers. [`ioctl`] serves
//! `SIOCETHTOOL`, the older interface to the same operations.
//!
//! Not implemented: PHYs, modules and link modes, since no device here has them.

mod bitset;
mod features;
pub mod ioctl;
mod link;
mod names;
mod queues;
mod strset;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use weir_netlink::{
    Attr, Error, GenlMsg, Policy, Rule, Strictness, Table, Writer, errno, ethtool as attr, genl,
    parse_at, policy,
};

use super::{Command, Family};
use crate::device::Device;
use crate::layers::{Event, Hears, Module, Site};
use crate::namespace::Namespace;
use crate::parts::Key;
use crate::rtnl::{Collected, Ctl, Dump, DumpCtl};
use crate::stack::Stack;

/// The message type of the family.
pub const ID: u16 = genl::START_ALLOC + 1;
/// The multicast group `monitor`.
const MONITOR: u32 = 5;
const VERSION: u8 = 1;

/// The family; see the module documentation.
pub static FAMILY: Family = Family {
    id: ID,
    name: "ethtool",
    version: VERSION,
    max: 0,
    strict: true,
    commands: COMMANDS,
    groups: &[("monitor", MONITOR)],
};

/// The sequence number of notifications (`ethnl_bcast_seq`).
static SEQUENCE: Key<AtomicU32, 6> = Key::new();

/// Tells the listeners of changed features.
pub static MODULE: Module = Module {
    stack: Some(|parts| {
        parts.get_mut(&SEQUENCE);
    }),
    device_event: Some(Hears::of(&[Event::Features], |site, _| {
        tell(site.stack, site.ns, attr::MSG_FEATURES_NTF, |w| {
            features::fill(w, attr::MSG_FEATURES_NTF, site.device, true);
        });
    })),
    ..Module::NONE
};

/// A request that reads something of a device.
macro_rules! get {
    ($cmd:expr, $doit:expr, $fill:expr) => {
        Command {
            cmd: $cmd,
            admin: false,
            doit: Some($doit),
            dumpit: Some(|ctl, tb| dump(ctl, tb, $fill)),
            policy: Some(&GET),
        }
    };
}

/// A request for an operation that no driver has.
macro_rules! absent {
    ($cmd:expr, $admin:expr, dump $dump:expr, { $max:expr; $($ty:expr => $rule:expr),* }) => {{
        static POLICY: Policy = policy! { max $max;
            attr::HEADER => Rule::nested(&HEADER_STATS), $($ty => $rule),* };
        Command {
            cmd: $cmd,
            admin: $admin,
            doit: Some(no_operation),
            dumpit: $dump,
            policy: Some(&POLICY),
        }
    }};
}

/// The dump of an operation that no driver has is empty.
const EMPTY: Option<super::DumpIt> =
    Some(|_, _| Ok(Collected::boxed(Vec::<()>::new(), false, nothing)));

fn nothing(_: &DumpCtl<'_>, _: &(), _: &mut Writer) -> bool {
    true
}

/// `ethnl_header_policy`; of the requests that may ask for statistics, `ethnl_header_policy_stats`.
macro_rules! header {
    ($flags:expr) => {
        policy! { max attr::header::FLAGS;
            attr::header::DEV_INDEX => Rule::u32(),
            attr::header::DEV_NAME => Rule::nul_string(127),
            attr::header::FLAGS => Rule::u32().mask($flags),
        }
    };
}

static HEADER: Policy = header!(attr::flag::COMPACT_BITSETS | attr::flag::OMIT_REPLY);
static HEADER_STATS: Policy =
    header!(attr::flag::COMPACT_BITSETS | attr::flag::OMIT_REPLY | attr::flag::STATS);

/// The policy of requests that have only a header.
static GET: Policy = policy! { max attr::HEADER;
    attr::HEADER => Rule::nested(&HEADER),
};

static COMMANDS: &[Command] = &[
    Command {
        cmd: attr::MSG_STRSET_GET,
        admin: false,
        doit: Some(strset::get),
        dumpit: Some(strset::dump),
        policy: Some(&strset::POLICY),
    },
    get!(attr::MSG_LINKINFO_GET, link::get_info, link::fill_info),
    absent!(attr::MSG_LINKINFO_SET, true, dump None, { 6;
        2 => Rule::u8(), 3 => Rule::u8(), 5 => Rule::u8() }),
    get!(attr::MSG_LINKMODES_GET, link::get_modes, link::fill_modes),
    absent!(attr::MSG_LINKMODES_SET, true, dump None, { 9;
        2 => Rule::u8(), 3 => Rule::nested_any(), 5 => Rule::u32(), 6 => Rule::u8(), 7 => Rule::u8(),
        9 => Rule::u32().range(1, 8) }),
    get!(attr::MSG_LINKSTATE_GET, link::get_state, link::fill_state),
    absent!(attr::MSG_DEBUG_GET, false, dump EMPTY, { 1; }),
    absent!(attr::MSG_DEBUG_SET, true, dump None, { 2; 2 => Rule::nested_any() }),
    absent!(attr::MSG_WOL_GET, true, dump EMPTY, { 1; }),
    absent!(attr::MSG_WOL_SET, true, dump None, { 3; 2 => Rule::nested_any(), 3 => Rule::binary(6) }),
    get!(attr::MSG_FEATURES_GET, features::get, features::fill_dump),
    Command {
        cmd: attr::MSG_FEATURES_SET,
        admin: true,
        doit: Some(features::set),
        dumpit: None,
        policy: Some(&features::SET),
    },
    absent!(attr::MSG_PRIVFLAGS_GET, false, dump EMPTY, { 1; }),
    Command {
        cmd: attr::MSG_PRIVFLAGS_SET,
        admin: true,
        doit: Some(set_private_flags),
        dumpit: None,
        policy: Some(&PRIVATE_FLAGS),
    },
    absent!(attr::MSG_RINGS_GET, false, dump EMPTY, { 1; }),
    absent!(attr::MSG_RINGS_SET, true, dump None, { 13;
        6 => Rule::u32(), 7 => Rule::u32(), 8 => Rule::u32(), 9 => Rule::u32(),
        10 => Rule::u32().min(1), 12 => Rule::u32().min(1), 13 => Rule::u8().max(1) }),
    get!(attr::MSG_CHANNELS_GET, queues::get, queues::fill),
    Command {
        cmd: attr::MSG_CHANNELS_SET,
        admin: true,
        doit: Some(queues::set),
        dumpit: None,
        policy: Some(&queues::SET),
    },
    absent!(attr::MSG_COALESCE_GET, false, dump EMPTY, { 1; }),
    absent!(attr::MSG_COALESCE_SET, true, dump None, { 25;
        2 => Rule::u32(), 3 => Rule::u32(), 4 => Rule::u32(), 5 => Rule::u32(), 6 => Rule::u32(),
        7 => Rule::u32(), 8 => Rule::u32(), 9 => Rule::u32(), 10 => Rule::u32(), 11 => Rule::u8(),
        12 => Rule::u8(), 13 => Rule::u32(), 14 => Rule::u32(), 15 => Rule::u32(), 16 => Rule::u32(),
        17 => Rule::u32(), 18 => Rule::u32(), 19 => Rule::u32(), 20 => Rule::u32(), 21 => Rule::u32(),
        22 => Rule::u32(), 23 => Rule::u32(), 24 => Rule::u8().max(1), 25 => Rule::u8().max(1) }),
    absent!(attr::MSG_PAUSE_GET, false, dump EMPTY, { 1; }),
    absent!(attr::MSG_PAUSE_SET, true, dump None, { 4;
        2 => Rule::u8(), 3 => Rule::u8(), 4 => Rule::u8() }),
    absent!(attr::MSG_EEE_GET, false, dump EMPTY, { 1; }),
    absent!(attr::MSG_EEE_SET, true, dump None, { 7;
        2 => Rule::nested_any(), 5 => Rule::u8(), 6 => Rule::u8(), 7 => Rule::u32() }),
    get!(attr::MSG_TSINFO_GET, link::get_stamps, link::fill_stamps),
    absent!(attr::MSG_CABLE_TEST_ACT, true, dump None, { 1; }),
    absent!(attr::MSG_CABLE_TEST_TDR_ACT, true, dump None, { 2; 2 => Rule::nested_any() }),
    Command {
        cmd: attr::MSG_TUNNEL_INFO_GET,
        admin: false,
        doit: Some(no_tunnels),
        dumpit: EMPTY,
        policy: Some(&GET),
    },
    absent!(attr::MSG_FEC_GET, false, dump EMPTY, { 1; }),
    absent!(attr::MSG_FEC_SET, true, dump None, { 3; 2 => Rule::nested_any(), 3 => Rule::u8().max(1) }),
    Command {
        cmd: attr::MSG_MODULE_EEPROM_GET,
        admin: true,
        doit: Some(no_module),
        dumpit: EMPTY,
        policy: Some(&MODULE_EEPROM),
    },
    Command {
        cmd: attr::MSG_STATS_GET,
        admin: false,
        doit: Some(strset::get_standard_stats),
        dumpit: EMPTY,
        policy: Some(&strset::STATS),
    },
    get!(attr::MSG_PHC_VCLOCKS_GET, get_clocks, fill_clocks),
    get!(attr::MSG_MODULE_GET, get_module, fill_module),
    Command {
        cmd: attr::MSG_MODULE_SET,
        admin: true,
        doit: Some(set_module),
        dumpit: None,
        policy: Some(&MODULE_SET),
    },
    Command {
        cmd: attr::MSG_PSE_GET,
        admin: false,
        doit: Some(no_phy),
        dumpit: EMPTY,
        policy: Some(&GET),
    },
    Command {
        cmd: attr::MSG_PSE_SET,
        admin: true,
        doit: Some(set_power),
        dumpit: None,
        policy: Some(&PSE_SET),
    },
];

static PRIVATE_FLAGS: Policy = policy! { max 2;
    attr::HEADER => Rule::nested(&HEADER),
    2 => Rule::nested_any(),
};
static MODULE_EEPROM: Policy = policy! { max 6;
    attr::HEADER => Rule::nested(&HEADER),
    2 => Rule::u32(), 3 => Rule::u32(), 4 => Rule::u8(), 5 => Rule::u8(), 6 => Rule::u8().max(0x7f),
};
static MODULE_SET: Policy = policy! { max 2;
    attr::HEADER => Rule::nested(&HEADER),
    2 => Rule::u8().range(1, 2),
};
static PSE_SET: Policy = policy! { max 3;
    attr::HEADER => Rule::nested(&HEADER),
    3 => Rule::u32().range(1, 2),
};

/// The header of a request (`struct ethnl_req_info`).
struct Head {
    device: Option<Arc<Device>>,
    flags: u32,
}

impl Head {
    /// Reads a header and finds its device (`ethnl_parse_header_dev_get`).
    fn read(
        ns: &Namespace,
        guard: &weir_sync::rcu::Guard,
        header: Option<Attr<'_>>,
        required: bool,
    ) -> Result<Self, Error> {
        let Some(header) = header else {
            return match required {
                true => Err(Error::msg(errno::EINVAL, "request header missing")),
                false => Ok(Self {
                    device: None,
                    flags: 0,
                }),
            };
        };
        // The policy of the request has checked the header.
        let inside = header.attrs();
        let tb = parse_at(
            inside.rest(),
            inside.offset(),
            &HEADER_STATS,
            Strictness::Strict,
        )?;
        let flags = tb.u32(attr::header::FLAGS)?.unwrap_or(0);
        let (index, name) = (
            tb.get(attr::header::DEV_INDEX),
            tb.get(attr::header::DEV_NAME),
        );
        let missing = |text, at: &Attr<'_>| Error::msg(errno::ENODEV, text).at(at);
        let device = match (index, name) {
            (Some(index), name) => {
                let device = ns.device(index.u32()?, guard).cloned();
                let device = device.ok_or_else(|| missing("no device matches ifindex", &index))?;
                if name.is_some_and(|name| name.c_str() != device.name().as_bytes()) {
                    return Err(missing("ifindex and name do not match", &header));
                }
                Some(device)
            }
            (None, Some(name)) => {
                let known = name.str().ok().and_then(|text| ns.device_by_name(text));
                Some(known.ok_or_else(|| missing("no device matches name", &name))?)
            }
            (None, None) if required => {
                let text = "neither ifindex nor name specified";
                return Err(Error::msg(errno::EINVAL, text).at(&header));
            }
            (None, None) => None,
        };
        Ok(Self { device, flags })
    }

    fn compact(&self) -> bool {
        self.flags & attr::flag::COMPACT_BITSETS as u32 != 0
    }
}

/// Returns the device of a request, and whether it wants compact bitsets.
fn device(ctl: &Ctl<'_>, tb: &Table<'_>) -> Result<(Arc<Device>, Head), Error> {
    let head = Head::read(ctl.ns, ctl.guard, tb.get(attr::HEADER), true)?;
    let device = head.device.clone().ok_or(Error::new(errno::EINVAL))?;
    Ok((device, head))
}

/// Returns the device of a request that must have a header (`GENL_REQ_ATTR_CHECK`).
fn device_to_read(ctl: &Ctl<'_>, tb: &Table<'_>) -> Result<(Arc<Device>, Head), Error> {
    tb.require(attr::HEADER)?;
    device(ctl, tb)
}

/// Writes the header of a reply (`ethnl_fill_reply_header`), behind that of generic netlink.
fn put_header(w: &mut Writer, cmd: u8, device: Option<&Device>, ty: u16) {
    w.fixed(&GenlMsg {
        cmd,
        version: VERSION,
        reserved: 0,
    });
    if let Some(device) = device {
        let nest = w.nest(ty);
        w.put_u32(attr::header::DEV_INDEX, device.ifindex());
        w.put_str(attr::header::DEV_NAME, &device.name());
        w.end(nest);
    }
}

/// Writes a reply about a device behind its headers. Returns `false` if the device has nothing of the kind.
type Fill = fn(&DumpCtl<'_>, &mut Writer, &Arc<Device>, bool) -> bool;

/// Starts a dump of every device that has what `fill` writes (`ethnl_default_start`).
fn dump(ctl: &Ctl<'_>, tb: &Table<'_>, fill: Fill) -> Result<Box<dyn Dump>, Error> {
    // A device in the header of a dump is ignored, as in Linux.
    let head = Head::read(ctl.ns, ctl.guard, tb.get(attr::HEADER), false);
    let compact = match head {
        Err(error) => return Err(error),
        Ok(_) if !tb.has(attr::HEADER) => return Err(Error::new(errno::EINVAL)),
        Ok(head) => head.compact(),
    };
    let devices: Vec<Arc<Device>> = ctl.ns.links().by_index.values().cloned().collect();
    let each = move |ctl: &DumpCtl<'_>, device: &Arc<Device>, out: &mut Writer| {
        // Nothing is written for a device without the operation.
        let mut probe = Writer::new();
        probe.set_limit(usize::MAX);
        if !fill(ctl, &mut probe, device, compact) {
            return true;
        }
        ctl.message(out, ID, |w| {
            fill(ctl, w, device, compact);
        })
    };
    Ok(Collected::boxed(devices, false, each))
}

/// Tells the listeners of a namespace (`ethnl_multicast`).
fn tell(stack: &Stack, ns: &Namespace, cmd: u8, fill: impl FnOnce(&mut Writer)) {
    debug_assert_ne!(cmd, 0);
    let sequence = stack.parts.get(&SEQUENCE).fetch_add(1, Relaxed) + 1;
    if !ns.generic.anybody(MONITOR) {
        return;
    }
    let mut out = Writer::new();
    let message = out.message(ID, 0, sequence, 0);
    fill(&mut out);
    let _ = out.finish(message);
    ns.generic.notify(MONITOR, out.bytes(), None);
}

fn unsupported() -> Error {
    Error::new(errno::EOPNOTSUPP)
}

/// Refuses an operation that no driver has.
fn no_operation(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    device(ctl, tb)?;
    Err(unsupported())
}

fn set_private_flags(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    if !tb.has(2) {
        return Err(Error::new(errno::EINVAL));
    }
    no_operation(ctl, tb)
}

/// Refuses a power mode of a plug-in module (`ethnl_set_module`).
fn set_module(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    device(ctl, tb)?;
    let text = "Setting power mode policy is not supported by this device";
    match tb.get(2) {
        Some(policy) => Err(Error::msg(errno::EOPNOTSUPP, text).at(&policy)),
        None => Ok(()),
    }
}

/// Refuses power over Ethernet (`ethnl_set_pse`).
fn set_power(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    device(ctl, tb)?;
    match tb.has(3) {
        true => Err(unsupported()),
        false => Ok(()),
    }
}

fn no_tunnels(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    device(ctl, tb)?;
    let text = "device does not report tunnel offload info";
    Err(Error::msg(errno::EOPNOTSUPP, text))
}

fn no_phy(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    device(ctl, tb)?;
    Err(Error::msg(errno::EOPNOTSUPP, "No PHY is attached"))
}

fn no_module(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    device(ctl, tb)?;
    match (2..=6).all(|ty| ty == 5 || tb.has(ty)) {
        true => Err(unsupported()),
        false => Err(Error::new(errno::EINVAL)),
    }
}

/// Answers with the header alone: no device has a hardware clock.
fn get_clocks(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    let (device, _) = device_to_read(ctl, tb)?;
    let cmd = attr::MSG_PHC_VCLOCKS_GET_REPLY;
    ctl.reply(ID, 0, |w| put_header(w, cmd, Some(&device), attr::HEADER))
}

fn fill_clocks(_: &DumpCtl<'_>, w: &mut Writer, device: &Arc<Device>, _: bool) -> bool {
    put_header(
        w,
        attr::MSG_PHC_VCLOCKS_GET_REPLY,
        Some(device),
        attr::HEADER,
    );
    true
}

/// Answers with the header alone: no device has a plug-in module.
fn get_module(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    let (device, _) = device_to_read(ctl, tb)?;
    let cmd = attr::MSG_MODULE_GET_REPLY;
    ctl.reply(ID, 0, |w| put_header(w, cmd, Some(&device), attr::HEADER))
}

fn fill_module(_: &DumpCtl<'_>, w: &mut Writer, device: &Arc<Device>, _: bool) -> bool {
    put_header(w, attr::MSG_MODULE_GET_REPLY, Some(device), attr::HEADER);
    true
}

/// The context of a reply that is no dump.
fn once<'a>(ctl: &Ctl<'a>) -> DumpCtl<'a> {
    DumpCtl {
        stack: ctl.stack,
        ns: ctl.ns,
        guard: ctl.guard,
        portid: ctl.portid,
        seq: ctl.message.header.seq,
        flags: 0,
    }
}

/// Tells about the device of a request with `fill`; `refused` is the error if the device has nothing of the
/// kind.
fn reply(ctl: &mut Ctl<'_>, tb: &Table<'_>, fill: Fill, refused: Error) -> Result<(), Error> {
    let (device, head) = device_to_read(ctl, tb)?;
    let context = once(ctl);
    let mut has = true;
    let before = ctl.answers.len();
    ctl.reply(ID, 0, |w| has = fill(&context, w, &device, head.compact()))?;
    if !has {
        ctl.answers.truncate(before);
        return Err(refused);
    }
    Ok(())
}

/// Tells the listeners of the namespace that a device belongs to.
fn tell_of(site: &Site<'_>, cmd: u8, fill: impl FnOnce(&mut Writer)) {
    tell(site.stack, site.ns, cmd, fill);
}
