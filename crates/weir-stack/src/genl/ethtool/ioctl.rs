// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `SIOCETHTOOL`: the older interface to the same operations (`dev_ethtool`, net/ethtool/ioctl.c).
//!
//! A command is a structure that begins with its number. [`serve`] returns the bytes that replace it. Numbers
//! have the host's byte order.
//!
//! Served: `GSET`, `GDRVINFO`, `GLINK`, `GLINKSETTINGS`, `GPERMADDR`, `GSTRINGS`, `GSSET_INFO`, `GSTATS`,
//! `GFEATURES`, `SFEATURES`, `GCHANNELS`, `SCHANNELS`, `GET_TS_INFO`, and the commands for single features
//! (`GRXCSUM`, `GTSO` and so on). All others get EOPNOTSUPP, as from these drivers on Linux.

use std::sync::Arc;

use weir_sync::rcu::Guard;

use super::{link, queues, strset};
use crate::device::Device;
use crate::ethtool::RELEASE;
use crate::features::{NAMES, bit};
use crate::namespace::Namespace;
use crate::netdev::update_features;
use crate::stack::Stack;
use weir_netlink::{Error, errno};

const GSET: u32 = 0x01;
const GDRVINFO: u32 = 0x03;
const GLINK: u32 = 0x0a;
const GRXCSUM: u32 = 0x14;
const GTXCSUM: u32 = 0x16;
const GSG: u32 = 0x18;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GTSO: u32 = 0x1e;
const GPERMADDR: u32 = 0x20;
const GGSO: u32 = 0x23;
const GFLAGS: u32 = 0x25;
const SFLAGS: u32 = 0x26;
const GGRO: u32 = 0x2b;
const GSSET_INFO: u32 = 0x37;
const GFEATURES: u32 = 0x3a;
const SFEATURES: u32 = 0x3b;
const GCHANNELS: u32 = 0x3c;
const SCHANNELS: u32 = 0x3d;
const GET_TS_INFO: u32 = 0x41;
const GLINKSETTINGS: u32 = 0x4c;

/// The last set of strings that this interface has (`ETH_SS_LINK_MODES`).
const LINK_MODES: u32 = 9;
/// The kernel's own errno for a buffer that is too small, which clients see.
const ETOOSMALL: i32 = 525;
/// Bytes of a string (`ETH_GSTRING_LEN`).
const STRING: usize = 32;
/// The flags of `GFLAGS` with their features (`ETH_FLAG_*`).
const FLAGS: [(u32, u64); 5] = [
    (1 << 7, bit::HW_VLAN_CTAG_TX),
    (1 << 8, bit::HW_VLAN_CTAG_RX),
    (1 << 15, bit::LRO),
    (1 << 27, bit::NTUPLE),
    (1 << 28, bit::RXHASH),
];
/// `ETHTOOL_F_UNSUPPORTED` and `ETHTOOL_F_WISH`.
const UNSUPPORTED: i64 = 1;
const WISH: i64 = 2;

