// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small stack around traffic control for the tests: devices, a clock, listeners, and requests in
//! the bytes that tc sends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use weir_netlink::{Error, Message, Writer, messages, nlm, rtm};
use weir_packet::{Packet, Pool, PoolConfig};
use weir_sync::rcu::Domain;

use crate::budget::Budget;
use crate::context::{Context, Copy};
use crate::control::{DumpCx, Request, action, chain, class, filter, qdisc};
use crate::device::DeviceTc;
use crate::env::{Env, Reply, Requester};
use crate::host::{Device, Host};
use crate::net::NetTc;
use crate::psample::Hearers;
use crate::verdict::Verdict;

/// A test device; it is up by default.
pub struct TestDevice {
    ifindex: u32,
    name: String,
    pub up: AtomicBool,
    pub registered: AtomicBool,
    /// The speed in Mbit/s; 0 for unknown.
    pub speed: AtomicU32,
    pub tc: DeviceTc,
}

impl Device for TestDevice {
    fn key(&self) -> u64 {
        u64::from(self.ifindex) + 1000
    }
    fn ifindex(&self) -> u32 {
        self.ifindex
    }
    fn name(&self) -> String {
        self.name.clone()
    }
    fn is_running(&self) -> bool {
        self.is_up()
    }
    fn is_up(&self) -> bool {
        self.up.load(Relaxed)
    }
    fn is_registered(&self) -> bool {
        self.registered.load(Relaxed)
    }
    fn mtu(&self) -> u32 {
        1500
    }
    fn address(&self) -> [u8; 6] {
        [2, 0, 0, 0, 0, 2]
    }
    fn tx_queue_len(&self) -> u32 {
        1000
    }
    fn speed(&self) -> Option<u32> {
        Some(self.speed.load(Relaxed)).filter(|&speed| speed > 0)
    }
    fn tc(&self) -> &DeviceTc {
        &self.tc
    }
}

/// The test stack.
pub struct Stack {
    pub domain: Domain,
    pub net: NetTc,
    pub pool: Pool,
    pub devices: BTreeMap<u32, Arc<TestDevice>>,
    pub now: AtomicU64,
    /// The messages sent to the listeners of RTNLGRP_TC.
    pub heard: Mutex<Vec<Vec<u8>>>,
    pub seed: Mutex<u64>,
    pub generic: Arc<Generic>,
    /// The warning of the last successful request.
    pub warning: Mutex<Option<&'static str>>,
}

/// A listener to all groups of generic netlink.
#[derive(Default)]
pub struct Generic(pub Mutex<Vec<(u32, Vec<u8>)>>);

impl Hearers for Generic {
    fn listening(&self, _group: u32) -> bool {
        true
    }
    fn tell(&self, group: u32, message: &[u8]) {
        self.0.lock().unwrap().push((group, message.to_vec()));
    }
}

impl Host for Stack {
    fn device(&self, ifindex: u32) -> Option<Arc<dyn Device>> {
        Some(self.devices.get(&ifindex)?.clone())
    }
    fn device_ref(&self, ifindex: u32) -> Option<&dyn Device> {
        Some(&**self.devices.get(&ifindex)?)
    }
    fn device_by_name(&self, name: &str) -> Option<Arc<dyn Device>> {
        let device = self.devices.values().find(|device| device.name == name)?;
        Some(device.clone())
    }
    fn next_device(&self, after: u32) -> Option<Arc<dyn Device>> {
        let (_, device) = self.devices.range(after + 1..).next()?;
        Some(device.clone())
    }
    fn listening(&self, group: u32) -> bool {
        group == crate::env::GROUP
    }
    fn notify(&self, _group: u32, message: &[u8], _except: Option<u32>) {
        self.heard.lock().unwrap().push(message.to_vec());
    }
    fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }
    fn epoch(&self) -> u64 {
        EPOCH
    }
    fn generic(&self) -> Arc<dyn Hearers> {
        self.generic.clone()
    }
}

