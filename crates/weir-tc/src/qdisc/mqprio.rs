// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mqprio`: transmit queues by traffic class.
//!
//! Mirrors net/sched/sch_mqprio.c. Parameters: `num_tc` (number of classes, at most 16), `map` (the
//! class of each of the 16 packet priorities), `queues` (number and first of each class's transmit
//! queues; the ranges are in ascending order and do not overlap), `hw`. A packet takes a queue of
//! its class. Class `n` below 0xffe0 is transmit queue `n - 1`, with the default qdisc under it as
//! in `mq`. Classes from 0xffe0 on are the traffic classes, with the sums of the counters of their
//! queues. It is refused on a device with one queue, and anywhere but at the root.
//!
//! Hardware queues are not implemented. `hw` and, with it, `mode`, `shaper` and the rates are
//! refused as by a driver without them.

use std::sync::Arc;

use weir_netlink::errno::{EINVAL, ENOMEM, EOPNOTSUPP};
use weir_netlink::tca::{self, h, mqprio as attr};
use weir_netlink::{Error, Fixed, Policy, Rule, Strictness, TcMqprioQopt, TcMsg, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::bands::Bands;
use super::{ClassStats, Create, Drops, Enqueued, Gone, Leaf, Load, Node, Ops, Qdisc, QueueCx, mq};
use crate::counters::Queue;
use crate::txq::{CLASSES, TrafficClasses};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    classful: true,
    queues: true,
    attach: true,
    ..Ops::new("mqprio", create)
};

/// First id of the traffic classes (`TC_H_MIN_PRIORITY`).
const PRIORITY: u32 = 0xffe0;

static POLICY: Policy = policy! { max attr::MAX;
    attr::MODE => Rule::unspec(2),
    attr::SHAPER => Rule::unspec(2),
    attr::MIN_RATE64 => Rule::nested_any(),
    attr::MAX_RATE64 => Rule::nested_any(),
};

/// The state of the qdisc.
struct Mqprio {
    queues: Bands,
    classes: TrafficClasses,
}

/// Returns whether each priority maps to an existing class.
fn maps(qopt: &TcMqprioQopt) -> bool {
    let mut map = qopt.prio_tc_map.iter();
    usize::from(qopt.num_tc) <= CLASSES && map.all(|&class| class < qopt.num_tc)
}

/// Returns whether the ranges of queues are ascending, disjoint and within `queues`
/// (`mqprio_parse_opt`).
fn fits(qopt: &TcMqprioQopt, queues: u32) -> bool {
    let classes = usize::from(qopt.num_tc);
    (0..classes).all(|class| {
        let (first, count) = (u32::from(qopt.offset[class]), u32::from(qopt.count[class]));
        let last = first + count;
        let others = &qopt.offset[class + 1..classes];
        first < queues
            && count > 0
            && last <= queues
            && others.iter().all(|&other| last <= u32::from(other))
    })
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let invalid = Error::new(EINVAL);
    let count = create.device.tx_queues();
    if create.parent != h::ROOT || count == 1 {
        return Err(Error::new(EOPNOTSUPP));
    }
    if count >= PRIORITY {
        return Err(Error::new(ENOMEM));
    }
    let options = create.options.ok_or(invalid.clone())?;
    let qopt = TcMqprioQopt::from_bytes(options.payload).ok_or(invalid.clone())?;
    let fit = maps(&qopt)
        && match qopt.hw {
            0 => fits(&qopt, count),
            _ => create.device.has_offload_hook(),
        };
    if !fit {
        return Err(invalid);
    }
    if qopt.hw != 0 {
        // Linux asks the driver, which refuses.
        return Err(Error::new(EOPNOTSUPP));
    }
    let start = TcMqprioQopt::LEN.next_multiple_of(4);
    if options.payload.len() > start {
        let inside = options.attrs_after(start);
        let parsed =
            weir_netlink::parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Liberal);
        parsed.map_err(|error| Error::new(error.errno))?;
        let message = "mqprio TCA_OPTIONS can only contain netlink attributes in hardware mode";
        return Err(Error::msg(EINVAL, message));
    }
    Ok(Box::new(Mqprio {
        queues: mq::queues(create)?,
        classes: TrafficClasses::of(&qopt),
    }))
}

impl Mqprio {
    /// Returns the traffic class with an id.
    fn traffic_class(&self, class: u32) -> Option<usize> {
        let class = class.checked_sub(PRIORITY)?;
        (class < u32::from(self.classes.count)).then_some(class as usize)
    }
}

impl Qdisc for Mqprio {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        q.drop(packet, DropReason::QDISC_DROP)
    }

    fn dequeue(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        None
    }

    fn load(&self) -> Load {
        Load::default()
    }

    fn reset(&mut self, out: &mut Drops) {
        self.queues.reset(out);
    }

    fn dump(&self, w: &mut Writer) {
        // The options are a nest, which ends at a multiple of four bytes.
        let mut shown = self.classes.shown().to_vec();
        shown.resize(TcMqprioQopt::LEN.next_multiple_of(4), 0);
        w.put(tca::OPTIONS, &shown);
    }

    fn find(&self, classid: u32) -> u32 {
        match classid & h::MIN_MASK {
            class if self.traffic_class(class).is_some() => class,
            class if self.slot(class).is_some() => class,
            _ => 0,
        }
    }

    fn slot(&self, class: u32) -> Option<&Leaf> {
        self.queues.slot(class)
    }

    fn slot_mut(&mut self, class: u32) -> Option<(&mut Leaf, &mut Load)> {
        self.queues.slot_mut(class)
    }

    fn graft(
        &mut self,
        class: u32,
        new: Option<Arc<Node>>,
        create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<Option<Arc<Node>>, Error> {
        if class >= PRIORITY {
            return Err(Error::new(EINVAL));
        }
        Ok(mq::graft(&mut self.queues, class, new, create, gone))
    }

    fn queues(&self) -> Vec<u32> {
        self.queues.classes()
    }

    fn traffic_classes(&self) -> Option<&TrafficClasses> {
        Some(&self.classes)
    }

    fn summed(&self) -> Option<(u64, u64, Queue)> {
        Some(self.queues.sum(0, usize::MAX))
    }

    fn classes(&self) -> Vec<u32> {
        let classes = PRIORITY..PRIORITY + u32::from(self.classes.count);
        classes.chain(self.queues.classes()).collect()
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, _w: &mut Writer) {
        if class >= PRIORITY {
            tcm.parent = h::ROOT;
        } else {
            let of = self.classes.of_queue(class - 1);
            tcm.parent = of.map_or(0, |of| tcm.handle | (PRIORITY + u32::from(of)));
            tcm.info = self.leaf(class).map_or(0, |leaf| leaf.handle);
        }
        tcm.handle |= class;
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        let Some(of) = self.traffic_class(class) else {
            return Some(self.queues.class_stats(class));
        };
        let (first, count) = self.classes.queues[of];
        Some(self.queues.sum(first.into(), count.into()).into())
    }
}
