// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `gred`: one queue with up to 16 virtual queues, each with its own random early detection. The
//! lowest four bits of a packet's traffic control index (`skb->tc_index`) select the virtual queue.
//!
//! Mirrors net/sched/sch_gred.c. `setup` creates the qdisc:
//!
//! - `vqs`: number of virtual queues.
//! - `default`: the virtual queue for packets whose own does not exist. If the default does not
//!   exist either, such packets pass.
//! - `grio`: virtual queues have priorities. The averages of better ones are added to a virtual
//!   queue's own average. If two have the same priority, all share one average.
//! - `limit`: bytes, default the device's queue length in largest frames.
//! - `ecn` and `harddrop`: for all virtual queues.
//!
//! A change creates a virtual queue: `DP` (its number), `prio`, and `limit`, `min`, `max`, `avpkt`,
//! `burst`, `bandwidth` and `probability` as in `red`. Flags may also be set per virtual queue.
//!
//! Early drops have the reason QDISC_CONGESTED, drops over a limit QDISC_OVERLIMIT. Offload is not
//! supported.

use std::collections::VecDeque;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, gred as attr};
use weir_netlink::{
    Attr, Error, Fixed, Policy, Rule, Strictness, Table, TcGredQopt, TcGredSopt, TcRedQopt, Writer,
    policy,
};
use weir_packet::{DropReason, Packet};

use super::red::{self, Action, Params, STAB, Vars};
use super::{Create, Drops, Enqueued, Front, Gone, Load, Ops, Peek, Qdisc, QueueCx, ecn, pkt_len};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    ..Ops::new("gred", create)
};

/// Largest number of virtual queues (`MAX_DPs`).
const MAX_DPS: usize = 16;
/// Priority of a virtual queue without one (`GRED_DEF_PRIO`).
const DEFAULT_PRIO: u8 = (MAX_DPS / 2) as u8;
/// The flags that a virtual queue may have (`GRED_VQ_RED_FLAGS`).
const VQ_FLAGS: u32 = (red::ECN | red::HARDDROP) as u32;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcGredQopt::LEN as u16),
    attr::STAB => Rule::unspec(STAB as u16),
    attr::DPS => Rule::unspec(TcGredSopt::LEN as u16),
    attr::MAX_P => Rule::u32(),
    attr::LIMIT => Rule::u32(),
    attr::VQ_LIST => Rule::nested_any(),
};

static ENTRIES: Policy = policy! { max attr::VQ_ENTRY_MAX; attr::VQ_ENTRY => Rule::nested_any(), };

static VQ: Policy = policy! { max attr::VQ_MAX;
    attr::VQ_DP => Rule::u32(),
    attr::VQ_FLAGS => Rule::u32(),
};

/// A virtual queue (`struct gred_sched_data`).
struct Virtual {
    limit: u32,
    prio: u8,
    flags: u32,
    params: Params,
    vars: Vars,
    octets: u64,
    packets: u32,
    backlog: u32,
    prob_drop: u32,
    prob_mark: u32,
    forced_drop: u32,
    forced_mark: u32,
    over_limit: u32,
}

/// The state of the qdisc.
struct Gred {
    queue: VecDeque<Packet>,
    load: Load,
    limit: u32,
    virtuals: [Option<Box<Virtual>>; MAX_DPS],
    /// Number of virtual queues that may exist.
    count: u32,
    default: u32,
    flags: u8,
    /// Whether priorities are used (`GRED_RIO_MODE`).
    rio: bool,
    /// Whether two virtual queues have the same priority, so that all share an average
    /// (`GRED_WRED_MODE`).
    wred: bool,
    shared: Vars,
    now: u64,
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let options = create.options.ok_or(Error::new(EINVAL))?;
    let tb = options.parse(&POLICY, Strictness::Liberal)?;
    if tb.has(attr::PARMS) || tb.has(attr::STAB) {
        let message =
            "sch_gred: virtual queue configuration can't be specified at initialization time";
        return Err(Error::msg(EINVAL, message));
    }
    let frames = create.device.tx_queue_len();
    let limit = tb.u32(attr::LIMIT)?;
    let mut gred = Gred {
        queue: VecDeque::new(),
        load: Load::default(),
        limit: limit.unwrap_or_else(|| frames.wrapping_mul(create.psched_mtu())),
        virtuals: Default::default(),
        count: 0,
        default: 0,
        flags: 0,
        rio: false,
        wred: false,
        shared: Vars::default(),
        now: create.now(),
    };
    gred.set_up(&tb)?;
    Ok(Box::new(gred))
}