/// The start of the tests' clock.
pub const EPOCH: u64 = 1_700_000_000_000_000_000;

impl Default for Stack {
    fn default() -> Self {
        Self::with_budget(Budget::default())
    }
}

impl Stack {
    /// Creates a stack with limits.
    pub fn with_budget(budget: Budget) -> Self {
        let (domain, budget) = (Domain::default(), Arc::new(budget));
        let device = |(ifindex, name): (u32, &str)| {
            let device = TestDevice {
                ifindex,
                name: name.to_owned(),
                up: AtomicBool::new(true),
                registered: AtomicBool::new(true),
                speed: AtomicU32::new(0),
                tc: DeviceTc::new(&domain),
            };
            (ifindex, Arc::new(device))
        };
        let names = ["lo", "pd0", "d0", "pd1", "d1"];
        let stack = Self {
            net: NetTc::new(&domain, &budget, &Arc::default()),
            pool: Pool::new(PoolConfig::default()),
            devices: (1..).zip(names).map(device).collect(),
            now: AtomicU64::new(1_000_000_000),
            heard: Mutex::default(),
            seed: Mutex::new(1),
            generic: Arc::default(),
            warning: Mutex::default(),
            domain: domain.clone(),
        };
        stack.env(|env| {
            for device in stack.devices.values() {
                let device: Arc<dyn Device> = device.clone();
                device.tc().activate(&device, env);
            }
        });
        stack
    }
}

/// One message of an answer.
#[derive(Debug, Clone)]
pub struct Answer(pub Vec<u8>);

impl Answer {
    pub fn message(&self) -> Message<'_> {
        messages(&self.0).next().unwrap()
    }
}

fn split(bytes: &[u8]) -> Vec<Answer> {
    messages(bytes)
        .map(|message| Answer(message.bytes.to_vec()))
        .collect()
}

