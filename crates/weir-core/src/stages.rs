// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of each datapath stage in batches, packets and CPU cycles. It is always counted.
//!
//! The cycle counter is read once at the boundary between two stages. A part inside a stage
//! ([`Stages::inner`], [`Stages::carve`]) costs two reads. A read takes about as long as a packet spends in some
//! stages, so a busy CPU does not time every turn: of the turns after the first [`ALL_TIMED`] in about a second, one
//! in [`EVERY`] is timed, drawn at random, and its cycles count that many times. Batches, packets and turns are
//! counted in every turn. Besides the stages, each CPU counts the
//! time of its turns that moved packets. The stages add up to that time except for what lies
//! between them. On request, timed turns also read hardware counters at these boundaries ([`Cells::measure`]). Cycles
//! never appear in a report of virtual time, which must be the same on every
//! machine.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

pub use weir_sync::cycles::cycles;

macro_rules! stages {
    ($($(#[$doc:meta])* $stage:ident = $name:literal, $group:literal;)*) => {
        /// A stage of the datapath.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Stage { $($(#[$doc])* $stage,)* }

        impl Stage {
            /// All stages, in the order of a packet's path.
            pub const ALL: &'static [Stage] = &[$(Stage::$stage,)*];

            /// Returns the stage's name in reports.
            pub fn name(self) -> &'static str {
                match self { $(Stage::$stage => $name,)* }
            }

            /// Returns the group in which the stage is summed up.
            pub fn group(self) -> &'static str {
                match self { $(Stage::$stage => $group,)* }
            }
        }
    };
}

/// The groups of stages, in the order of reports.
pub const GROUPS: &[&str] = &[
    "port", "buffers", "dissect", "classify", "route", "qdisc", "transmit", "rcu",
];

stages! {
    /// From a live port into packets.
    Port = "port", "port";
    /// From the backlog of a CPU to the device.
    Backlog = "backlog", "port";
    /// Frame checks, VLAN tags, packet type.
    Receive = "receive", "dissect";
    /// Steering to other CPUs.
    Steer = "steer", "dissect";
    /// The headers of packets into the keys of filters.
    Dissect = "dissect", "dissect";
    /// Filters and actions on ingress.
    Ingress = "ingress", "classify";
    /// IPv4 checks and route lookup.
    Ipv4In = "ipv4-in", "route";
    /// IPv6 checks and route lookup.
    Ipv6In = "ipv6-in", "route";
    /// TTL, MTU, fragmentation.
    Forward = "forward", "route";
    /// Delivery to the local host, including ARP.
    Local = "local", "route";
    /// Next hop to link-layer header.
    Neighbour = "neighbour", "route";
    /// Filters and actions on egress.
    Egress = "egress", "classify";
    /// Enqueue and dequeue.
    Qdisc = "qdisc", "qdisc";
    /// The device's transmit.
    Transmit = "transmit", "transmit";
    /// Freed packets back into the memory of the CPU.
    Buffers = "buffers", "buffers";
    /// The begin and the end of a read section, with the callbacks that run there.
    Rcu = "rcu", "rcu";
}

/// Counters of one stage.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct StageCount {
    /// The number of batches processed.
    pub batches: u64,
    /// The number of packets processed.
    pub packets: u64,
    /// The number of CPU cycles spent.
    pub cycles: u64,
}

/// Counters of the turns that moved packets.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TurnCount {
    /// The number of turns.
    pub turns: u64,
    /// The number of CPU cycles spent.
    pub cycles: u64,
}

/// The number of events that [`Events`] counts.
pub const EVENTS: usize = 3;

/// Counters of the thread that opened them: cycles, instructions, misses of the last-level cache.
pub trait Events: Send + Debug {
    /// Returns the counts so far.
    fn read(&mut self) -> [u64; EVENTS];
}

/// Opens the counters of the calling thread.
pub type OpenEvents = fn() -> io::Result<Box<dyn Events>>;

/// The events in one stage.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct EventCount {
    /// The number of packets for which they were counted.
    pub packets: u64,
    /// The number of each.
    pub events: [u64; EVENTS],
}

/// The published counters of one CPU. One thread at a time writes them; any thread reads them.
#[derive(Debug, Default)]
pub struct Cells {
    stages: [[AtomicU64; 3]; Stage::ALL.len()],
    turns: [AtomicU64; 2],
    /// The packets and the events of each stage.
    events: [[AtomicU64; 1 + EVENTS]; Stage::ALL.len()],
    /// Whether events are to be counted, and what opens the counters.
    wanted: AtomicBool,
    open: OnceLock<OpenEvents>,
}

