// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parsing of requests: the checks of `taprio_change`, in the same order.

use weir_netlink::errno::{EINVAL, ENOTSUPP, EOPNOTSUPP, ERANGE};
use weir_netlink::tca::taprio as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Strictness, Table, TcMqprioQopt, policy};

use super::schedule::{Entry, Schedule};
use super::{ASSIST, Taprio};
use crate::host::Device;
use crate::qdisc::Create;
use crate::txq::{CLASSES, TrafficClasses};

/// Flag of full offload (`TCA_TAPRIO_ATTR_FLAG_FULL_OFFLOAD`).
const OFFLOAD: u32 = 2;

/// Length of the shortest frame, in bytes (`ETH_ZLEN`).
const SHORTEST: i64 = 60;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PRIOMAP => Rule::unspec(TcMqprioQopt::LEN as u16),
    attr::SCHED_ENTRY_LIST => Rule::nested_any(),
    attr::SCHED_BASE_TIME => Rule::s64(),
    attr::SCHED_SINGLE_ENTRY => Rule::nested_any(),
    attr::SCHED_CLOCKID => Rule::s32(),
    attr::SCHED_CYCLE_TIME => Rule::s64().signed(0, i32::MAX as i64),
    attr::SCHED_CYCLE_TIME_EXTENSION => Rule::s64(),
    attr::FLAGS => Rule::u32(),
    attr::TXTIME_DELAY => Rule::u32(),
    attr::TC_ENTRY => Rule::nested_any(),
};

static ENTRY: Policy = policy! { max attr::ENTRY_MAX;
    attr::ENTRY_INDEX => Rule::u32(),
    attr::ENTRY_CMD => Rule::u8(),
    attr::ENTRY_GATE_MASK => Rule::u32(),
    attr::ENTRY_INTERVAL => Rule::u32(),
};

static CLASS: Policy = policy! { max attr::TC_ENTRY_MAX;
    attr::TC_ENTRY_INDEX => Rule::u32().max(CLASSES as u64),
    attr::TC_ENTRY_MAX_SDU => Rule::u32(),
};

/// Clocks (`CLOCK_*`).
mod clock {
    pub const REALTIME: i32 = 0;
    pub const MONOTONIC: i32 = 1;
    pub const BOOTTIME: i32 = 7;
    pub const TAI: i32 = 11;
}

/// A request that has passed all checks.
pub struct Request {
    /// The requested traffic classes; `None` keeps the present ones.
    pub classes: Option<TrafficClasses>,
    pub flags: u32,
    pub clockid: i32,
    pub delay: Option<u32>,
    pub max_sdu: [u32; CLASSES],
    pub schedule: Schedule,
}

fn invalid(text: &'static str) -> Error {
    Error::msg(EINVAL, text)
}

/// Returns the time of a clock at the start of the stack's clock, in ns.
pub fn offset(clockid: i32, create: &Create<'_>) -> i64 {
    match clockid {
        clock::MONOTONIC | clock::BOOTTIME => 0,
        _ => create.env.host.epoch() as i64,
    }
}

/// Returns the picoseconds per byte at the link's speed, 10 Mbit/s if the device reports none
/// (`taprio_set_picos_per_byte`).
pub fn picos_per_octet(speed: Option<u32>) -> i64 {
    8_000_000 / i64::from(speed.filter(|&speed| speed > 0).unwrap_or(10))
}

/// Parses and checks the flags (`taprio_new_flags`).
fn flags(tb: &Table<'_>, old: Option<&Taprio>) -> Result<u32, Error> {
    let new = tb.u32(attr::FLAGS)?.unwrap_or(0);
    if old.is_some_and(|old| old.flags != new) {
        let text = "sch_taprio: Changing 'flags' of a running schedule is not supported";
        return Err(Error::msg(EOPNOTSUPP, text));
    }
    if new > OFFLOAD {
        return Err(invalid("sch_taprio: Specified 'flags' are not valid"));
    }
    Ok(new)
}