impl Stack {
    pub fn env<R>(&self, run: impl FnOnce(&Env<'_>) -> R) -> R {
        let guard = self.domain.pin();
        run(&Env::new(self, &self.net, &guard))
    }

    /// Serves a request given as bytes and returns the messages of the answer.
    pub fn request(&self, bytes: &[u8]) -> Result<Vec<Answer>, Error> {
        let message = messages(bytes).next().unwrap();
        let ty = message.header.ty;
        self.env(|env| {
            if message.is_dump() && ty & 3 == 2 {
                return self.dump(env, &message);
            }
            let request = Request::new(env, message, 77);
            let mut reply = Reply::default();
            match ty {
                rtm::NEWQDISC..=rtm::GETQDISC => drop(qdisc::handle(&request, &mut reply)?),
                rtm::NEWTCLASS..=rtm::GETTCLASS => drop(class::handle(&request, &mut reply)?),
                rtm::NEWTFILTER..=rtm::GETTFILTER => filter::handle(&request, &mut reply)?,
                rtm::NEWCHAIN..=rtm::GETCHAIN => chain::handle(&request, &mut reply)?,
                _ => action::handle(&request, &mut reply)?,
            }
            *self.warning.lock().unwrap() = reply.warning;
            Ok(split(reply.out.bytes()))
        })
    }

    fn dump(&self, env: &Env<'_>, message: &Message<'_>) -> Result<Vec<Answer>, Error> {
        let by = Requester {
            portid: 77,
            seq: message.header.seq,
            flags: nlm::F_MULTI,
        };
        let cx = DumpCx { env, by };
        let mut answers = Vec::new();
        macro_rules! run {
            ($object:ident) => {{
                let mut dump = $object::dump(message)?;
                loop {
                    // The datagrams are small so that dumps are interrupted.
                    let mut w = Writer::with_limit(2048);
                    let done = dump.fill(&cx, &mut w, false)?;
                    answers.extend(split(w.bytes()));
                    if done {
                        break;
                    }
                }
            }};
        }
        match message.header.ty {
            rtm::GETQDISC => run!(qdisc),
            rtm::GETTCLASS => run!(class),
            rtm::GETTFILTER => run!(filter),
            rtm::GETCHAIN => run!(chain),
            _ => run!(action),
        }
        Ok(answers)
    }

    /// Returns and removes the notifications sent to listeners since the last call.
    pub fn heard(&self) -> Vec<Answer> {
        let all = std::mem::take(&mut *self.heard.lock().unwrap());
        all.iter().flat_map(|bytes| split(bytes)).collect()
    }

    /// Returns a frame as a device's receive path passes it to the ingress hook.
    pub fn packet(&self, frame: &[u8]) -> Packet {
        self.packet_from(&self.pool, frame)
    }

    /// Does the same as [`packet`](Self::packet) with memory of another pool.
    pub fn packet_from(&self, pool: &Pool, frame: &[u8]) -> Packet {
        let mut packet = pool.alloc(0).unwrap();
        assert!(packet.append(frame));
        packet.reset_mac();
        packet.set_network(14);
        packet.protocol = u16::from_be_bytes([frame[12], frame[13]]);
        assert!(packet.data_to_network());
        packet
    }

    /// Runs a hook of a device on a packet. Returns the verdict and the copies made.
    pub fn hook(&self, ifindex: u32, ingress: bool, packet: &mut Packet) -> (Verdict, Vec<Copy>) {
        self.hook_on(0, ifindex, ingress, packet)
    }

    /// Does the same as [`hook`](Self::hook) on a given CPU.
    pub fn hook_on(
        &self,
        cpu: usize,
        ifindex: u32,
        ingress: bool,
        packet: &mut Packet,
    ) -> (Verdict, Vec<Copy>) {
        let guard = self.domain.pin();
        let mut copies = Vec::new();
        let mut random = || {
            let mut seed = self.seed.lock().unwrap();
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (*seed >> 32) as u32
        };
        let tc = &self.devices[&ifindex].tc;
        let now = self.now.load(Relaxed);
        let mut cx = Context::new(&guard, cpu, now, ifindex, &mut random, &mut copies);
        cx.tx_queues = 8;
        cx.at(&*self.devices[&ifindex]);
        let verdict = if ingress {
            tc.ingress(&mut cx, packet)
        } else {
            tc.egress(&mut cx, packet)
        };
        (verdict, copies)
    }

    /// Runs the ingress hook of d0 on a frame.
    pub fn receive(&self, frame: &[u8]) -> Verdict {
        self.hook(3, true, &mut self.packet(frame)).0
    }
}

/// Returns the requests in a recording of tc (`tests/vectors`): each command with its traffic
/// control messages.
pub fn vectors(recording: &str) -> Vec<(String, Vec<Vec<u8>>)> {
    let mut all: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
    for line in recording.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            all.push((command.to_owned(), Vec::new()));
        } else if let (Some(hex), Some((_, datagrams))) = (line.strip_prefix("> "), all.last_mut())
        {
            let bytes: Vec<u8> = (0..hex.len() / 2)
                .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
                .collect();
            let ty = messages(&bytes).next().unwrap().header.ty;
            if matches!(ty, rtm::NEWQDISC..=rtm::GETACTION | rtm::NEWCHAIN..=rtm::GETCHAIN) {
                datagrams.push(bytes);
            }
        }
    }
    all
}

/// Returns a frame of UDP or TCP over IPv4.
pub fn ipv4(proto: u8, src: [u8; 4], dst: [u8; 4], sport: u16, dport: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, proto, 0, 0]);
    frame.extend(src);
    frame.extend(dst);
    frame.extend(sport.to_be_bytes());
    frame.extend(dport.to_be_bytes());
    frame.extend([0; 8]);
    frame.extend([0x50, 0x02, 0, 0, 0, 0, 0, 0]);
    frame
}
