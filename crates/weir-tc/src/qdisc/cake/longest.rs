// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which flow of all tins holds most.
//!
//! Mirrors `overflow_heap` of net/sched/sch_cake.c: a heap made when packets must be dropped, and kept up to
//! date for the 65535 packets after that.

use super::TINS;
use super::tin::{FLOWS, Tin};

/// Flows ordered by what waits in them (`overflow_heap`), each as flow * 8 + tin.
#[derive(Debug, Default)]
pub struct Longest {
    heap: Vec<u16>,
    places: Vec<u16>,
    /// It is kept for so many more packets.
    pub kept: u16,
}

impl Longest {
    fn backlog(&self, tins: &[Tin; TINS], at: usize) -> u32 {
        let entry = usize::from(self.heap[at]);
        let backlogs = &tins[entry % TINS].backlogs;
        backlogs.get(entry / TINS).copied().unwrap_or(0)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for at in [a, b] {
            self.places[usize::from(self.heap[at])] = at as u16;
        }
    }

    /// What waits in the flow at a place has become less, or it is to be ordered (`cake_heapify`).
    pub fn sink(&mut self, tins: &[Tin; TINS], at: usize) {
        let mut at = at;
        let own = self.backlog(tins, at);
        loop {
            let (mut most, mut place) = (own, at);
            for below in [2 * at + 1, 2 * at + 2] {
                if below < self.heap.len() && self.backlog(tins, below) > most {
                    (most, place) = (self.backlog(tins, below), below);
                }
            }
            if place == at {
                return;
            }
            self.swap(at, place);
            at = place;
        }
    }

    /// It has become more (`cake_heapify_up`).
    pub fn rise(&mut self, tins: &[Tin; TINS], at: usize) {
        let mut at = at;
        while at > 0 {
            let above = (at - 1) / 2;
            if self.backlog(tins, at) <= self.backlog(tins, above) {
                return;
            }
            self.swap(at, above);
            at = above;
        }
    }

    /// The tin and flow in which most waits; the order is made anew if it was not kept.
    pub fn first(&mut self, tins: &[Tin; TINS]) -> (usize, usize) {
        if self.heap.is_empty() {
            self.heap = (0..(TINS * FLOWS) as u16).collect();
            self.places = self.heap.clone();
        }
        if self.kept == 0 {
            for at in (0..=self.heap.len() / 2).rev() {
                self.sink(tins, at);
            }
        }
        self.kept = u16::MAX;
        let entry = usize::from(self.heap[0]);
        (entry % TINS, entry / TINS)
    }

    /// A flow's place in the heap.
    pub fn place(&self, tin: usize, flow: usize) -> usize {
        usize::from(self.places[flow * TINS + tin])
    }
}
