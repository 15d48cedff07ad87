// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections in one namespace of a stack without programs: opened, idle, closed.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use weir_netlink::ifla::iff;
use weir_netlink::{IfInfoMsg, rtm};
use weir_socket::address::{self, Address};
use weir_socket::{Message, Ready, Socket, User};
use weir_stack::cpu::Cx;
use weir_stack::{Config, Cpu, Stack};

use crate::bench::client::Client;

/// The connections to one port: fewer than there are ephemeral ports.
const EACH: u32 = 20_000;
const FIRST_PORT: u16 = 5000;
/// The stack's time after which TIME_WAIT is over, in ns.
const LATER: u64 = 120_000_000_000;

/// The owner of a socket that reads nothing.
struct Nobody;

impl User for Nobody {
    fn message(&self, _: &Message<'_>) -> bool {
        false
    }

    fn wake(&self, _: &mut Cx<'_>, _: Ready) {}
}

/// The bytes of the address of a port of loopback.
fn at(port: u16) -> address::Bytes {
    address::write(false, &Address::new(Ipv4Addr::LOCALHOST.into(), port))
}

/// Opens `count` connections over loopback, leaves them idle, and closes them. Returns the memory of an end in bytes,
/// and the thousands of connections a second that are opened, and closed until nothing is left.
pub fn here(count: u32) -> Result<Vec<f64>, String> {
    let stack = weir_stack::build(Config::default());
    let ns = stack
        .namespace(Stack::INITIAL)
        .ok_or("there is no namespace")?;
    let mut cpu = Cpu::new(&stack, 0);
    Client::new(&stack, &ns).send(rtm::SETLINK, 0, |out| {
        out.fixed(&IfInfoMsg {
            index: 1,
            flags: iff::UP,
            change: iff::UP,
            ..IfInfoMsg::default()
        });
    })?;
    cpu.settle();
    let nobody: Arc<dyn User> = Arc::new(Nobody);
    let failed = |what: &str, errno: i32| format!("{what}: errno {errno}");
    let open = |cpu: &mut Cpu| {
        let opened = cpu
            .with(|cx| Socket::open(cx, &ns, libc::AF_INET, libc::SOCK_STREAM, 0, nobody.clone()));
        opened.map_err(|errno| failed("socket", errno))
    };
    let ports: Vec<u16> = (0..count.div_ceil(EACH))
        .map(|n| FIRST_PORT + n as u16)
        .collect();
    let mut listeners = Vec::new();
    for &port in &ports {
        let listener = open(&mut cpu)?;
        let bound = cpu.with(|cx| {
            listener.bind(cx, at(port).get())?;
            listener.listen(cx, 16)
        });
        bound.map_err(|errno| failed("listen", errno))?;
        listeners.push(listener);
    }
    let mut held = Vec::with_capacity(2 * count as usize);
    let before = crate::bench::resident()?;
    let start = Instant::now();
    for number in 0..count {
        let place = (number / EACH) as usize;
        let client = open(&mut cpu)?;
        match cpu.with(|cx| client.connect(cx, at(ports[place]).get())) {
            Ok(()) | Err(libc::EINPROGRESS) => {}
            Err(errno) => return Err(failed("connect", errno)),
        }
        cpu.settle();
        let server = cpu.with(|cx| listeners[place].accept(cx, nobody.clone()));
        held.push(client);
        held.push(server.map_err(|errno| failed("accept", errno))?);
    }
    let opened = f64::from(count) / start.elapsed().as_secs_f64();
    let bytes = (crate::bench::resident()? - before) / f64::from(2 * count);
    // Idle for a while.
    cpu.run_until(Some(stack.clock.now() + LATER));
    let start = Instant::now();
    for socket in held.drain(..) {
        cpu.with(|cx| socket.close(cx, false));
        cpu.settle();
    }
    let closed = f64::from(count) / start.elapsed().as_secs_f64();
    for listener in listeners {
        cpu.with(|cx| listener.close(cx, false));
    }
    cpu.run_until(Some(stack.clock.now() + LATER));
    let left = weir_socket::all(&ns).len();
    if left > 0 {
        return Err(format!("{left} sockets are left"));
    }
    Ok(vec![bytes, opened / 1e3, closed / 1e3])
}