/// Checks the traffic classes and their queues (`taprio_parse_mqprio_opt`).
fn classes(qopt: &TcMqprioQopt, flags: u32, queues: u32) -> Result<(), Error> {
    let count = usize::from(qopt.num_tc);
    if count > CLASSES {
        return Err(invalid("Number of traffic classes is outside valid range"));
    }
    if count as u32 > queues {
        let text = "Number of traffic classes is greater than number of HW queues";
        return Err(invalid(text));
    }
    if qopt.prio_tc_map.iter().any(|&class| class >= qopt.num_tc) {
        let text = "Invalid traffic class in priority to traffic class mapping";
        return Err(invalid(text));
    }
    for class in 0..count {
        let (first, queue) = (u32::from(qopt.offset[class]), u32::from(qopt.count[class]));
        let last = first + queue;
        if first >= queues || queue == 0 || last > queues {
            return Err(invalid("Invalid queue in traffic class to queue mapping"));
        }
        let others = &qopt.offset[class + 1..count];
        if flags & ASSIST == 0 && others.iter().any(|&other| last > u32::from(other)) {
            let text = "Detected overlap in the traffic class to queue mapping";
            return Err(invalid(text));
        }
    }
    Ok(())
}

/// Parses the largest packets of traffic classes (`taprio_parse_tc_entries`).
fn max_sdu(
    options: &Attr<'_>,
    mut sdu: [u32; CLASSES],
    device: &dyn Device,
) -> Result<[u32; CLASSES], Error> {
    let mut seen = 0u32;
    for nest in options.attrs().filter(|attr| attr.ty == attr::TC_ENTRY) {
        let tb = nest.parse(&CLASS, Strictness::Strict)?;
        let class = tb.u32(attr::TC_ENTRY_INDEX)?;
        let class = class.ok_or(invalid("sch_taprio: TC entry index missing"))?;
        let out = Error::msg(ERANGE, "sch_taprio: TC entry index out of range");
        let place = sdu.get_mut(class as usize).ok_or(out)?;
        if seen & 1 << class != 0 {
            return Err(invalid("sch_taprio: Duplicate TC entry"));
        }
        seen |= 1 << class;
        let value = tb.u32(attr::TC_ENTRY_MAX_SDU)?.unwrap_or(0);
        if value > device.max_mtu() {
            let text = "sch_taprio: TC max SDU exceeds device max MTU";
            return Err(Error::msg(ERANGE, text));
        }
        *place = value;
    }
    Ok(sdu)
}

/// Parses an entry of a schedule (`parse_sched_entry`). `shortest` is the transmission time of the
/// shortest frame, in ns.
fn entry(attr: &Attr<'_>, shortest: i64) -> Result<Entry, Error> {
    let parsed = attr.parse(&ENTRY, Strictness::Liberal);
    let tb = parsed.map_err(|_| invalid("Could not parse nested entry"))?;
    let interval = tb.u32(attr::ENTRY_INTERVAL)?.unwrap_or(0);
    if interval == 0 || i64::from(interval) < shortest {
        return Err(invalid("Invalid interval for schedule entry"));
    }
    let command = tb.u8(attr::ENTRY_CMD)?.unwrap_or(0);
    let mask = tb.u32(attr::ENTRY_GATE_MASK)?.unwrap_or(0);
    Ok(Entry::new(command, mask, interval))
}

