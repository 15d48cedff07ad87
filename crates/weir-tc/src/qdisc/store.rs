// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A shared store for the packets of many queues. A queue is three numbers. The store allocates
//! nothing per packet once it has grown to the largest number of waiting packets.

use weir_packet::Packet;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot {
    packet: Option<Packet>,
    time: u64,
    next: u32,
}

/// The packets; see the module documentation.
#[derive(Debug)]
pub struct Store {
    slots: Vec<Slot>,
    free: u32,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
        }
    }
}

/// A queue of packets in a [`Store`], each with a time. It must be emptied before it is dropped.
#[derive(Debug, Clone, Copy)]
pub struct Chain {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            len: 0,
        }
    }
}

impl Chain {
    /// Returns the number of packets.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Appends a packet.
    #[inline]
    pub fn push(&mut self, store: &mut Store, packet: Packet, time: u64) {
        let slot = Slot {
            packet: Some(packet),
            time,
            next: NONE,
        };
        let at = match store.slots.get_mut(store.free as usize) {
            Some(free) => {
                let at = store.free;
                store.free = free.next;
                *free = slot;
                at
            }
            None => {
                store.slots.push(slot);
                (store.slots.len() - 1) as u32
            }
        };
        match store.slots.get_mut(self.tail as usize) {
            Some(tail) => tail.next = at,
            None => self.head = at,
        }
        self.tail = at;
        self.len += 1;
    }

    /// Removes the first packet and returns it with its time.
    #[inline]
    pub fn pop(&mut self, store: &mut Store) -> Option<(Packet, u64)> {
        let at = self.head;
        let slot = store.slots.get_mut(at as usize)?;
        let (packet, time) = (slot.packet.take()?, slot.time);
        self.head = std::mem::replace(&mut slot.next, store.free);
        store.free = at;
        self.len -= 1;
        if self.head == NONE {
            self.tail = NONE;
        }
        Some((packet, time))
    }

    /// Returns the first packet with its time.
    #[inline]
    pub fn peek<'a>(&self, store: &'a Store) -> Option<(&'a Packet, u64)> {
        let slot = store.slots.get(self.head as usize)?;
        Some((slot.packet.as_ref()?, slot.time))
    }

    /// Returns the first packet mutably.
    pub fn peek_mut<'a>(&self, store: &'a mut Store) -> Option<&'a mut Packet> {
        store.slots.get_mut(self.head as usize)?.packet.as_mut()
    }

    /// Removes the last packet and returns it with its time. Walks the queue.
    pub fn pop_last(&mut self, store: &mut Store) -> Option<(Packet, u64)> {
        let (first, last) = (self.head, self.tail);
        if first == last {
            return self.pop(store);
        }
        let mut at = first;
        while let Some(slot) = store.slots.get(at as usize)
            && slot.next != last
        {
            at = slot.next;
        }
        store.slots.get_mut(at as usize)?.next = NONE;
        self.tail = at;
        self.len -= 1;
        let slot = store.slots.get_mut(last as usize)?;
        slot.next = store.free;
        store.free = last;
        Some((slot.packet.take()?, slot.time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{Pool, PoolConfig};

    #[test]
    fn queues_share_a_store() {
        let pool = Pool::new(PoolConfig::default());
        let (mut store, mut a, mut b) = (Store::default(), Chain::default(), Chain::default());
        for time in 0..6 {
            let to = if time % 2 == 0 { &mut a } else { &mut b };
            to.push(&mut store, pool.alloc(0).unwrap(), time);
        }
        assert_eq!((a.len(), a.peek(&store).unwrap().1), (3, 0));
        let mut times = |chain: &mut Chain| {
            std::iter::from_fn(|| chain.pop(&mut store).map(|(_, time)| time)).collect::<Vec<_>>()
        };
        assert_eq!(times(&mut a), [0, 2, 4]);
        a.push(&mut store, pool.alloc(0).unwrap(), 7);
        assert_eq!(b.pop_last(&mut store).unwrap().1, 5);
        assert_eq!(b.pop(&mut store).unwrap().1, 1);
        assert_eq!(b.pop_last(&mut store).unwrap().1, 3);
        assert!(b.is_empty() && b.pop_last(&mut store).is_none());
        b.push(&mut store, pool.alloc(0).unwrap(), 8);
        assert_eq!(a.pop(&mut store).unwrap().1, 7);
        assert_eq!(b.pop(&mut store).unwrap().1, 8);
        assert_eq!(store.slots.len(), 6);
    }
}
