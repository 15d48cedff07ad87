// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes and deletes routers by netlink in bulk and counts what they cost.
//!
//! `routers COUNT [MODE]` makes `COUNT` routers, each a namespace with its loopback up, forwarding on, and two veth
//! pairs into the initial namespace, as `weir bench namespaces` does; then it deletes them with everything inside.
//! `MODE` is that of RCU callbacks. It prints allocations and bytes of memory per router, and the rate at each
//! twentieth. Under `valgrind --tool=callgrind`, two runs with different counts give the instructions of a router.

#![allow(unsafe_code)] // an allocator that counts

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Instant;

use libmimalloc_sys::mi_malloc;
use mimalloc::MiMalloc;
use weir_netlink::{IfInfoMsg, Writer, ifla, nlm, rtm};
use weir_stack::connection::Connection;
use weir_stack::request::Peer;
use weir_stack::sysctl::tree;
use weir_stack::{Config, NsId, Stack};
use weir_sync::rcu::{self, CallbackMode};

/// Counts blocks made, and the blocks and bytes present.
struct Counting;

static MADE: AtomicI64 = AtomicI64::new(0);
static BLOCKS: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);

fn count(blocks: i64, bytes: usize) {
    MADE.fetch_add(blocks.max(0), Relaxed);
    BLOCKS.fetch_add(blocks, Relaxed);
    BYTES.fetch_add(blocks.signum() * bytes as i64, Relaxed);
}

// SAFETY: every call is passed on to mimalloc.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size());
        // As the program's allocator, which says why.
        let natural = layout.align() <= 8 || layout.align() == 16 && layout.size() >= 16;
        match natural {
            // SAFETY: it takes any size.
            true => unsafe { mi_malloc(layout.size()) }.cast(),
            // SAFETY: the caller's promise.
            false => unsafe { MiMalloc.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size());
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-1, layout.size());
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        MADE.fetch_add(1, Relaxed);
        BYTES.fetch_add(size as i64 - layout.size() as i64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A client whose descriptor 0 is the initial namespace.
struct Hub;

impl Peer for Hub {
    fn namespace_by_fd(&self, fd: u32) -> Option<NsId> {
        (fd == 0).then_some(Stack::INITIAL)
    }

    fn namespace_by_pid(&self, _: u32) -> Option<NsId> {
        None
    }
}

fn message(out: &mut Writer, flags: u16, fill: impl FnOnce(&mut Writer)) {
    let mark = out.message(rtm::NEWLINK, nlm::F_REQUEST | flags, 1, 0);
    fill(out);
    out.finish(mark).expect("the request is short");
}

fn up(index: i32) -> IfInfoMsg {
    IfInfoMsg {
        index,
        flags: ifla::iff::UP,
        change: ifla::iff::UP,
        ..IfInfoMsg::default()
    }
}

/// The requests to a new namespace.
fn router(number: u32) -> Writer {
    let mut out = Writer::new();
    message(&mut out, 0, |out| out.fixed(&up(1)));
    for pair in 0..2 {
        message(&mut out, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&up(0));
            out.put_str(ifla::IFNAME, &format!("eth{pair}"));
            let info = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, "veth");
            let data = out.nest(ifla::info::DATA);
            let peer = out.nest(ifla::veth::PEER);
            out.fixed(&IfInfoMsg::default());
            out.put_str(ifla::IFNAME, &format!("r{number}.{pair}"));
            out.put_u32(ifla::NET_NS_FD, 0);
            out.end(peer);
            out.end(data);
            out.end(info);
        });
    }
    out
}

/// The requests to the initial namespace.
fn peers_up(number: u32) -> Writer {
    let mut out = Writer::new();
    for pair in 0..2 {
        message(&mut out, 0, |out| {
            out.fixed(&up(0));
            out.put_str(ifla::IFNAME, &format!("r{number}.{pair}"));
        });
    }
    out
}

/// Sends requests. Only a refused one is answered.
fn request(client: &mut Connection, requests: &Writer) {
    client.request(requests.bytes());
    assert!(client.mailbox().take().is_none(), "a request is refused");
}