/// Parses an entry of the list of virtual queues: its number, and its flags if given.
fn entry(attr: &Attr<'_>) -> Result<(Option<u32>, Option<u32>), Error> {
    let tb = attr.parse(&VQ, Strictness::Liberal)?;
    Ok((tb.u32(attr::VQ_DP)?, tb.u32(attr::VQ_FLAGS)?))
}

impl Gred {
    /// Applies the setup of the qdisc (`gred_change_table_def`).
    fn set_up(&mut self, tb: &Table<'_>) -> Result<(), Error> {
        let dps = tb.get(attr::DPS);
        let setup = dps.and_then(|dps| TcGredSopt::from_bytes(dps.payload));
        let setup = setup.ok_or(Error::new(EINVAL))?;
        let message = if setup.dps as usize > MAX_DPS {
            "sch_gred: number of virtual queues too high"
        } else if setup.dps == 0 {
            "sch_gred: number of virtual queues can't be 0"
        } else if setup.def_dp >= setup.dps {
            "sch_gred: default virtual queue above virtual queue count"
        } else if setup.flags != 0 && self.own_flags() {
            "sch_gred: can't set per-Qdisc RED flags when per-virtual queue flags are used"
        } else {
            ""
        };
        if !message.is_empty() {
            return Err(Error::msg(EINVAL, message));
        }
        (self.count, self.default) = (setup.dps, setup.def_dp);
        let changed = std::mem::replace(&mut self.flags, setup.flags) != setup.flags;
        self.rio = setup.grio != 0;
        self.update_wred();
        for (at, place) in self.virtuals.iter_mut().enumerate() {
            if at >= setup.dps as usize {
                *place = None;
            } else if let Some(found) = place.as_mut().filter(|_| changed) {
                found.flags = u32::from(setup.flags) & VQ_FLAGS;
            }
        }
        Ok(())
    }

    /// Returns whether a virtual queue has its own flags (`gred_per_vq_red_flags_used`).
    fn own_flags(&self) -> bool {
        let mut virtuals = self.virtuals.iter().flatten();
        self.flags == 0 && virtuals.any(|one| one.flags != 0)
    }

    /// Determines whether all virtual queues share an average (`gred_wred_mode_check`).
    fn update_wred(&mut self) {
        let mut seen = [false; 256];
        let reachable = self.virtuals.iter().take(self.count as usize);
        let mut prios = reachable.flatten().map(|one| usize::from(one.prio));
        let same = prios.any(|prio| std::mem::replace(&mut seen[prio], true));
        self.wred = self.rio && same;
    }

    /// Parses and checks the list of virtual queues, and returns their numbers and flags
    /// (`gred_vqs_validate`).
    fn list(&self, own: u32, list: &Attr<'_>) -> Result<Vec<(usize, u32)>, Error> {
        let refuse = |message| Err(Error::msg(EINVAL, message));
        weir_netlink::validate(list.attrs(), &ENTRIES, Strictness::Liberal)?;
        let mut entries = list.attrs();
        let mut all = Vec::new();
        for one in entries.by_ref() {
            if one.ty != attr::VQ_ENTRY {
                return refuse("sch_gred: GRED_VQ_LIST can contain only entry attributes");
            }
            let (number, flags) = entry(&one)?;
            let Some(number) = number else {
                return refuse("sch_gred: Virtual queue with no index specified");
            };
            if number >= self.count {
                return refuse("sch_gred: Virtual queue with index out of bounds");
            }
            if number != own && self.virtuals[number as usize].is_none() {
                return refuse("sch_gred: Virtual queue not yet instantiated");
            }
            let Some(flags) = flags else { continue };
            if self.flags != 0 && u32::from(self.flags) != flags {
                return refuse(
                    "sch_gred: can't change per-virtual queue RED flags when per-Qdisc flags are used",
                );
            }
            if flags & !VQ_FLAGS != 0 {
                return refuse("sch_gred: invalid RED flags specified");
            }
            all.push((number as usize, flags));
        }
        if !entries.rest().is_empty() {
            return refuse("sch_gred: Trailing data after parsing virtual queue list");
        }
        Ok(all)
    }