/// Parses a schedule (`parse_taprio_schedule`). `shortest` is the transmission time of the shortest
/// frame, in ns.
fn schedule(tb: &Table<'_>, shortest: i64) -> Result<Schedule, Error> {
    if tb.has(attr::SCHED_SINGLE_ENTRY) {
        let text = "Adding a single entry is not supported";
        return Err(Error::msg(ENOTSUPP, text));
    }
    let mut entries = Vec::new();
    if let Some(list) = tb.get(attr::SCHED_ENTRY_LIST) {
        // Other attributes are ignored.
        for nest in list.attrs().filter(|attr| attr.ty == attr::SCHED_ENTRY) {
            entries.push(entry(&nest, shortest)?);
        }
    }
    let mut cycle = tb.i64(attr::SCHED_CYCLE_TIME)?.unwrap_or(0);
    if cycle == 0 {
        cycle = entries.iter().map(|entry| i64::from(entry.interval)).sum();
        if cycle > i64::from(i32::MAX) {
            return Err(invalid("'cycle_time' is too big"));
        }
    }
    if cycle < entries.len() as i64 * shortest {
        return Err(invalid("'cycle_time' is too small"));
    }
    if entries.is_empty() {
        let text = "There should be at least one entry in the schedule";
        return Err(invalid(text));
    }
    let base = tb.i64(attr::SCHED_BASE_TIME)?.unwrap_or(0);
    let extension = tb.i64(attr::SCHED_CYCLE_TIME_EXTENSION)?.unwrap_or(0);
    Ok(Schedule::new(base, cycle, extension, entries))
}

/// Parses and checks the clock (`taprio_parse_clockid`).
fn clockid(tb: &Table<'_>, flags: u32, old: Option<&Taprio>) -> Result<i32, Error> {
    let given = tb.i32(attr::SCHED_CLOCKID)?;
    if flags & OFFLOAD != 0 {
        return Err(match given {
            Some(_) => invalid("The 'clockid' cannot be specified for full offload"),
            None => Error::msg(ENOTSUPP, "Device does not have a PTP clock"),
        });
    }
    let clockid = given.ok_or(invalid("Specifying a 'clockid' is mandatory"))?;
    if clockid < 0 || old.is_some_and(|old| old.clockid != clockid) {
        let text = "Changing the 'clockid' of a running schedule is not supported";
        return Err(Error::msg(ENOTSUPP, text));
    }
    match clockid {
        clock::REALTIME | clock::MONOTONIC | clock::BOOTTIME | clock::TAI => Ok(clockid),
        _ => Err(invalid("Invalid 'clockid'")),
    }
}

impl Request {
    /// Checks a request to create a qdisc, or to change `old`.
    pub fn of(create: &Create<'_>, old: Option<&Taprio>) -> Result<Self, Error> {
        let options = create.options.ok_or(Error::new(EINVAL))?;
        let tb = options.parse(&POLICY, Strictness::Liberal)?;
        let flags = flags(&tb, old)?;
        let qopt = tb.get(attr::PRIOMAP);
        let qopt = qopt.and_then(|qopt| TcMqprioQopt::from_bytes(qopt.payload));
        match &qopt {
            Some(qopt) => classes(qopt, flags, create.device.tx_queues())?,
            None if old.is_none() => {
                return Err(invalid("'mqprio' configuration is necessary"));
            }
            None => {}
        }
        let kept = old.map_or([0; CLASSES], |old| old.max_sdu);
        let max_sdu = max_sdu(&options, kept, &**create.device)?;
        let classes = qopt.as_ref().map(TrafficClasses::of);
        if let (Some(old), Some(new)) = (old, &classes)
            && old.classes != *new
        {
            let text = "Changing the traffic mapping of a running schedule is not supported";
            return Err(Error::msg(ENOTSUPP, text));
        }
        // Linux reads the speed of the link after these checks, so it is not yet known at creation.
        let picos = old.map_or(0, |old| old.gates.picos);
        let schedule = schedule(&tb, SHORTEST * picos / 1000)?;
        let clockid = clockid(&tb, flags, old)?;
        let delay = tb.u32(attr::TXTIME_DELAY)?;
        if delay.is_some() && flags & ASSIST == 0 {
            let text =
                "sch_taprio: txtime-delay can only be set when txtime-assist mode is enabled";
            return Err(invalid(text));
        }
        Ok(Self {
            classes,
            flags,
            clockid,
            delay,
            max_sdu,
            schedule,
        })
    }
}
