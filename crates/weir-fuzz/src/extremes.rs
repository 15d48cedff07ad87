// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests with extreme values, and traffic through the objects they create: every run must
//! terminate.
//!
//! The input is a sequence of choices, one or more bytes each. At each step they do one of four
//! things:
//! - pick a recorded `tc` command of any kind (qdisc, class, filter, action, size table,
//!   estimator), replace some of its numbers with extreme ones, and move it to another parent or
//!   device;
//! - set a sysctl to an extreme value;
//! - send frames of all sizes through `d0` and `d1`;
//! - let time pass.
//!
//! The script ends with the input. Time then goes on without traffic, as in `weir run --until`.
//!
//! Invariants: the clock reaches each requested time within a bounded number of [turns](Bounds), so
//! no timer stalls or crawls; the number of frames in memory stays below a bound; and all frames
//! are back in the pool after the stack is torn down.

use std::sync::OnceLock;

use weir_netlink::{HEADER_LEN, attrs, messages, nlm, rtm, tca};
use weir_packet::Batch;
use weir_stack::connection::{NoPeer, Options};
use weir_stack::{Config, Connection, Cpu, Namespace, Stack, datapath, sysctl};

use crate::router;

/// The recorded commands that scripts start from.
const RECORDED: [&str; 17] = [
    include_str!("../../weir-tc/tests/vectors/kinds.vec"),
    include_str!("../../weir-tc/tests/vectors/qdisc.vec"),
    include_str!("../../weir-tc/tests/vectors/exact.vec"),
    include_str!("../../weir-tc/tests/vectors/stab.vec"),
    include_str!("../../weir-tc/tests/vectors/estimator.vec"),
    include_str!("../../weir-tc/tests/vectors/control.vec"),
    include_str!("../../weir-tc/tests/vectors/storm.vec"),
    include_str!("../../weir-tc/tests/vectors/cbq.vec"),
    include_str!("../../weir-tc/tests/actions/gact.vec"),
    include_str!("../../weir-tc/tests/actions/gate.vec"),
    include_str!("../../weir-tc/tests/actions/mirred.vec"),
    include_str!("../../weir-tc/tests/actions/pedit.vec"),
    include_str!("../../weir-tc/tests/actions/police.vec"),
    include_str!("../../weir-tc/tests/actions/sample.vec"),
    include_str!("../../weir-tc/tests/actions/skbedit.vec"),
    include_str!("../../weir-tc/tests/actions/tunnel_key.vec"),
    include_str!("../../weir-tc/tests/actions/vlan.vec"),
];

/// The limits a script must stay within.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Turns of the loop for one span of time, in addition to [`per_second`](Self::per_second) and
    /// [`per_frame`](Self::per_frame).
    pub turns: u64,
    /// Additional turns for each second of the stack's clock, for housekeeping at its shortest
    /// periods.
    pub per_second: u64,
    /// Additional turns for each frame sent so far.
    pub per_frame: u64,
    /// Frames in memory at once.
    pub frames: usize,
}

/// The limits for every script.
pub const BOUNDS: Bounds = Bounds {
    turns: 20_000,
    per_second: 5_000,
    per_frame: 200,
    frames: 100_000,
};

/// Maximum number of steps of one script.
const STEPS: usize = 48;
/// Maximum number of frames of one script.
const FRAMES: u64 = 2_000;
const ROOT: u32 = 0xffff_ffff;
const SECOND: u64 = 1_000_000_000;
/// The links a script uses: the ends of the [pairs](router::PAIRS) that have the queues.
const LINKS: [u32; 2] = [3, 5];

/// The statistics of one or more scripts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// The number of scripts counted.
    pub scripts: u64,
    /// Requests accepted and requests refused.
    pub requests: (u64, u64),
    /// Frames sent.
    pub frames: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// The highest number of turns of one span of time, as a percentage of its limit.
    pub share: u64,
    /// The highest number of frames in memory at once.
    pub most_frames: usize,
}

