// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Search for the flow with the largest backlog among all tins.
//!
//! Mirrors `overflow_heap` of net/sched/sch_cake.c. The heap is built when packets must be dropped,
//! and kept up to date for the next 65535 packets.

use super::TINS;
use super::tin::{FLOWS, Tin};

/// A max-heap of flows by backlog (`overflow_heap`). An entry is flow * 8 + tin.
#[derive(Debug, Default)]
pub struct Longest {
    heap: Vec<u16>,
    places: Vec<u16>,
    /// Number of further packets for which the heap is kept up to date.
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

    /// Restores the heap below `at` after the backlog of that flow decreased (`cake_heapify`). Also
    /// builds the heap.
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

    /// Restores the heap above `at` after the backlog of that flow increased (`cake_heapify_up`).
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

    /// Returns the tin and the flow with the largest backlog. Rebuilds the heap if it was not kept
    /// up to date.
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

    /// Returns the index of a flow in the heap.
    pub fn place(&self, tin: usize, flow: usize) -> usize {
        usize::from(self.places[flow * TINS + tin])
    }
}
