// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running stack in this process, with clients at its netlink sockets like those of `weir up`.

use std::sync::Arc;
use std::time::Instant;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use weir_intercept::{Backend, NsId, Runtime, SocketRequest};
use weir_netlink::{IfInfoMsg, TcMsg, ifla, nlm, rtm, tca};
use weir_stack::{Config, Device, Stack};

use super::wire::{Client, Profile, Rules};
use crate::engine::Engine;
use crate::playback::Playback;

/// The stack: d0 with the filters, and vxlan1 (external) as the target.
pub struct Bed {
    /// The running stack.
    pub engine: Arc<Engine>,
    /// The index of d0.
    pub ifindex: u32,
    /// The index of vxlan1.
    pub target: u32,
}

impl Bed {
    /// Creates a stack in real time with its devices and a clsact on d0.
    pub fn new() -> Result<Self, String> {
        let stack = weir_stack::build(Config {
            virtual_time: false,
            ..Config::default()
        });
        let runtime = Runtime::create(None)
            .map_err(|error| format!("cannot create the stack's directory: {error}"))?;
        let mut bed = Self {
            engine: Engine::new(stack, runtime, Playback::default()),
            ifindex: 0,
            target: 0,
        };
        let client = bed.client()?;
        for (name, kind) in [("d0", "dummy"), ("vxlan1", "vxlan")] {
            client.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
                out.fixed(&IfInfoMsg {
                    flags: ifla::iff::UP,
                    change: ifla::iff::UP,
                    ..IfInfoMsg::default()
                });
                out.put_str(ifla::IFNAME, name);
                let info = out.nest(ifla::LINKINFO);
                out.put_str(ifla::info::KIND, kind);
                if kind == "vxlan" {
                    let data = out.nest(ifla::info::DATA);
                    out.put_be16(ifla::vxlan::PORT, 4789);
                    out.put_u8(ifla::vxlan::COLLECT_METADATA, 1);
                    out.put_u8(ifla::vxlan::LEARNING, 0);
                    out.end(data);
                }
                out.end(info);
            })?;
        }
        bed.ifindex = bed.device("d0")?.ifindex();
        bed.target = bed.device("vxlan1")?.ifindex();
        bed.clsact(true)?;
        Ok(bed)
    }

    /// Returns a device of the stack.
    pub fn device(&self, name: &str) -> Result<Arc<Device>, String> {
        let ns = self.engine.stack.namespace(Stack::INITIAL);
        ns.and_then(|ns| ns.device_by_name(name))
            .ok_or(format!("the stack has no {name}"))
    }

    /// Adds the hook to d0, or removes it with everything in it.
    pub fn clsact(&self, add: bool) -> Result<(), String> {
        let (ty, flags) = if add {
            (rtm::NEWQDISC, nlm::F_CREATE | nlm::F_EXCL)
        } else {
            (rtm::DELQDISC, 0)
        };
        self.client()?.request(ty, flags, |out| {
            out.fixed(&TcMsg {
                ifindex: self.ifindex as i32,
                handle: 0xffff_0000,
                parent: 0xffff_fff1,
                ..TcMsg::default()
            });
            out.put_str(tca::KIND, "clsact");
        })
    }

    /// Opens a client's socket, served by a thread of its own like those of programs.
    pub fn client(&self) -> Result<Client, String> {
        let (client, daemon) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|error| format!("socketpair: {error}"))?;
        let thread = std::fs::read_link("/proc/thread-self").ok();
        let thread = thread.and_then(|path| path.file_name()?.to_str()?.parse().ok());
        let request = SocketRequest {
            ns: NsId(1),
            protocol: 0,
            process: std::process::id(),
            thread: thread.unwrap_or(std::process::id()),
        };
        self.engine
            .open_socket(&request, daemon)
            .map_err(|error| format!("cannot open a netlink socket: {error}"))?;
        Ok(Client(client))
    }

    /// Returns the rules of a profile in a priority.
    pub fn rules(&self, profile: Profile, prio: u16, plain: bool) -> Rules {
        Rules {
            profile,
            ifindex: self.ifindex,
            target: self.target,
            prio,
            plain,
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.engine.stop();
    }
}

/// Sends each connection's datagrams on a thread of its own, in turn to the beds. Returns the
/// seconds until all are answered. Memory that earlier requests left to be freed is freed before
/// the measurement.
pub fn send(beds: &[&Bed], connections: Vec<Vec<Vec<u8>>>) -> Result<f64, String> {
    for bed in beds {
        bed.engine.stack.domain.barrier();
    }
    let start = std::sync::Barrier::new(connections.len() + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = connections
            .into_iter()
            .zip(beds.iter().cycle())
            .map(|(datagrams, bed)| {
                let start = &start;
                scope.spawn(move || {
                    let client = bed.client();
                    start.wait();
                    let sent = client.and_then(|client| client.send_all(&datagrams));
                    // Returns the datagrams, so that dropping them is not measured.
                    sent.map(|()| datagrams)
                })
            })
            .collect();
        start.wait();
        let started = Instant::now();
        let mut spent = Vec::new();
        let mut failed = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(datagrams)) => spent.push(datagrams),
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some("a client panicked".into()),
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        drop(spent);
        failed.map_or(Ok(seconds), Err)
    })
}
