// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Namespaces of a stack in this process.

use std::time::Instant;

use weir_netlink::Writer;
use weir_stack::connection::Connection;
use weir_stack::request::Peer;
use weir_stack::sysctl::tree;
use weir_stack::{Config, NsId, Stack};
use weir_sync::rcu::{self, CallbackMode};

use super::{Figures, POINTS, What, peers, peers_up, resident, router};

/// A client whose descriptor 0 is the hub namespace.
struct Hub;

impl Peer for Hub {
    fn namespace_by_fd(&self, fd: u32) -> Option<NsId> {
        (fd == 0).then_some(Stack::INITIAL)
    }

    fn namespace_by_pid(&self, _: u32) -> Option<NsId> {
        None
    }
}

/// Makes `count` objects, then deletes them.
pub fn here(what: What, mode: CallbackMode, count: u32) -> Result<Figures, String> {
    let stack = weir_stack::build(Config {
        rcu: rcu::Config {
            mode,
            ..rcu::Config::default()
        },
        ..Config::default()
    });
    let hub = stack.namespace(Stack::INITIAL).ok_or("there is no hub")?;
    let mut hub = Connection::new(&stack, &hub, 1, Box::new(Hub), None);
    make(&stack, &mut hub, what, u32::MAX)?;
    let before = resident()?;
    let step = (count / POINTS).max(1);
    let mut found = Figures::default();
    let mut ids = Vec::with_capacity(count as usize);
    let start = Instant::now();
    let mut last = start;
    for number in 0..count {
        ids.push(make(&stack, &mut hub, what, number)?);
        stack.domain.poll();
        if (number + 1) % step == 0 {
            let rate = f64::from(step) / last.elapsed().as_secs_f64();
            found.points.push((f64::from(number + 1), rate));
            last = Instant::now();
        }
    }
    found.made = f64::from(count) / start.elapsed().as_secs_f64();
    found.bytes = (resident()? - before) / f64::from(count);
    let start = Instant::now();
    for id in ids {
        if !stack.remove_namespace(id) {
            return Err(format!("namespace {} is gone", id.0));
        }
        stack.domain.poll();
    }
    stack.domain.barrier();
    found.deleted = f64::from(count) / start.elapsed().as_secs_f64();
    Ok(found)
}

/// Sends requests, which must succeed.
fn request(client: &mut Connection, requests: &Writer) -> Result<(), String> {
    client.request(requests.bytes());
    while let Some(answer) = client.mailbox().take() {
        if let Some(error) = weir_netlink::refusal(&answer) {
            return Err(format!("a request was refused: {error}"));
        }
    }
    Ok(())
}

fn make(stack: &Stack, hub: &mut Connection, what: What, number: u32) -> Result<NsId, String> {
    let id = stack.add_namespace();
    if what == What::Router {
        let ns = stack.namespace(id).ok_or("the namespace is gone")?;
        let mut client = Connection::new(stack, &ns, number, Box::new(Hub), None);
        let peers = peers(number);
        request(&mut client, &router(0, &peers)?)?;
        request(hub, &peers_up(&peers)?)?;
        tree::write(stack, &ns, "ipv4/ip_forward", b"1")
            .map_err(|errno| format!("forwarding of router {number}: errno {errno}"))?;
    }
    Ok(id)
}
