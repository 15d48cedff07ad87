// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transmit packet steering: the transmit queues that each CPU uses.
//!
//! Mirrors the per-CPU `struct xps_dev_maps`, `__netif_set_xps_queue` and `__get_xps_queue_idx`
//! (net/core/dev.c). Maps by receive queue are not implemented; only packets of sockets could
//! follow them.

use std::collections::BTreeSet;

use weir_netlink::Error;
use weir_netlink::errno::{EINVAL, EOVERFLOW};
use weir_packet::Packet;

use super::{CLASSES, TrafficClasses};
use crate::qdisc::{packet_hash, scale};

/// The transmit queues of each CPU and traffic class.
#[derive(Debug, Clone, Default)]
pub struct Maps(Vec<[Vec<u16>; CLASSES]>);

/// Returns the class whose packets a queue takes, or `None` if it belongs to no class.
pub(crate) fn class_of(queue: u16, classes: Option<&TrafficClasses>) -> Option<u8> {
    classes.map_or(Some(0), |classes| classes.of_queue(queue.into()))
}

impl Maps {
    /// Returns the CPUs that use a queue.
    ///
    /// # Errors
    /// EINVAL for a queue of no traffic class.
    pub fn cpus(
        &self,
        queue: u16,
        classes: Option<&TrafficClasses>,
    ) -> Result<BTreeSet<usize>, Error> {
        let class = class_of(queue, classes).ok_or(Error::new(EINVAL))?;
        let has = |of: &[Vec<u16>; CLASSES]| of[usize::from(class)].contains(&queue);
        let cpus = self.0.iter().enumerate().filter(|(_, of)| has(of));
        Ok(cpus.map(|(cpu, _)| cpu).collect())
    }