/// Adds to a counter that no other thread writes.
#[inline]
fn add(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(by), Relaxed);
}

impl Cells {
    #[inline]
    fn count(&self, stage: Stage, packets: usize, cycles: u64) {
        let [batches, counted, spent] = &self.stages[stage as usize];
        add(batches, 1);
        add(counted, packets as u64);
        add(spent, cycles);
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> impl Iterator<Item = (Stage, StageCount)> + '_ {
        let counts = self
            .stages
            .iter()
            .map(|[batches, packets, cycles]| StageCount {
                batches: batches.load(Relaxed),
                packets: packets.load(Relaxed),
                cycles: cycles.load(Relaxed),
            });
        Stage::ALL.iter().copied().zip(counts)
    }

    /// Has the CPU count events from its next turn on, with counters that it opens by `open`, or no more. If it
    /// cannot open them, it counts none.
    pub fn measure(&self, open: Option<OpenEvents>) {
        let wanted = open.is_some();
        if let Some(open) = open {
            let _ = self.open.set(open);
        }
        self.wanted.store(wanted, Relaxed);
    }

    /// Returns whether events are to be counted.
    pub fn is_measured(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// Returns the events so far. Those of `dissect` count with the filters, and those of `rcu` are not counted.
    pub fn events(&self) -> impl Iterator<Item = (Stage, EventCount)> + '_ {
        let counts = self.events.iter().map(|[packets, events @ ..]| EventCount {
            packets: packets.load(Relaxed),
            events: events.each_ref().map(|count| count.load(Relaxed)),
        });
        Stage::ALL.iter().copied().zip(counts)
    }

    /// Returns the counters of the turns that moved packets.
    pub fn turns(&self) -> TurnCount {
        let [turns, cycles] = &self.turns;
        TurnCount {
            turns: turns.load(Relaxed),
            cycles: cycles.load(Relaxed),
        }
    }
}

/// The number of turns in a period that are all timed.
pub const ALL_TIMED: u32 = 1024;
/// The length of a period in cycles, about a second.
const PERIOD: u64 = 1 << 31;
/// One of so many later turns is timed.
pub const EVERY: u32 = 16;

/// The stage clock of one CPU.
#[derive(Debug)]
pub struct Stages {
    cells: Arc<Cells>,
    /// The end of the last stage, later by what was counted as an inner part since.
    since: Cell<u64>,
    /// The start of the turn.
    turn: Cell<u64>,
    /// How many times the cycles of the turn count; 0 if it is not timed.
    weight: Cell<u64>,
    /// The turns before the next that may be left untimed.
    early: Cell<u32>,
    /// The time, by the cycle counter, since when turns are left untimed once enough have been timed.
    renewed: Cell<u64>,
    /// The state of the draw.
    draw: Cell<u32>,
    /// The cycles it took to enter the read section of the turn.
    entered: Cell<u64>,
    /// Whether a stage has ended in this turn.
    worked: Cell<bool>,
    on: Cell<bool>,
    /// Whether events are counted, by which counters, and their state at the end of the last stage.
    counting: Cell<bool>,
    events: RefCell<Option<Box<dyn Events>>>,
    marked: Cell<[u64; EVENTS]>,
}

impl Stages {
    /// Creates the clock that counts in these cells.
    pub fn new(cells: Arc<Cells>) -> Self {
        Self {
            cells,
            since: Cell::default(),
            turn: Cell::default(),
            weight: Cell::new(1),
            early: Cell::new(ALL_TIMED),
            renewed: Cell::default(),
            draw: Cell::new(1),
            entered: Cell::default(),
            worked: Cell::default(),
            on: Cell::new(true),
            counting: Cell::default(),
            events: RefCell::default(),
            marked: Cell::default(),
        }
    }

    /// Switches the accounting of this CPU, so that its own cost can be measured.
    pub fn switch(&self, on: bool) {
        self.on.set(on);
    }

