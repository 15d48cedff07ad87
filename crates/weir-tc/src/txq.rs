// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selection of a packet's transmit queue.
//!
//! Mirrors `netdev_core_pick_tx`, `netdev_pick_tx` and `skb_tx_hash` (net/core/dev.c). A packet
//! takes the queue it was received on if that is recorded (`queue_mapping` - 1, set by veth).
//! Otherwise its flow hash selects one of the queues of its traffic class, or one of all queues.
//! The CPU maps ([`xps`]) take precedence.
//!
//! Differences from Linux: the flow hash has no random key, so that runs are reproducible, and no
//! socket remembers a queue.

use weir_netlink::TcMqprioQopt;
use weir_packet::Packet;

use crate::qdisc::{packet_hash, scale};

pub mod xps;

/// Largest number of traffic classes (`TC_QOPT_MAX_QUEUE`).
pub const CLASSES: usize = 16;

/// Traffic classes: the packet priorities and the queues of each class (`prio_tc_map`,
/// `tc_to_txq`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrafficClasses {
    /// Number of classes, at most [`CLASSES`].
    pub count: u8,
    /// Class of each priority.
    pub of_priority: [u8; 16],
    /// First queue and number of queues of each class.
    pub queues: [(u16, u16); CLASSES],
}

impl TrafficClasses {
    /// Takes the classes of a request, with its counts and queues unchanged.
    pub fn of(qopt: &TcMqprioQopt) -> Self {
        let mut queues = [(0, 0); CLASSES];
        let given = qopt.offset.into_iter().zip(qopt.count);
        for (to, queue) in queues.iter_mut().zip(given).take(qopt.num_tc.into()) {
            *to = queue;
        }
        Self {
            count: qopt.num_tc,
            of_priority: qopt.prio_tc_map,
            queues,
        }
    }

    /// Returns the classes in the form in which they are shown.
    pub fn shown(&self) -> TcMqprioQopt {
        TcMqprioQopt {
            num_tc: self.count,
            prio_tc_map: self.of_priority,
            hw: 0,
            count: self.queues.map(|(_, count)| count),
            offset: self.queues.map(|(first, _)| first),
        }
    }

    /// Returns the class of a packet (`netdev_get_prio_tc_map`).
    #[inline]
    pub fn of_packet(&self, packet: &Packet) -> u8 {
        self.of_priority[packet.priority as usize & 15]
    }

    /// Returns the class that a queue belongs to (`netdev_txq_to_tc`), if any.
    pub fn of_queue(&self, queue: u32) -> Option<u8> {
        if self.count == 0 {
            return Some(0);
        }
        let has = |&(first, count): &(u16, u16)| {
            let first = u32::from(first);
            (first..first + u32::from(count)).contains(&queue)
        };
        let class = self.queues.iter().position(has)?;
        Some(class as u8)
    }
}

/// Replaces a queue that the device does not have by queue 0 (`netdev_cap_txqueue`).
#[inline]
pub fn cap(queue: u16, count: u32) -> u16 {
    if u32::from(queue) < count { queue } else { 0 }
}

/// Picks the queue of a packet among `count` queues.
#[inline]
pub fn pick(packet: &mut Packet, count: u32, classes: Option<&TrafficClasses>) -> u16 {
    let all = (0, count as u16);
    let own = classes.filter(|classes| classes.count > 0).map(|classes| {
        let class = usize::from(classes.of_packet(packet));
        classes.queues.get(class).copied().unwrap_or(all)
    });
    let (first, count) = own.filter(|(_, count)| *count > 0).unwrap_or(all);
    let queue = match packet.queue.checked_sub(1) {
        Some(recorded) => recorded.checked_sub(first).unwrap_or(recorded) % count,
        None => scale(packet_hash(packet), count.into()) as u16,
    };
    cap(queue.wrapping_add(first), all.1.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Stack, ipv4};

    fn packet(stack: &Stack, port: u16) -> Packet {
        stack.packet(&ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], port, 9))
    }

    #[test]
    fn a_flow_keeps_its_queue_and_flows_spread_over_all() {
        let stack = Stack::default();
        let mut seen = [0; 4];
        for port in 0..400 {
            let queue = pick(&mut packet(&stack, port), 4, None);
            assert_eq!(queue, pick(&mut packet(&stack, port), 4, None));
            seen[usize::from(queue)] += 1;
        }
        // Binomial with mean 100 and standard deviation 8.7.
        assert!(seen.iter().all(|n| (60..140).contains(n)), "{seen:?}");
    }

    #[test]
    fn a_recorded_queue_counts_from_one() {
        let stack = Stack::default();
        let recorded = |queue, classes: Option<TrafficClasses>| {
            let mut packet = packet(&stack, 1);
            (packet.queue, packet.priority) = (queue, 3);
            pick(&mut packet, 8, classes.as_ref())
        };
        assert_eq!(
            [1, 2, 8, 9].map(|queue| recorded(queue, None)),
            [0, 1, 7, 0]
        );
        // Class 1 has queues 2 to 4.
        let mut classes = TrafficClasses {
            count: 2,
            of_priority: [0; 16],
            queues: [(0, 0); CLASSES],
        };
        classes.of_priority[3] = 1;
        (classes.queues[0], classes.queues[1]) = ((0, 2), (2, 3));
        let found = [1, 2, 3, 4, 5, 6].map(|queue| recorded(queue, Some(classes)));
        assert_eq!(found, [2, 3, 2, 3, 4, 2]);
        // A class without queues uses all queues.
        classes.queues[1] = (2, 0);
        assert_eq!(recorded(8, Some(classes)), 7);
    }

    #[test]
    fn flows_of_a_class_stay_within_its_queues() {
        let stack = Stack::default();
        let mut classes = TrafficClasses {
            count: 3,
            of_priority: [0; 16],
            queues: [(0, 0); CLASSES],
        };
        (classes.of_priority[5], classes.of_priority[6]) = (1, 2);
        classes.queues[..3].copy_from_slice(&[(0, 1), (1, 3), (4, 4)]);
        for port in 0..200 {
            let of = |priority| {
                let mut packet = packet(&stack, port);
                packet.priority = priority;
                pick(&mut packet, 8, Some(&classes))
            };
            assert_eq!(of(0), 0);
            assert_eq!(of(16), 0, "the lowest four bits count");
            assert!((1..4).contains(&of(5)));
            assert!((4..8).contains(&of(6)));
        }
    }
}