    /// Lets exactly these CPUs use a queue.
    ///
    /// # Errors
    /// EINVAL for a queue of no traffic class.
    pub fn set(
        &mut self,
        queue: u16,
        cpus: &BTreeSet<usize>,
        classes: Option<&TrafficClasses>,
    ) -> Result<(), Error> {
        let class = class_of(queue, classes).ok_or(Error::new(EINVAL))?;
        let end = cpus.last().map_or(0, |last| last + 1);
        self.0.resize_with(self.0.len().max(end), Default::default);
        for (cpu, of) in self.0.iter_mut().enumerate() {
            let queues = &mut of[usize::from(class)];
            match (
                queues.iter().position(|&other| other == queue),
                cpus.contains(&cpu),
            ) {
                (None, true) => queues.push(queue),
                // The last entry takes its place.
                (Some(at), false) => drop(queues.swap_remove(at)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns whether no CPU has a queue.
    pub fn is_empty(&self) -> bool {
        self.0.iter().flatten().all(Vec::is_empty)
    }

    /// Picks one of `count` queues for a packet that a CPU sends. Returns `None` if the CPU's map
    /// names none.
    #[inline]
    pub fn pick(
        &self,
        cpu: usize,
        packet: &mut Packet,
        count: u32,
        classes: Option<&TrafficClasses>,
    ) -> Option<u16> {
        let class = classes.map_or(0, |classes| classes.of_packet(packet));
        let queues = self.0.get(cpu)?.get(usize::from(class))?;
        let at = match queues.len() {
            0 => return None,
            1 => 0,
            several => scale(packet_hash(packet), several as u32),
        };
        let queue = queues.get(at as usize).copied()?;
        (u32::from(queue) < count).then_some(queue)
    }
}

/// Formats a set of CPUs, out of `count`, as sysfs shows it (`bitmap_print_to_pagebuf`): 32-bit
/// words in hexadecimal, the highest first.
pub fn shown(cpus: &BTreeSet<usize>, count: usize) -> String {
    let words = count.div_ceil(32).max(1);
    let mut out = String::new();
    for word in (0..words).rev() {
        let bits = (0..32).filter(|bit| cpus.contains(&(word * 32 + bit)));
        let value = bits.fold(0_u32, |value, bit| value | 1 << bit);
        let digits = match (count % 32).div_ceil(4) {
            digits @ 1.. if word + 1 == words => digits,
            _ => 8,
        };
        let comma = if word == 0 { "" } else { "," };
        out += &format!("{value:0digits$x}{comma}");
    }
    out + "\n"
}

/// Parses a set of CPUs in the format of [`shown`] (`bitmap_parse`).
///
/// # Errors
/// EINVAL for malformed text, EOVERFLOW for a CPU beyond `count`.
pub fn parsed(text: &[u8], count: usize) -> Result<BTreeSet<usize>, Error> {
    let end = text.iter().position(|&byte| byte == b'\n' || byte == 0);
    let text = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    let mut cpus = BTreeSet::new();
    let words = text.split(|&byte| byte == b',' || byte.is_ascii_whitespace());
    for (word, digits) in words.filter(|word| !word.is_empty()).rev().enumerate() {
        let digits = std::str::from_utf8(digits).map_err(|_| Error::new(EINVAL))?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Error::new(EINVAL));
        }
        let value = u32::from_str_radix(digits, 16).map_err(|_| Error::new(EOVERFLOW))?;
        let bits = (0..32).filter(|bit| value >> bit & 1 != 0);
        cpus.extend(bits.map(|bit| word * 32 + bit));
    }
    match cpus.last() {
        Some(&last) if last >= count => Err(Error::new(EOVERFLOW)),
        _ => Ok(cpus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Stack, ipv4};

    fn set<const N: usize>(cpus: [usize; N]) -> BTreeSet<usize> {
        cpus.into_iter().collect()
    }

    #[test]
    fn sets_are_read_and_shown_as_sysfs_does() {
        let read = |text: &str, count| parsed(text.as_bytes(), count).map_err(|error| error.errno);
        assert_eq!(read("3\n", 2), Ok(set([0, 1])));
        assert_eq!(read("", 2), Ok(set([])));
        assert_eq!(read("00000001,00000005", 40), Ok(set([0, 2, 32])));
        assert_eq!(read("4", 2), Err(EOVERFLOW));
        assert_eq!(read("123456789", 64), Err(EOVERFLOW));
        assert_eq!(read("g", 2), Err(EINVAL));
        assert_eq!(read("+1", 2), Err(EINVAL));
        assert_eq!(shown(&set([]), 2), "0\n");
        assert_eq!(shown(&set([0, 1]), 6), "03\n");
        assert_eq!(shown(&set([0, 33]), 40), "02,00000001\n");
        assert_eq!(shown(&set([31]), 32), "80000000\n");
    }

    #[test]
    fn a_cpu_sends_by_its_own_queues() {
        let stack = Stack::default();
        let mut maps = Maps::default();
        let pick = |maps: &Maps, cpu, port| {
            let mut packet = stack.packet(&ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], port, 9));
            maps.pick(cpu, &mut packet, 4, None)
        };
        for (queue, cpus) in [(2, set([0])), (1, set([1])), (3, set([1])), (9, set([2]))] {
            maps.set(queue, &cpus, None).unwrap();
        }
        assert_eq!([pick(&maps, 0, 1), pick(&maps, 7, 1)], [Some(2), None]);
        // The device has no queue 9.
        assert_eq!(pick(&maps, 2, 1), None);
        let several: BTreeSet<_> = (0..100).map(|port| pick(&maps, 1, port)).collect();
        assert_eq!(several, [Some(1), Some(3)].into_iter().collect());
        maps.set(1, &set([]), None).unwrap();
        assert_eq!(pick(&maps, 1, 1), Some(3));
        assert_eq!(maps.cpus(3, None).unwrap(), set([1]));
        assert_eq!(maps.cpus(1, None).unwrap(), set([]));
    }

    #[test]
    fn a_class_has_maps_of_its_own() {
        let stack = Stack::default();
        let mut classes = TrafficClasses {
            count: 2,
            of_priority: [0; 16],
            queues: [(0, 0); CLASSES],
        };
        classes.of_priority[5] = 1;
        (classes.queues[0], classes.queues[1]) = ((0, 2), (2, 2));
        let mut maps = Maps::default();
        for queue in [1, 3] {
            maps.set(queue, &set([0]), Some(&classes)).unwrap();
        }
        let beyond = maps.set(4, &set([0]), Some(&classes));
        assert_eq!(beyond.unwrap_err().errno, EINVAL);
        let pick = |priority| {
            let mut packet = stack.packet(&ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], 1, 9));
            packet.priority = priority;
            maps.pick(0, &mut packet, 4, Some(&classes))
        };
        assert_eq!([pick(0), pick(5)], [Some(1), Some(3)]);
    }
}