fn make(stack: &Stack, hub: &mut Connection, number: u32) -> NsId {
    let id = stack.add_namespace();
    let ns = stack.namespace(id).expect("the namespace is new");
    let mut client = Connection::new(stack, &ns, number, Box::new(Hub), None);
    request(&mut client, &router(number));
    request(hub, &peers_up(number));
    tree::write(stack, &ns, "ipv4/ip_forward", b"1").expect("there is forwarding");
    id
}

/// The resident memory of this process in bytes.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    pages.unwrap_or(0.0) * 4096.0
}

/// What routers cost, each.
pub struct Cost {
    /// Made per second.
    made: f64,
    /// Made per second at each twentieth.
    rates: Vec<f64>,
    /// Deleted per second.
    deleted: f64,
    /// Growth of the resident memory, in bytes.
    resident: f64,
    /// Allocations to make it.
    allocations: f64,
    /// Blocks that it holds.
    blocks: f64,
    /// Bytes in those blocks, as asked for: the allocator rounds them up.
    pub bytes: f64,
    /// Allocations to delete it.
    allocations_to_delete: f64,
    /// Blocks and bytes that stay after it was deleted.
    pub left: [f64; 2],
}

/// Makes `count` routers, then deletes them.
pub fn measure(count: u32, mode: CallbackMode) -> Cost {
    let stack = weir_stack::build(Config {
        rcu: rcu::Config {
            mode,
            ..rcu::Config::default()
        },
        ..Config::default()
    });
    let ns = stack.namespace(Stack::INITIAL);
    let ns = ns.expect("there is an initial namespace");
    let mut hub = Connection::new(&stack, &ns, 1, Box::new(Hub), None);
    make(&stack, &mut hub, u32::MAX);
    let counters = || [&MADE, &BLOCKS, &BYTES].map(|counter| counter.load(Relaxed) as f64);
    let (before, pages) = (counters(), resident());
    let mut ids = Vec::with_capacity(count as usize);
    let mut rates = Vec::new();
    let step = (count / 20).max(1);
    let start = Instant::now();
    let mut last = start;
    for number in 0..count {
        ids.push(make(&stack, &mut hub, number));
        stack.domain.poll();
        if (number + 1) % step == 0 {
            rates.push(f64::from(step) / last.elapsed().as_secs_f64());
            last = Instant::now();
        }
    }
    let each = f64::from(count);
    let made = each / start.elapsed().as_secs_f64();
    stack.domain.barrier();
    let present = counters();
    let per = |from: [f64; 3], to: [f64; 3]| [0, 1, 2].map(|at| (to[at] - from[at]) / each);
    let [allocations, blocks, bytes] = per(before, present);
    let resident = (resident() - pages) / each;
    let start = Instant::now();
    for id in ids {
        assert!(stack.remove_namespace(id));
        stack.domain.poll();
    }
    stack.domain.barrier();
    let deleted = each / start.elapsed().as_secs_f64();
    let after = counters();
    let [allocations_to_delete, ..] = per(present, after);
    let [_, left, left_bytes] = per(before, after);
    Cost {
        made,
        rates,
        deleted,
        resident,
        allocations,
        blocks,
        bytes,
        allocations_to_delete,
        left: [left, left_bytes],
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let count = words.next().and_then(|word| word.parse().ok());
    let mode = words.next().unwrap_or_else(|| "in-place".into());
    let mode = mode.parse().expect("a mode of RCU callbacks");
    let cost = measure(count.unwrap_or(1_000), mode);
    println!(
        "made {:.0}/s, deleted {:.0}/s; resident memory {:.0} B each",
        cost.made, cost.deleted, cost.resident
    );
    println!(
        "to make: {:.1} allocations; {:.1} blocks and {:.0} B stay",
        cost.allocations, cost.blocks, cost.bytes
    );
    println!(
        "to delete: {:.1} allocations; {:.2} blocks and {:.1} B stay",
        cost.allocations_to_delete, cost.left[0], cost.left[1]
    );
    let rates: Vec<String> = cost.rates.iter().map(|rate| format!("{rate:.0}")).collect();
    println!("rates: {}", rates.join(" "));
}
