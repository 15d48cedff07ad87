// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows, their numbers and timers.

use std::collections::{BTreeSet, HashMap};

use crate::context::Key;
use crate::datagram::Datagram;
use crate::tcp::Tcp;
use crate::wire::TCP;

#[derive(Debug)]
pub(crate) enum Flow {
    Tcp(Box<Tcp>),
    Datagram(Box<Datagram>),
}

impl Flow {
    pub(crate) fn key(&self) -> Key {
        match self {
            Self::Tcp(tcp) => tcp.key,
            Self::Datagram(flow) => flow.key,
        }
    }

    fn deadline(&self) -> Option<u64> {
        match self {
            Self::Tcp(tcp) => tcp.deadline(),
            Self::Datagram(flow) => Some(flow.expires),
        }
    }
}

/// No timer.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
struct Slot {
    /// Changes with each flow, so that events of an earlier one are told apart.
    generation: u32,
    flow: Option<Flow>,
    key: Option<Key>,
    /// When its timer fires: not later than the flow's deadline.
    armed: u64,
    dirty: bool,
}

/// All flows.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_key: HashMap<Key, u32>,
    /// Timers of connections, and of other flows: the first of those is the one to give way.
    timers: [BTreeSet<(u64, u32)>; 2],
    /// Flows with something to do.
    dirty: Vec<u32>,
    counts: [usize; 2],
}

fn class(key: &Key) -> usize {
    usize::from(key.protocol != TCP)
}

impl Flows {
    /// The number of connections, and of other flows.
    pub(crate) fn counts(&self) -> [usize; 2] {
        self.counts
    }

    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// The token of a flow's descriptor.
    pub(crate) fn token(&self, id: u32) -> u64 {
        let generation = self
            .slots
            .get(id as usize)
            .map_or(0, |slot| slot.generation);
        u64::from(generation) << 32 | u64::from(id)
    }

    /// The flow of a token.
    pub(crate) fn of_token(&self, token: u64) -> Option<u32> {
        let id = token as u32;
        let slot = self.slots.get(id as usize)?;
        (slot.generation == (token >> 32) as u32 && slot.key.is_some()).then_some(id)
    }

    /// The number that the next flow gets.
    pub(crate) fn reserve(&mut self) -> u32 {
        if let Some(id) = self.free.last() {
            return *id;
        }
        let id = self.slots.len() as u32;
        self.slots.push(Slot {
            generation: 0,
            flow: None,
            key: None,
            armed: NEVER,
            dirty: false,
        });
        self.free.push(id);
        id
    }

    pub(crate) fn insert(&mut self, flow: Flow) -> u32 {
        let id = self.reserve();
        self.free.pop();
        let key = flow.key();
        self.by_key.insert(key, id);
        self.counts[class(&key)] += 1;
        if let Some(slot) = self.slots.get_mut(id as usize) {
            slot.key = Some(key);
        }
        self.put(id, flow);
        id
    }

    /// Takes a flow to work with it; [`put`](Self::put) or [`remove`](Self::remove) follows.
    pub(crate) fn take(&mut self, id: u32) -> Option<Flow> {
        self.slots.get_mut(id as usize)?.flow.take()
    }

    /// Puts a flow back and sets its timer.
    pub(crate) fn put(&mut self, id: u32, flow: Flow) {
        let Some(slot) = self.slots.get_mut(id as usize) else {
            return;
        };
        let deadline = flow.deadline().unwrap_or(NEVER);
        if deadline < slot.armed {
            let timers = &mut self.timers[class(&flow.key())];
            timers.remove(&(slot.armed, id));
            timers.insert((deadline, id));
            slot.armed = deadline;
        }
        slot.flow = Some(flow);
    }

    /// Forgets a flow.
    pub(crate) fn remove(&mut self, id: u32) {
        let Some(slot) = self.slots.get_mut(id as usize) else {
            return;
        };
        slot.flow = None;
        let Some(key) = slot.key.take() else {
            return;
        };
        self.timers[class(&key)].remove(&(slot.armed, id));
        slot.armed = NEVER;
        slot.generation = slot.generation.wrapping_add(1);
        self.by_key.remove(&key);
        self.counts[class(&key)] -= 1;
        self.free.push(id);
    }

    /// Notes that a flow has something to do.
    pub(crate) fn touch(&mut self, id: u32) {
        if let Some(slot) = self.slots.get_mut(id as usize)
            && !std::mem::replace(&mut slot.dirty, true)
        {
            self.dirty.push(id);
        }
    }

    /// The flows with something to do, which then have none.
    pub(crate) fn take_dirty(&mut self) -> Vec<u32> {
        let dirty = std::mem::take(&mut self.dirty);
        for id in &dirty {
            if let Some(slot) = self.slots.get_mut(*id as usize) {
                slot.dirty = false;
            }
        }
        dirty
    }

    pub(crate) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// When the first timer fires.
    pub(crate) fn next(&self) -> Option<u64> {
        self.timers
            .iter()
            .filter_map(|timers| timers.first())
            .map(|(at, _)| *at)
            .min()
    }

    /// Takes a flow whose timer has fired. It is armed again by [`put`](Self::put).
    pub(crate) fn expired(&mut self, now: u64) -> Option<u32> {
        for timers in &mut self.timers {
            if let Some(&(at, id)) = timers.first()
                && at <= now
            {
                timers.pop_first();
                if let Some(slot) = self.slots.get_mut(id as usize) {
                    slot.armed = NEVER;
                }
                return Some(id);
            }
        }
        None
    }

    /// The flow without a connection that is the first to end.
    pub(crate) fn oldest_datagram(&self) -> Option<u32> {
        self.timers[1].first().map(|(_, id)| *id)
    }
}