impl Figures {
    /// Adds the statistics of another run.
    pub fn add(&mut self, more: &Self) {
        self.scripts += more.scripts;
        self.requests.0 += more.requests.0;
        self.requests.1 += more.requests.1;
        self.frames += more.frames;
        self.turns += more.turns;
        self.share = self.share.max(more.share);
        self.most_frames = self.most_frames.max(more.most_frames);
    }
}

/// Runs the script that the choices describe.
pub fn run(bytes: &[u8]) {
    play(bytes);
}

/// Does the same as [`run`] and returns the statistics.
pub fn play(bytes: &[u8]) -> Figures {
    let mut script = Script::new(bytes);
    for _ in 0..STEPS {
        if script.dice.is_empty() {
            break;
        }
        script.step();
    }
    for span in [SECOND, 20 * SECOND] {
        script.log(|| format!("end: {span} ns"));
        script.pass(span);
    }
    script.end()
}

/// The remaining choices.
struct Dice<'a>(&'a [u8]);

impl Dice<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn below(&mut self, bound: usize) -> usize {
        let value = match bound {
            0..=256 => usize::from(self.byte()),
            _ => usize::from(self.byte()) << 8 | usize::from(self.byte()),
        };
        value % bound.max(1)
    }

    fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == of - 1
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Returns a number of `octets` bytes at or near a boundary where programs often fail.
    fn extreme(&mut self, octets: usize) -> u64 {
        let bits = octets as u32 * 8;
        let max = u64::MAX >> (64 - bits);
        let value = match self.below(8) {
            0 => self.of(&[0, 1, 2, 3, 4, 7, 8, 9]),
            1 => self.of(&[15, 60, 63, 64, 65, 100, 127, 255]),
            2 => self.of(&[1000, 1024, 1500, 1514, 2047, 4096, 65_535, 65_536]),
            3 => self.of(&[
                max,
                max - 1,
                max >> 1,
                (max >> 1) + 1,
                (max >> 1) - 1,
                max - 7,
            ]),
            4 => 1 << self.below(bits as usize),
            5 => self.of(&[1_000_000, SECOND, SECOND - 1, 4 * SECOND, 1_000_000_000_000]),
            6 => max - (1 << self.below(bits as usize)),
            _ => u64::from(self.byte()) << self.below(bits as usize),
        };
        value & max
    }
}

/// A recorded command.
struct Template {
    command: &'static str,
    messages: Vec<Vec<u8>>,
    /// The command needs no objects created before it.
    whole: bool,
}

/// Returns all recorded commands that change something.
fn templates() -> &'static [Template] {
    static ALL: OnceLock<Vec<Template>> = OnceLock::new();
    ALL.get_or_init(|| {
        let all = RECORDED.iter().enumerate();
        all.flat_map(|(number, text)| recorded(text, number == 0))
            .collect()
    })
}

fn recorded(text: &'static str, whole: bool) -> Vec<Template> {
    let mut all: Vec<Template> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            all.push(Template {
                command,
                messages: Vec::new(),
                whole,
            });
        } else if let (Some(hex), Some(last)) = (line.strip_prefix("> "), all.last_mut()) {
            let sent = router::bytes(hex);
            let changes = messages(&sent).filter(|message| {
                matches!(message.header.ty, 36..=51 | 100..=103) && message.header.ty & 3 < 2
            });
            last.messages
                .extend(changes.map(|message| message.bytes.to_vec()));
        }
    }
    all.retain(|template| !template.messages.is_empty());
    all
}