    /// Creates or changes a virtual queue (`gred_change_vq`).
    fn set_virtual(&mut self, ctl: &TcGredQopt, stab: &[u8], max_p: u32) -> Result<(), Error> {
        if !red::check(
            ctl.qth_min,
            ctl.qth_max,
            ctl.wlog,
            ctl.scell_log,
            Some(stab),
        ) {
            return Err(Error::msg(EINVAL, "sch_gred: invalid RED parameters"));
        }
        let prio = match (self.rio, ctl.prio) {
            (false, _) => DEFAULT_PRIO,
            (true, 0) => {
                let default = self.virtuals[self.default as usize].as_ref();
                default.map_or(DEFAULT_PRIO, |default| default.prio)
            }
            (true, prio) => prio,
        };
        let qopt = TcRedQopt {
            limit: ctl.limit,
            qth_min: ctl.qth_min,
            qth_max: ctl.qth_max,
            wlog: ctl.wlog,
            plog: ctl.plog,
            scell_log: ctl.scell_log,
            flags: 0,
        };
        let params = Params::new(&qopt, Some(stab), max_p);
        let (limit, flags) = (ctl.limit.min(self.limit), u32::from(self.flags) & VQ_FLAGS);
        let place = &mut self.virtuals[ctl.dp as usize];
        let found = place.get_or_insert_with(|| {
            Box::new(Virtual {
                limit,
                prio,
                flags,
                params: params.clone(),
                vars: Vars::default(),
                octets: 0,
                packets: 0,
                backlog: 0,
                prob_drop: 0,
                prob_mark: 0,
                forced_drop: 0,
                forced_mark: 0,
                over_limit: 0,
            })
        });
        (found.limit, found.prio, found.params) = (limit, prio, params);
        if found.backlog == 0 {
            found.vars.end_idle();
        }
        found.vars.restart();
        Ok(())
    }

    /// Returns the virtual queue of a packet.
    fn number(&self, packet: &Packet) -> Option<usize> {
        let number = usize::from(packet.tc_index) % MAX_DPS;
        let there = number < self.count as usize && self.virtuals[number].is_some();
        there.then_some(number)
    }

    fn append(&mut self, packet: Packet) -> Enqueued {
        self.load.add(pkt_len(&packet));
        self.queue.push_back(packet);
        Enqueued::Queued
    }

    /// Returns the backlog shown for a virtual queue (`gred_backlog`).
    fn backlog(&self, one: &Virtual) -> u32 {
        match self.wred {
            true => self.load.backlog,
            false => one.backlog,
        }
    }
}

impl Virtual {
    /// Marks a packet, or returns true if it must be dropped.
    fn congested(&mut self, action: Action, packet: &mut Packet) -> bool {
        let forced = action == Action::Forced;
        let marks = self.flags & u32::from(red::ECN) != 0
            && !(forced && self.flags & u32::from(red::HARDDROP) != 0);
        let marked = marks && ecn::set_ce(packet);
        let counter = match (forced, marked) {
            (false, false) => &mut self.prob_drop,
            (false, true) => &mut self.prob_mark,
            (true, false) => &mut self.forced_drop,
            (true, true) => &mut self.forced_mark,
        };
        *counter = counter.wrapping_add(1);
        !marked
    }
}