fn word(bytes: &[u8], n: usize) -> u32 {
    let word = bytes.get(4 * n..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}

fn put(out: &mut [u8], n: usize, value: u32) {
    if let Some(place) = out.get_mut(4 * n..4 * n + 4) {
        place.copy_from_slice(&value.to_ne_bytes());
    }
}

/// Writes a string of at most `room` bytes with its NUL at an offset.
fn put_text(out: &mut [u8], at: usize, room: usize, text: &str) {
    let text = text.as_bytes();
    let n = text.len().min(room - 1);
    if let Some(place) = out.get_mut(at..at + n) {
        place.copy_from_slice(&text[..n]);
    }
}

fn no() -> Error {
    Error::new(errno::EOPNOTSUPP)
}

/// Serves a command for the device `name`. Returns the bytes that replace the command from its start, and
/// the result of the call.
///
/// # Errors
/// ENODEV for an unknown device, otherwise as the command fails on Linux.
pub fn serve(
    stack: &Stack,
    guard: &Guard,
    ns: &Arc<Namespace>,
    name: &str,
    command: &[u8],
) -> Result<(Vec<u8>, i64), Error> {
    let device = ns.device_by_name(name).ok_or(Error::new(errno::ENODEV))?;
    let device = &device;
    let mut out = command.to_vec();
    let features = &device.features;
    match word(command, 0) {
        GDRVINFO => {
            out.fill(0);
            put(&mut out, 0, GDRVINFO);
            driver_info(device, &mut out)?;
        }
        GLINK => {
            let state = link::state(stack, device).ok_or_else(no)?;
            put(&mut out, 1, u32::from(state));
        }
        GSET => {
            // `struct ethtool_cmd`
            let settings = device.link.link_settings().ok_or_else(no)?;
            let [low, high] = [settings.speed as u16, (settings.speed >> 16) as u16];
            out = vec![0; 44];
            put(&mut out, 0, GSET);
            out[12..14].copy_from_slice(&low.to_ne_bytes());
            out[14..16].copy_from_slice(&[settings.duplex, settings.port]);
            out[28..30].copy_from_slice(&high.to_ne_bytes());
        }
        GLINKSETTINGS => link_settings(device, &mut out)?,
        GPERMADDR => {
            if word(command, 1) < 6 {
                return Err(Error::new(ETOOSMALL));
            }
            put(&mut out, 1, 6);
            out.resize(14, 0);
        }
        GSTRINGS => {
            let set = word(command, 1);
            let strings = strings(device, set)?;
            put(&mut out, 2, strings.len() as u32);
            for string in strings {
                let at = out.len();
                out.resize(at + STRING, 0);
                put_text(&mut out, at, STRING, &string);
            }
        }
        GSSET_INFO => sets(device, &mut out)?,
        GSTATS => {
            let list = device.link.driver_stats(device);
            if list.is_empty() {
                return Err(no());
            }
            put(&mut out, 1, list.len() as u32);
            for (_, value) in list {
                out.extend(value.to_ne_bytes());
            }
        }
        GFEATURES => {
            let room = word(command, 1).min(2);
            put(&mut out, 1, 2);
            for block in 0..room {
                let part = |map: u64| ((map >> (32 * block)) as u32).to_ne_bytes();
                out.extend(part(features.changeable()));
                out.extend(part(features.wanted()));
                out.extend(part(features.active()));
                out.extend(part(bit::NEVER_CHANGE));
            }
        }
        SFEATURES => return set_features(stack, guard, device, out),
        GCHANNELS => {
            if !device.link.driver().channels {
                return Err(no());
            }
            let (tx, rx) = device.used_queues();
            let values = [device.rx_queues(), device.tx_queues(), 0, 0, rx, tx, 0, 0];
            for (n, value) in (1..).zip(values) {
                put(&mut out, n, value);
            }
        }
        SCHANNELS => {
            if !device.link.driver().channels {
                return Err(no());
            }
            if word(command, 7) != 0 || word(command, 8) != 0 {
                return Err(Error::new(errno::EINVAL));
            }
            queues::apply(device, (word(command, 6), word(command, 5)))?;
        }
        GET_TS_INFO => {
            out.fill(0);
            put(&mut out, 0, GET_TS_INFO);
            put(&mut out, 1, link::stamps(device));
            put(&mut out, 2, u32::MAX); // no hardware clock
        }
        GFLAGS => {
            let flags = FLAGS.iter().filter(|(_, bit)| features.active() & bit != 0);
            put(&mut out, 1, flags.fold(0, |all, (flag, _)| all | flag));
        }
        SFLAGS => set_flags(stack, guard, device, word(command, 1))?,
        single => {
            let Some((bits, write)) = single_feature(single) else {
                return Err(no());
            };
            if write {
                let bits = bits & features.changeable();
                if bits == 0 {
                    return Err(no());
                }
                let on = word(command, 1) != 0;
                features.want(if on { bits } else { 0 }, bits);
                update_features(stack, guard, device);
            } else {
                put(&mut out, 1, u32::from(features.active() & bits != 0));
            }
        }
    }
    Ok((out, 0))
}

/// Returns the features that a command for a single one reads or writes (`ethtool_get_feature_mask`).
fn single_feature(command: u32) -> Option<(u64, bool)> {
    const CHECKSUMS: u64 =
        bit::IP_CSUM | bit::IPV6_CSUM | bit::HW_CSUM | bit::FCOE_CRC | bit::SCTP_CRC;
    let table = [
        (GRXCSUM, bit::RXCSUM),
        (GTXCSUM, CHECKSUMS),
        (GSG, bit::SG | bit::FRAGLIST),
        (GTSO, bit::ALL_TSO),
        (GGSO, bit::GSO),
        (GGRO, bit::GRO),
    ];
    // The command to write follows the one to read.
    let found = table
        .iter()
        .find(|(read, _)| command.wrapping_sub(*read) < 2);
    found.map(|(read, bits)| (*bits, command != *read))
}

/// `struct ethtool_drvinfo`
fn driver_info(device: &Device, out: &mut [u8]) -> Result<(), Error> {
    let kind = device.link.kind();
    let named = device.link.driver().info;
    let named = named.or((!kind.is_empty()).then_some((kind, RELEASE, "")));
    let (driver, version, firmware) = named.ok_or_else(no)?;
    put_text(out, 4, 32, driver);
    put_text(out, 36, 32, version);
    put_text(out, 68, 32, firmware);
    if let Some(port) = device.link.port() {
        put_text(out, 100, 32, &port.parent);
    }
    put(out, 45, device.link.driver_stats(device).len() as u32);
    Ok(())
}

/// `struct ethtool_link_settings`. A client first asks for the number of words of a bit map of modes, and
/// gets it as a negative number.
fn link_settings(device: &Device, out: &mut Vec<u8>) -> Result<(), Error> {
    const WORDS: i8 = 3;
    let settings = device.link.link_settings().ok_or_else(no)?;
    let asked = out.get(15).copied().unwrap_or(0) as i8;
    out.fill(0);
    put(out, 0, GLINKSETTINGS);
    if let Some(words) = out.get_mut(15) {
        *words = if asked == WORDS { WORDS } else { -WORDS } as u8;
    }
    if asked == WORDS {
        put(out, 1, settings.speed);
        if let Some(place) = out.get_mut(8..10) {
            place.copy_from_slice(&[settings.duplex, settings.port]);
        }
        // Three empty maps: supported, advertised and advertised by the peer.
        out.resize(48 + 3 * 4 * WORDS as usize, 0);
    }
    Ok(())
}

fn strings(device: &Device, set: u32) -> Result<Vec<String>, Error> {
    match strset::fixed(set).filter(|_| set <= LINK_MODES) {
        Some(names) => Ok(names.iter().map(|name| (*name).to_owned()).collect()),
        None if set == strset::COUNTERS => {
            let list = device.link.driver_stats(device);
            match list.is_empty() {
                true => Err(no()),
                false => Ok(list.into_iter().map(|(name, _)| name).collect()),
            }
        }
        None => Err(no()),
    }
}

/// `struct ethtool_sset_info`: the numbers of strings of the sets in a mask that the device has.
fn sets(device: &Device, out: &mut Vec<u8>) -> Result<(), Error> {
    let asked = u64::from(word(out, 2)) | u64::from(word(out, 3)) << 32;
    if asked == 0 {
        return Ok(());
    }
    let mut has = 0_u64;
    for set in (0..64).filter(|set| asked >> set & 1 != 0) {
        if let Ok(strings) = strings(device, set) {
            has |= 1 << set;
            out.extend((strings.len() as u32).to_ne_bytes());
        }
    }
    put(out, 2, has as u32);
    put(out, 3, (has >> 32) as u32);
    Ok(())
}

/// `ethtool_set_features`
fn set_features(
    stack: &Stack,
    guard: &Guard,
    device: &Arc<Device>,
    out: Vec<u8>,
) -> Result<(Vec<u8>, i64), Error> {
    if word(&out, 1) as usize != NAMES.len() / 32 {
        return Err(Error::new(errno::EINVAL));
    }
    let map = |first| u64::from(word(&out, first)) | u64::from(word(&out, first + 2)) << 32;
    let (mask, wanted) = (map(2), map(3));
    if mask & bit::NEVER_CHANGE != 0 {
        return Err(Error::new(errno::EINVAL));
    }
    let features = &device.features;
    let mut result = 0;
    if mask & !features.changeable() != 0 {
        result |= UNSUPPORTED;
    }
    let mask = mask & features.changeable();
    features.want(wanted, mask);
    update_features(stack, guard, device);
    if (features.wanted() ^ features.active()) & mask != 0 {
        result |= WISH;
    }
    Ok((out, result))
}

/// `__ethtool_set_flags`
fn set_flags(stack: &Stack, guard: &Guard, device: &Arc<Device>, flags: u32) -> Result<(), Error> {
    if FLAGS.iter().fold(flags, |rest, (flag, _)| rest & !flag) != 0 {
        return Err(Error::new(errno::EINVAL));
    }
    let features = &device.features;
    let all = FLAGS.iter().fold(0, |all, (_, bit)| all | bit);
    let set = FLAGS.iter().filter(|(flag, _)| flags & flag != 0);
    let set = set.fold(0, |all, (_, bit)| all | bit);
    let changed = (set ^ features.active()) & all;
    if changed & !features.changeable() != 0 {
        let all_fixed = changed & features.changeable() == 0;
        return Err(Error::new(if all_fixed {
            errno::EOPNOTSUPP
        } else {
            errno::EINVAL
        }));
    }
    features.want(set, changed);
    update_features(stack, guard, device);
    Ok(())
}