/// Returns the optional attributes found in recorded requests: size tables and estimators.
fn extras() -> &'static [Vec<u8>] {
    static ALL: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let all = templates().iter().flat_map(|template| &template.messages);
        let of_qdiscs = all.filter(|message| message[4] == 36 && message[5] == 0);
        let mut found: Vec<Vec<u8>> = of_qdiscs
            .flat_map(|message| attrs(&message[HEADER_LEN + 20..]))
            .filter(|attr| [tca::STAB, tca::RATE].contains(&attr.ty))
            .map(|attr| {
                let mut bytes = (attr.payload.len() as u16 + 4).to_ne_bytes().to_vec();
                bytes.extend(attr.ty.to_ne_bytes());
                bytes.extend(attr.payload);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
                bytes
            })
            .collect();
        found.sort();
        found.dedup();
        found
    })
}

/// Returns the paths of all sysctls.
fn sysctls(namespace: &Namespace) -> Vec<String> {
    let mut all = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for name in sysctl::tree::list(namespace, &folder).unwrap_or_default() {
            let path = match folder.as_str() {
                "" => name,
                folder => format!("{folder}/{name}"),
            };
            match sysctl::tree::lookup(namespace, &path) {
                Some(sysctl::tree::Node::Directory) => folders.push(path),
                Some(sysctl::tree::Node::File(true)) => all.push(path),
                _ => {}
            }
        }
    }
    all.sort();
    all
}

struct Script<'a> {
    dice: Dice<'a>,
    /// One in `rare` numbers becomes extreme.
    rare: usize,
    stack: Stack,
    namespace: std::sync::Arc<Namespace>,
    client: Connection,
    cpu: Cpu,
    figures: Figures,
    log: Vec<String>,
}

impl Drop for Script<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() || std::env::var_os("WEIR_SEARCH_SHOW").is_some() {
            eprintln!("the script:\n{}\n{:?}", self.log.join("\n"), self.figures);
        }
    }
}

