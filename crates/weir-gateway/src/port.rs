// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gateway as a live port, with a thread of its own.
//!
//! Frames pass through two queues in memory. Each side wakes the other by an eventfd, and only if it sleeps.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll, eventfd};
use weir_packet::header::{Ipv4, Ipv6};
use weir_packet::offload::describe_segments;
use weir_packet::{Batch, Cache, Flags, LongPackets, Packet};
use weir_port::port::{Counters as PortCounters, Facts, Port, Sieve};

use crate::config::Config;
use crate::counters::Counters;
use crate::gateway::Gateway;
use crate::wire::{ETHERNET, Frame};

/// The kind of port, as `weir port show` names it.
pub const NAME: &str = "gateway";
/// The longest frame, in bytes.
const LONGEST: u32 = 65_535;
/// The most bytes of frames on their way to the gateway.
const TO_GATEWAY: usize = 4 << 20;
/// The same to the stack; the gateway keeps the others itself.
const TO_STACK: usize = 1 << 20;
/// The most buffers that wait to be used again.
const SPARE: usize = 256;
/// How often a sender is told that there is room, and the time between.
const TELL: u8 = 100;
const AGAIN: Duration = Duration::from_millis(10);
/// The longest wait of the thread.
const IDLE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// Buffers of frames that have been taken.
    spare: Vec<Vec<u8>>,
    /// The sender waits for room. It is told so many times at most, until it sends: it may have stopped waiting, or not have
    /// begun to.
    full: u8,
}

impl Queue {
    fn push(&mut self, frame: Frame) {
        self.bytes += frame.data.len();
        self.frames.push_back(frame);
    }

    fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.data.len();
        Some(frame)
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

/// What the port and the thread share.
#[derive(Debug)]
struct Shared {
    to_gateway: Mutex<Queue>,
    to_stack: Mutex<Queue>,
    /// Wakes the thread.
    wake: OwnedFd,
    /// The thread sleeps, or is about to.
    sleeps: AtomicBool,
    stop: AtomicBool,
    /// Readable while frames wait for the stack, or there is room again for its own.
    bell: OwnedFd,
    /// What the stack polls. An epoll set is never writable, so only the bell counts.
    poll: OwnedFd,
    counters: PortCounters,
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ring(bell: &OwnedFd) {
    // A full counter wakes as well.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

fn silence(bell: &OwnedFd) {
    let _ = rustix::io::read(bell, &mut [0_u8; 8]);
}

/// The gateway's end at the device.
#[derive(Debug)]
pub struct Link {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counters: Arc<Counters>,
    shortcomings: Option<String>,
    mtu: u32,
}

impl Link {
    /// Starts a gateway. `mac` is the device's Ethernet address.
    ///
    /// # Errors
    /// No descriptor or no thread is left.
    pub fn start(config: Config, mac: [u8; 6]) -> io::Result<Arc<Self>> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = event()?;
        epoll::add(
            &poll,
            &bell,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN,
        )?;
        let shared = Arc::new(Shared {
            to_gateway: Mutex::default(),
            to_stack: Mutex::default(),
            wake: event()?,
            sleeps: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            bell,
            poll,
            counters: PortCounters::default(),
        });
        let mtu = config.mtu;
        let gateway = Gateway::new(config, mac)?;
        gateway.watch(&shared.wake)?;
        let (counters, shortcomings) = (gateway.counters(), gateway.shortcomings());
        let thread = {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name("weir-gateway".into())
                .spawn(move || serve(gateway, &shared))?
        };
        Ok(Arc::new(Self {
            shared,
            thread: Mutex::new(Some(thread)),
            counters,
            shortcomings,
            mtu,
        }))
    }

    /// The gateway's counters.
    pub fn gateway_counters(&self) -> &Counters {
        &self.counters
    }

    /// A sentence about what the host does not allow, if there is anything.
    pub fn shortcomings(&self) -> Option<&str> {
        self.shortcomings.as_deref()
    }

    /// Ends the thread, and with it all connections.
    pub fn stop(&self) {
        self.shared.stop.store(true, SeqCst);
        ring(&self.shared.wake);
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The gateway's thread.
fn serve(mut gateway: Gateway, shared: &Shared) {
    let mut frames = VecDeque::new();
    let mut spare = Vec::new();
    while !shared.stop.load(Relaxed) {
        let was_full = {
            let mut queue = lock(&shared.to_gateway);
            std::mem::swap(&mut frames, &mut queue.frames);
            queue.bytes = 0;
            while let Some(buffer) = spare.pop() {
                queue.recycle(buffer);
            }
            let was_full = queue.full > 0;
            queue.full = queue.full.saturating_sub(1);
            was_full
        };
        if was_full {
            ring(&shared.bell);
        }
        let worked = !frames.is_empty();
        let limit = match (worked, was_full) {
            (true, _) => None,
            (false, true) => Some(AGAIN),
            (false, false) => Some(IDLE),
        };
        for frame in frames.drain(..) {
            gateway.frame(&frame.data, frame.checked);
            spare.push(frame.data);
        }
        match limit {
            None => gateway.turn(Duration::ZERO),
            Some(limit) => {
                shared.sleeps.store(true, SeqCst);
                // A frame that came before the flag was set is taken now.
                if lock(&shared.to_gateway).frames.is_empty() {
                    gateway.turn(limit);
                    silence(&shared.wake);
                }
                shared.sleeps.store(false, SeqCst);
            }
        }
        deliver(&mut gateway, shared);
    }
}

/// Passes the gateway's frames to the stack as far as there is room.
fn deliver(gateway: &mut Gateway, shared: &Shared) {
    let mut queue = lock(&shared.to_stack);
    while let Some(buffer) = queue.spare.pop() {
        gateway.recycle(buffer);
    }
    let was_empty = queue.frames.is_empty();
    while queue.bytes < TO_STACK {
        match gateway.pop() {
            Some(frame) => queue.push(frame),
            None => break,
        }
    }
    queue.full = u8::from(queue.bytes >= TO_STACK);
    if was_empty && !queue.frames.is_empty() {
        ring(&shared.bell);
    }
}

/// Makes a packet of a frame. `None` without memory.
fn packet(frame: &Frame, memory: &mut Cache) -> Option<Packet> {
    let mut packet = memory.packet(&frame.data)?;
    packet.flags.insert(Flags::CSUM_GOOD);
    if frame.segment > 0 {
        let header = match frame.data.get(ETHERNET)? >> 4 {
            4 => Ipv4::LEN,
            _ => Ipv6::LEN,
        };
        if !describe_segments(&mut packet, frame.segment.into(), ETHERNET + header) {
            memory.free(packet);
            return None;
        }
    }
    Some(packet)
}

impl Port for Link {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn facts(&self) -> Facts {
        Facts {
            name: "host sockets".into(),
            mtu: Some(self.mtu),
            ..Facts::default()
        }
    }

    fn descriptor(&self, _: u16) -> Option<BorrowedFd<'_>> {
        Some(self.shared.poll.as_fd())
    }

    fn take(
        &self,
        _: u16,
        memory: &mut Cache,
        batch: &mut Batch,
        _: Option<Sieve<'_>>,
    ) -> io::Result<usize> {
        let before = batch.len();
        let mut queue = lock(&self.shared.to_stack);
        while !batch.is_full() {
            let Some(frame) = queue.pop() else {
                // In this order, under the lock: a frame that comes later rings again.
                silence(&self.shared.bell);
                break;
            };
            match packet(&frame, memory) {
                Some(packet) => drop(batch.push(packet)),
                None => drop(self.shared.counters.rx_dropped.fetch_add(1, Relaxed)),
            }
            queue.recycle(frame.data);
        }
        let wake = queue.full > 0 && queue.bytes < TO_STACK / 2;
        if wake {
            queue.full = 0;
        }
        drop(queue);
        if wake {
            ring(&self.shared.wake);
        }
        Ok(batch.len() - before)
    }

    fn long_packets(&self) -> LongPackets {
        LongPackets {
            max_len: LONGEST,
            udp: false,
        }
    }

    fn send(&self, _: u16, frames: &[Packet]) -> io::Result<usize> {
        let mut queue = lock(&self.shared.to_gateway);
        let mut sent = 0;
        queue.full = 0;
        for packet in frames {
            if queue.bytes >= TO_GATEWAY {
                queue.full = TELL;
                break;
            }
            sent += 1;
            if packet.vlan().is_some() {
                // The gateway is in no VLAN.
                self.shared.counters.tx_errors.fetch_add(1, Relaxed);
                continue;
            }
            let mut data = queue.spare.pop().unwrap_or_default();
            data.extend_from_slice(packet.data());
            queue.push(Frame {
                data,
                segment: 0,
                checked: packet.segments().is_some() || packet.flags.contains(Flags::CSUM_GOOD),
            });
        }
        drop(queue);
        if self.shared.sleeps.swap(false, SeqCst) {
            ring(&self.shared.wake);
        }
        Ok(sent)
    }

    fn counters(&self) -> &PortCounters {
        &self.shared.counters
    }
}