impl Qdisc for Gred {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, mut packet: Packet) -> Enqueued {
        let (len, now, waiting) = (pkt_len(&packet), q.now(), q.waiting(self.load).backlog);
        let number = match self.number(&packet) {
            Some(number) => number,
            None if self.virtuals[self.default as usize].is_none() => {
                if u64::from(waiting) + u64::from(len) <= u64::from(self.limit) {
                    return self.append(packet);
                }
                return q.drop(packet, DropReason::QDISC_OVERLIMIT);
            }
            None => {
                let default = self.default as usize;
                packet.tc_index = (packet.tc_index & !(MAX_DPS as u16 - 1)) | default as u16;
                default
            }
        };
        let mut above = 0_u64;
        if self.rio && !self.wred {
            let prio = self.virtuals[number].as_ref().map_or(0, |one| one.prio);
            let better = self.virtuals.iter().flatten();
            let better = better.filter(|one| one.prio < prio && !one.vars.is_idle());
            above = better
                .map(|one| one.vars.average)
                .fold(0, u64::wrapping_add);
        }
        let Some(one) = &mut self.virtuals[number] else {
            return q.drop(packet, DropReason::QDISC_DROP);
        };
        one.packets = one.packets.wrapping_add(1);
        one.octets = one.octets.wrapping_add(u64::from(len));
        if self.wred {
            one.vars.share(&self.shared);
        }
        let waiting = if self.wred { waiting } else { one.backlog };
        one.vars.update(&one.params, waiting, now);
        one.vars.end_idle();
        if self.wred {
            self.shared.share(&one.vars);
        }
        let average = one.vars.average.wrapping_add(above);
        let action = one.vars.action_at(average, &one.params, q);
        if action != Action::Pass {
            q.note().overlimits += 1;
            if one.congested(action, &mut packet) {
                q.drop(packet, DropReason::QDISC_CONGESTED);
                return Enqueued::Congested;
            }
        }
        if u64::from(waiting) + u64::from(len) > u64::from(one.limit) {
            one.over_limit = one.over_limit.wrapping_add(1);
            return q.drop(packet, DropReason::QDISC_OVERLIMIT);
        }
        one.backlog = one.backlog.wrapping_add(len);
        self.append(packet)
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let packet = self.queue.pop_front()?;
        let len = pkt_len(&packet);
        self.load.sub(len);
        let number = self.number(&packet);
        if let Some(one) = number.and_then(|number| self.virtuals[number].as_mut()) {
            one.backlog = one.backlog.wrapping_sub(len);
            if self.wred && self.load.backlog == 0 {
                self.shared.start_idle(q.now());
            } else if !self.wred && one.backlog == 0 {
                one.vars.start_idle(q.now());
            }
        }
        Some(packet)
    }

    fn peek(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Peek {
        Peek::Next(self.queue.front().map(Front::of))
    }

    fn load(&self) -> Load {
        self.load
    }

    fn reset(&mut self, out: &mut Drops) {
        let all = self.queue.drain(..);
        out.extend(all.map(|packet| (packet, DropReason::QDISC_DROP)));
        self.load = Load::default();
        for one in self.virtuals.iter_mut().flatten() {
            one.vars.end_idle();
            one.vars.restart();
            one.backlog = 0;
        }
    }

    fn change(&mut self, create: &Create<'_>, _gone: &mut Gone) -> Result<(), Error> {
        let tb = match create.options {
            Some(options) => options.parse(&POLICY, Strictness::Liberal)?,
            None => Table::empty(),
        };
        let limit = tb.u32(attr::LIMIT)?;
        let (ctl, stab) = match (tb.get(attr::PARMS), tb.get(attr::STAB)) {
            (None, None) => {
                self.limit = limit.unwrap_or(self.limit);
                return self.set_up(&tb);
            }
            (Some(ctl), Some(stab)) if limit.is_none() => (ctl, stab),
            _ => {
                let message = "sch_gred: can't configure Qdisc and virtual queue at the same time";
                return Err(Error::msg(EINVAL, message));
            }
        };
        let max_p = tb.u32(attr::MAX_P)?.unwrap_or(0);
        let ctl = TcGredQopt::from_bytes(ctl.payload).ok_or(Error::new(EINVAL))?;
        if ctl.dp >= self.count {
            let message = "sch_gred: virtual queue index above virtual queue count";
            return Err(Error::msg(EINVAL, message));
        }
        let list = match tb.get(attr::VQ_LIST) {
            Some(list) => self.list(ctl.dp, &list)?,
            None => Vec::new(),
        };
        self.set_virtual(&ctl, stab.payload, max_p)?;
        for (number, flags) in list {
            if let Some(one) = &mut self.virtuals[number] {
                one.flags = flags;
            }
        }
        self.update_wred();
        Ok(())
    }

    fn settle(&mut self, now: u64) {
        self.now = now;
        if self.wred {
            for one in self.virtuals.iter_mut().flatten() {
                one.vars.share(&self.shared);
            }
        }
    }

    fn dump(&self, w: &mut Writer) {
        let options = w.nest_noflag(tca::OPTIONS);
        let setup = TcGredSopt {
            dps: self.count,
            def_dp: self.default,
            grio: u8::from(self.rio),
            flags: self.flags,
            pad1: 0,
        };
        w.put_fixed(attr::DPS, &setup);
        let max_p = self.virtuals.each_ref();
        let max_p = max_p.map(|one| one.as_ref().map_or(0, |one| one.params.max_p));
        w.put(attr::MAX_P, &super::words(&max_p));
        w.put_u32(attr::LIMIT, self.limit);
        // All virtual queues in one array, as old clients expect.
        let parms = w.nest_noflag(attr::PARMS);
        for (number, one) in (0..).zip(&self.virtuals) {
            let absent = TcGredQopt {
                dp: MAX_DPS as u32 + number,
                ..TcGredQopt::default()
            };
            let shown = one.as_ref().map(|one| self.shown(number, one));
            w.fixed(&shown.unwrap_or(absent));
        }
        w.end(parms);
        let list = w.nest_noflag(attr::VQ_LIST);
        for (number, one) in (0..).zip(&self.virtuals) {
            let Some(one) = one else { continue };
            let entry = w.nest_noflag(attr::VQ_ENTRY);
            w.put_u32(attr::VQ_DP, number);
            w.put_u32(attr::VQ_FLAGS, one.flags);
            w.put_u64_pad(attr::VQ_STAT_BYTES, one.octets, attr::VQ_PAD);
            w.put_u32(attr::VQ_STAT_PACKETS, one.packets);
            w.put_u32(attr::VQ_STAT_BACKLOG, self.backlog(one));
            w.put_u32(attr::VQ_STAT_PROB_DROP, one.prob_drop);
            w.put_u32(attr::VQ_STAT_PROB_MARK, one.prob_mark);
            w.put_u32(attr::VQ_STAT_FORCED_DROP, one.forced_drop);
            w.put_u32(attr::VQ_STAT_FORCED_MARK, one.forced_mark);
            w.put_u32(attr::VQ_STAT_PDROP, one.over_limit);
            w.end(entry);
        }
        w.end(list);
        w.end(options);
    }
}

impl Gred {
    fn shown(&self, number: u32, one: &Virtual) -> TcGredQopt {
        let red = one.params.qopt(one.limit, 0);
        let mut vars = one.vars;
        // Linux shows the average after another update with the average itself as the backlog.
        let average = (vars.average >> red.wlog) as u32;
        vars.update(&one.params, average, self.now);
        TcGredQopt {
            limit: red.limit,
            qth_min: red.qth_min,
            qth_max: red.qth_max,
            dp: number,
            backlog: self.backlog(one),
            qave: (vars.average >> red.wlog) as u32,
            forced: one.forced_drop,
            early: one.prob_drop,
            other: 0,
            pdrop: one.over_limit,
            wlog: red.wlog,
            plog: red.plog,
            scell_log: red.scell_log,
            prio: one.prio,
            packets: one.packets,
            bytesin: one.octets as u32,
        }
    }
}