impl<'a> Script<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let mut dice = Dice(bytes);
        let stack = weir_stack::build(Config::default());
        // One script in eight runs a router; the others only have links that are up.
        if dice.one_in(8) {
            router::set_up(&stack);
        }
        let namespace = stack
            .namespace(Stack::INITIAL)
            .expect("a stack has an initial namespace");
        let mut client = Connection::new(&stack, &namespace, 1, Box::new(NoPeer), None);
        client.options = Options::default();
        for request in router::PAIRS.map(router::pair) {
            router::send(&mut client, &request);
        }
        for index in 2..=5 {
            router::send(&mut client, &router::up(index));
        }
        let mut script = Self {
            rare: dice.of(&[2, 4, 12, 40]),
            dice,
            cpu: Cpu::new(&stack, 0),
            client,
            namespace,
            stack,
            figures: Figures {
                scripts: 1,
                ..Figures::default()
            },
            log: Vec::new(),
        };
        script.cpu.settle();
        script
    }

    fn log(&mut self, what: impl FnOnce() -> String) {
        let now = self.stack.clock.now();
        self.log.push(format!("{now:>14} {}", what()));
    }

    /// Makes a change, sends traffic or lets time pass.
    fn step(&mut self) {
        match self.dice.below(16) {
            0..=11 => self.command(),
            12 => self.sysctl(),
            13 => self.remove(),
            _ => {}
        }
        if !self.dice.one_in(3) {
            self.frames();
        }
        if self.dice.one_in(2) {
            let span = [0, 1, 1_000, 1_000_000, SECOND / 4, 3 * SECOND, 20 * SECOND];
            let span = self.dice.of(&span);
            self.log(|| format!("time: {span} ns"));
            self.pass(span);
        }
    }

    /// Sends a recorded command with some of its numbers changed.
    fn command(&mut self) {
        // Mostly pick a command that needs no other; one time in three pick any command.
        let kinds = templates()
            .iter()
            .take_while(|template| template.whole)
            .count();
        let template = match self.dice.one_in(3) {
            false => &templates()[self.dice.below(kinds)],
            true => &templates()[self.dice.below(templates().len())],
        };
        // Decides whether a root qdisc is placed under a class or replaces the existing root.
        let place = self.dice.below(8);
        let link = LINKS[self.dice.below(2)];
        let mut results = Vec::new();
        for message in &template.messages {
            let mut message = message.clone();
            if place >= 5 && is_root(&message) {
                self.delete(link, rtm::DELQDISC, 0, ROOT);
            }
            self.move_to(&mut message, place, link);
            let mut changed = Vec::new();
            if message.len() > HEADER_LEN + 20 && is_tc(&message) {
                let from = HEADER_LEN + 20;
                self.change_attributes(&mut message[from..], 0, &mut changed);
                self.add_extra(&mut message);
            }
            let length = message.len() as u32;
            message[..4].copy_from_slice(&length.to_ne_bytes());
            let errno = router::send(&mut self.client, &message);
            if errno == 0 {
                self.figures.requests.0 += 1;
            } else {
                self.figures.requests.1 += 1;
            }
            results.push((errno, changed));
        }
        self.log(|| format!("{}  [{place}, {link}]: {results:?}", template.command));
        self.pass(0);
    }

    /// Rewrites the flags, device, parent and handle of a request.
    fn move_to(&mut self, message: &mut [u8], place: usize, link: u32) {
        if !is_tc(message) || message.len() < HEADER_LEN + 20 {
            return;
        }
        let mut put = |at: usize, value: u32| {
            message[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        };
        // A request for a shared block, which this field marks, becomes one for the device.
        put(HEADER_LEN + 4, link);
        if !is_root(message) {
            return;
        }
        let flags = u16::from_ne_bytes([message[6], message[7]]);
        if place < 5 {
            let flags = flags & !nlm::F_EXCL | nlm::F_CREATE | nlm::F_REPLACE;
            message[6..8].copy_from_slice(&flags.to_ne_bytes());
        }
        let mut put = |at: usize, value: u32| {
            message[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        };
        if place < 3 {
            let (parent, handle) = [
                (0x1_0001, 0x10_0000),
                (0x1_0002, 0x20_0000),
                (0x10_0001, 0x100_0000),
            ][place];
            put(HEADER_LEN + 8, handle);
            put(HEADER_LEN + 12, parent);
        }
    }

    /// Replaces some of the numbers in attributes with extreme ones.
    fn change_attributes(&mut self, bytes: &mut [u8], depth: usize, changed: &mut Vec<(u16, u64)>) {
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + 4) {
            let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
            let ty = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
            let Some(payload) = bytes.get_mut(at + 4..at + length) else {
                return;
            };
            at += length.next_multiple_of(4);
            if depth == 0 && ty == tca::KIND {
                continue;
            }
            if nests(payload) {
                self.change_attributes(payload, depth + 1, changed);
            } else {
                self.change_words(payload, ty, changed);
            }
        }
    }

    fn change_words(&mut self, payload: &mut [u8], ty: u16, changed: &mut Vec<(u16, u64)>) {
        // Skips tables, which use up many choices for little coverage, and text such as an action's
        // name.
        let text = payload.len() > 2
            && payload.last() == Some(&0)
            && payload[..payload.len() - 1]
                .iter()
                .all(u8::is_ascii_graphic);
        if payload.len() >= 512 || text {
            return;
        }
        let width = match payload.len() {
            0 => return,
            1 => 1,
            2 | 3 => 2,
            8 if self.dice.one_in(2) => 8,
            _ => 4,
        };
        for word in payload.chunks_exact_mut(width) {
            if self.dice.one_in(self.rare) {
                let value = self.dice.extreme(width);
                word.copy_from_slice(&value.to_ne_bytes()[..width]);
                changed.push((ty, value));
            }
        }
    }

    /// Adds a size table or an estimator to a request for a qdisc.
    fn add_extra(&mut self, message: &mut Vec<u8>) {
        if message[4] == 36 && self.dice.one_in(4) && !extras().is_empty() {
            let mut extra = extras()[self.dice.below(extras().len())].clone();
            let mut changed = Vec::new();
            self.change_attributes(&mut extra, 1, &mut changed);
            message.resize(message.len().next_multiple_of(4), 0);
            message.extend(extra);
        }
    }

    /// Deletes a qdisc or a class.
    fn remove(&mut self) {
        let (ty, handle, parent) = self.dice.of(&[
            (rtm::DELQDISC, 0, ROOT),
            (rtm::DELQDISC, 0, 0xffff_fff1),
            (rtm::DELQDISC, 0, 0x1_0001),
            (rtm::DELQDISC, 0, 0x10_0001),
            (rtm::DELTCLASS, 0x1_0001, 0),
            (rtm::DELTCLASS, 0x1_0002, 0),
        ]);
        let link = LINKS[self.dice.below(2)];
        let errno = self.delete(link, ty, handle, parent);
        self.log(|| format!("del {ty} {handle:x} {parent:x} [{link}]: {errno}"));
        self.pass(0);
    }

    fn delete(&mut self, link: u32, ty: u16, handle: u32, parent: u32) -> i32 {
        let mut message = Vec::new();
        message.extend(36_u32.to_ne_bytes());
        message.extend(ty.to_ne_bytes());
        message.extend((nlm::F_REQUEST | nlm::F_ACK).to_ne_bytes());
        message.extend([0; 12]);
        message.extend(link.to_ne_bytes());
        message.extend(handle.to_ne_bytes());
        message.extend(parent.to_ne_bytes());
        message.extend([0; 4]);
        router::send(&mut self.client, &message)
    }

    /// Sets a sysctl to an extreme value.
    fn sysctl(&mut self) {
        let all = sysctls(&self.namespace);
        let path = &all[self.dice.below(all.len().max(257)) % all.len()];
        let value = match self.dice.below(3) {
            0 => self
                .dice
                .of(&["0", "1", "-1", "2147483647", "-2147483648", "4294967295"])
                .to_owned(),
            1 => (self.dice.extreme(4) as i32).to_string(),
            _ => {
                let values = [(); 3].map(|()| self.dice.extreme(4).to_string());
                values.join(" ")
            }
        };
        let result = sysctl::tree::write(&self.stack, &self.namespace, path, value.as_bytes());
        let path = path.clone();
        self.log(|| format!("sysctl {path}={value}: {result:?}"));
        self.pass(0);
    }

    /// Sends frames out of a device or delivers them to it as received.
    fn frames(&mut self) {
        let count = self.dice.of(&[1, 2, 5, 20, 64, 65, 130, 300]);
        let size = self
            .dice
            .of(&[14, 42, 60, 64, 100, 590, 1514, 9000, 65_535]);
        let name = self
            .dice
            .of(&["d0", "d0", "d1", "d1", "d0", "d1", "pd0", "pd1"]);
        let sends = !self.dice.one_in(4);
        let kind = self.dice.byte();
        self.log(|| format!("{count} frames of {size}, {name} sends {sends}, kind {kind:#x}"));
        let Some(device) = self.namespace.device_by_name(name) else {
            return;
        };
        for first in (0..count).step_by(64) {
            let mut batch = Batch::new();
            for number in first..count.min(first + 64) {
                if self.figures.frames >= FRAMES {
                    break;
                }
                let Some(mut packet) = self.stack.pool.packet(&frame(size, kind, number)) else {
                    break;
                };
                packet.priority = [0, 6, 0x1_0001, 0x1_0002, 0x10_0001, 0xffff_ffff][number % 6];
                packet.mark = number as u32;
                self.figures.frames += 1;
                if batch.push(packet).is_err() {
                    break;
                }
            }
            self.cpu.with(|cx| match sends {
                true => datapath::transmit(cx, &device, batch),
                false => cx.receive_later(&device, batch),
            });
            self.pass(0);
        }
    }

    /// Lets time pass and checks how many turns that takes.
    fn pass(&mut self, span: u64) {
        let until = self.stack.clock.now().saturating_add(span);
        let most = BOUNDS.turns
            + BOUNDS.per_second * (span / SECOND)
            + BOUNDS.per_frame * self.figures.frames;
        let mut turns = 0;
        let from = self.stack.clock.now();
        loop {
            while self.cpu.turn() {
                turns += 1;
                if turns % 64 == 0 {
                    self.check_memory();
                }
                let now = self.stack.clock.now();
                assert!(
                    turns < most,
                    "{turns} turns, from {from} to {now} ns of {until}"
                );
            }
            match self.stack.timers.next_time() {
                Some(next) if next <= until => self.stack.clock.advance(next),
                _ => break,
            }
        }
        self.stack.clock.advance(until);
        self.check_memory();
        while self.client.mailbox().take().is_some() {}
        self.figures.turns += turns;
        self.figures.share = self.figures.share.max(turns * 100 / most);
    }

    fn check_memory(&mut self) {
        let stats = self.stack.pool.stats();
        let frames = stats.frames + stats.jumbos - stats.frames_free - stats.jumbos_free;
        assert!(frames <= BOUNDS.frames, "{frames} frames in memory");
        self.figures.most_frames = self.figures.most_frames.max(frames);
    }

    /// Tears the stack down and checks that all frames are back in the pool.
    fn end(mut self) -> Figures {
        for namespace in self.stack.all_namespaces() {
            self.stack.remove_namespace(namespace.id);
        }
        self.pass(0);
        let pool = self.stack.pool.clone();
        let figures = self.figures;
        drop(self);
        let stats = pool.stats();
        let (frames, free) = (
            stats.frames + stats.jumbos,
            stats.frames_free + stats.jumbos_free,
        );
        assert_eq!(frames, free, "leaked frames");
        figures
    }
}