    /// Returns whether the accounting is on.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Returns whether the turn is timed.
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.weight.get() > 0 && self.is_on()
    }

    /// Returns how many times the cycles of the turn that begins count.
    #[inline]
    fn draw_weight(&self) -> u64 {
        if let Some(left) = self.early.get().checked_sub(1) {
            self.early.set(left);
            return 1;
        }
        // Marsaglia's xorshift.
        let mut draw = self.draw.get();
        draw ^= draw << 13;
        draw ^= draw >> 17;
        draw ^= draw << 5;
        self.draw.set(draw);
        match draw % EVERY {
            0 => u64::from(EVERY),
            _ => 0,
        }
    }

    /// Starts a turn, before its read section.
    #[inline]
    pub fn begin_turn(&self) {
        if self.is_on() {
            if self.cells.wanted.load(Relaxed) != self.counting.get() {
                self.switch_events();
            }
            self.weight.set(self.draw_weight());
            self.worked.set(false);
            if self.is_timed() {
                let now = cycles();
                self.turn.set(now);
                if now.wrapping_sub(self.renewed.get()) > PERIOD {
                    self.renewed.set(now);
                    self.early.set(ALL_TIMED);
                }
            }
        }
    }

    /// Notes that the read section of the turn has begun. Starts timing the next stage.
    #[inline]
    pub fn entered(&self) {
        if self.is_timed() {
            let now = cycles();
            self.entered.set(now.wrapping_sub(self.turn.get()));
            self.since.set(now);
            self.mark();
        }
    }

    /// Notes that the work of a turn is done, before its read section ends.
    #[inline]
    pub fn leave(&self) {
        if self.is_timed() && self.worked.get() {
            self.since.set(cycles());
        }
    }

    /// Ends a turn, after its read section.
    #[inline]
    pub fn end_turn(&self) {
        if self.is_on() && self.worked.get() {
            let (mut rcu, mut spent) = (0, 0);
            if self.is_timed() {
                let now = cycles();
                let left = now.wrapping_sub(self.since.get());
                rcu = self.entered.get().wrapping_add(left);
                spent = now.wrapping_sub(self.turn.get());
            }
            self.count(Stage::Rcu, 0, rcu);
            let [turns, all] = &self.cells.turns;
            add(turns, 1);
            add(all, spent.wrapping_mul(self.weight.get()));
        }
    }

    /// Starts timing the next stage without counting the time before.
    #[inline]
    pub fn start(&self) {
        if self.is_timed() {
            self.mark();
            self.since.set(cycles());
        }
    }

    /// Ends a stage. Its cost is the time since the last call.
    #[inline]
    pub fn end(&self, stage: Stage, packets: usize) {
        if self.is_on() {
            let mut spent = 0;
            if self.is_timed() {
                let now = cycles();
                spent = now.wrapping_sub(self.since.get());
                self.since.set(now);
                if self.counting.get() {
                    let now = self.read_events();
                    self.count_events(stage, packets, self.marked.get(), now);
                    self.marked.set(now);
                    self.since.set(cycles());
                }
            }
            self.count(stage, packets, spent);
            self.worked.set(true);
        }
    }

    /// Runs a part of a stage that counts as a stage of its own.
    #[inline]
    pub fn inner<R>(&self, stage: Stage, packets: usize, part: impl FnOnce() -> R) -> R {
        if !self.is_on() {
            return part();
        }
        if !self.is_timed() {
            self.count(stage, packets, 0);
            return part();
        }
        if self.counting.get() {
            return self.inner_counted(stage, packets, part);
        }
        let start = cycles();
        let result = part();
        self.carve(stage, packets, cycles().wrapping_sub(start));
        result
    }

    /// Does the same while events are counted. Reading them is part of the stage that ends next.
    fn inner_counted<R>(&self, stage: Stage, packets: usize, part: impl FnOnce() -> R) -> R {
        let before = self.read_events();
        let start = cycles();
        let result = part();
        self.carve(stage, packets, cycles().wrapping_sub(start));
        let after = self.read_events();
        self.count_events(stage, packets, before, after);
        let mut marked = self.marked.get();
        for (mark, (before, after)) in marked.iter_mut().zip(before.iter().zip(after)) {
            *mark = mark.wrapping_add(after.wrapping_sub(*before));
        }
        self.marked.set(marked);
        result
    }

    /// Begins or ends the counting of events.
    #[cold]
    fn switch_events(&self) {
        let wanted = self.cells.wanted.load(Relaxed);
        let open = self.cells.open.get().filter(|_| wanted);
        *self.events.borrow_mut() = open.and_then(|open| open().ok());
        self.counting.set(wanted);
        self.mark();
    }

    fn read_events(&self) -> [u64; EVENTS] {
        let mut events = self.events.borrow_mut();
        events.as_mut().map_or([0; EVENTS], |events| events.read())
    }

    /// Counts events for the next stage from here on.
    #[inline]
    fn mark(&self) {
        if self.counting.get() {
            self.marked.set(self.read_events());
        }
    }

    fn count_events(&self, stage: Stage, packets: usize, from: [u64; EVENTS], to: [u64; EVENTS]) {
        let weight = self.weight.get();
        let [counted, events @ ..] = &self.cells.events[stage as usize];
        add(counted, (packets as u64).wrapping_mul(weight));
        for (cell, (from, to)) in events.iter().zip(from.into_iter().zip(to)) {
            add(cell, to.saturating_sub(from).wrapping_mul(weight));
        }
    }

    #[inline]
    fn count(&self, stage: Stage, packets: usize, cycles: u64) {
        let cycles = cycles.wrapping_mul(self.weight.get());
        self.cells.count(stage, packets, cycles);
    }

    /// Counts `cycles` that were spent since the last boundary as another stage than the one that
    /// ends next.
    #[inline]
    pub fn carve(&self, stage: Stage, packets: usize, cycles: u64) {
        self.count(stage, packets, cycles);
        self.since.set(self.since.get().wrapping_add(cycles));
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> impl Iterator<Item = (Stage, StageCount)> + '_ {
        self.cells.counts()
    }

    /// Returns the counters of the turns that moved packets.
    pub fn turns(&self) -> TurnCount {
        self.cells.turns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters that have counted 1, 10 and 100 events more at each reading.
    #[derive(Debug, Default)]
    struct Steps(u64);

    impl Events for Steps {
        fn read(&mut self) -> [u64; EVENTS] {
            self.0 += 1;
            [self.0, 10 * self.0, 100 * self.0]
        }
    }

    #[test]
    fn events_are_those_of_their_stage() {
        let cells = Arc::new(Cells::default());
        let stages = Stages::new(cells.clone());
        let turn = || {
            stages.begin_turn();
            stages.entered();
            stages.end(Stage::Receive, 4);
            stages.inner(Stage::Buffers, 2, || ());
            stages.end(Stage::Transmit, 3);
            stages.leave();
            stages.end_turn();
        };
        let count = |stage| {
            let mut events = cells.events();
            let (_, count) = events.find(|(found, _)| *found == stage).unwrap();
            (count.packets, count.events)
        };
        turn();
        assert_eq!(count(Stage::Receive), (0, [0; 3]));
        cells.measure(Some(|| Ok(Box::new(Steps::default()))));
        assert!(cells.is_measured());
        turn();
        assert_eq!(count(Stage::Receive), (4, [1, 10, 100]));
        assert_eq!(count(Stage::Buffers), (2, [1, 10, 100]));
        // The readings around the inner part are its own.
        assert_eq!(count(Stage::Transmit), (3, [2, 20, 200]));
        cells.measure(None);
        turn();
        assert_eq!(count(Stage::Receive), (4, [1, 10, 100]));
        // Counters that do not open count nothing.
        let cells = Arc::new(Cells::default());
        let stages = Stages::new(cells.clone());
        cells.measure(Some(|| Err(io::ErrorKind::NotFound.into())));
        stages.begin_turn();
        stages.entered();
        stages.end(Stage::Receive, 4);
        stages.end_turn();
        assert!(cells.events().all(|(_, count)| count.events == [0; 3]));
    }

    #[test]
    fn a_busy_cpu_times_some_turns_and_counts_all() {
        let stages = Stages::new(Arc::new(Cells::default()));
        let (mut timed, mut weights) = (0_u32, 0);
        let turns = 20 * ALL_TIMED;
        for _ in 0..turns {
            stages.begin_turn();
            timed += u32::from(stages.is_timed());
            weights += stages.weight.get();
            stages.entered();
            stages.end(Stage::Receive, 64);
            stages.inner(Stage::Buffers, 32, || ());
            stages.leave();
            stages.end_turn();
        }
        assert!(timed >= ALL_TIMED && timed < turns / 4, "{timed}");
        // The weights stand for all turns, give or take five standard deviations.
        let off = (weights as f64 - f64::from(turns)).abs();
        let deviation = (f64::from(turns * EVERY)).sqrt();
        assert!(off < 5.0 * deviation, "{weights} of {turns}");
        assert_eq!(stages.turns().turns, u64::from(turns));
        for (stage, count) in stages.counts() {
            let packets = match stage {
                Stage::Receive => 64,
                Stage::Buffers => 32,
                _ => 0,
            };
            assert_eq!(count.packets, packets * u64::from(turns), "{stage:?}");
        }
    }
}