/// Returns whether the request creates a root qdisc.
fn is_root(message: &[u8]) -> bool {
    let parent = HEADER_LEN + 12;
    message[4..6] == [36, 0] && message.get(parent..parent + 4) == Some(&ROOT.to_ne_bytes())
}

fn is_tc(message: &[u8]) -> bool {
    matches!(message[4], 36..=47 | 100..=103) && message[5] == 0
}

/// Returns whether a payload parses as attributes.
fn nests(payload: &[u8]) -> bool {
    let mut walk = attrs(payload);
    let mut count = 0;
    for attr in walk.by_ref() {
        count += 1;
        if attr.ty == 0 && count > 1 || attr.ty > 96 {
            return false;
        }
    }
    count > 0 && walk.rest().is_empty()
}

/// Returns an Ethernet frame of the given size: IPv4, IPv6, ARP, VLAN or random, from one of many
/// flows.
fn frame(size: usize, kind: u8, number: usize) -> Vec<u8> {
    let flow = match kind >> 3 & 3 {
        0 => 0,
        1 => number % 7,
        _ => number,
    } as u16;
    let mut bytes = vec![0x02, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let ip = size.saturating_sub(14) as u16;
    match kind & 7 {
        0..=3 => {
            bytes.extend([8, 0, 0x45, kind & 0xfc | number as u8 & 3]);
            bytes.extend(ip.to_be_bytes());
            bytes.extend([
                0,
                number as u8,
                0x40,
                0,
                64,
                if kind & 1 == 0 { 17 } else { 6 },
                0,
                0,
            ]);
            bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
            let sum = bytes[14..34].chunks(2).fold(0_u32, |sum, pair| {
                sum + u32::from(u16::from_be_bytes([pair[0], pair[1]]))
            });
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        4 | 5 => {
            bytes.extend([0x86, 0xdd, 0x60 | kind >> 4, kind << 4, 0, 0]);
            bytes.extend(ip.saturating_sub(40).to_be_bytes());
            bytes.extend([
                17, 64, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
            ]);
            bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        }
        6 => bytes.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]),
        _ => bytes.extend([0x81, 0, 0, kind, 8, 0]),
    }
    bytes.extend((1000 + flow).to_be_bytes());
    bytes.extend((flow % 5).to_be_bytes());
    bytes.resize(size.max(14), number as u8);
    bytes
}
