// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client that sets up a stack in this process: links, addresses, routes, neighbours and filters
//! by rtnetlink messages.

use std::sync::Arc;

use weir_netlink::tca;
use weir_netlink::{
    IfAddrMsg, IfInfoMsg, NdMsg, RtMsg, TcGen, TcMirred, TcMsg, TcSkbMod, Writer, af, ifa, ifla,
    nda, nlm, rta, rtm,
};
use weir_stack::Stack;
use weir_stack::connection::{Connection, Peer};
use weir_stack::namespace::{Namespace, NsId};

/// `TC_ACT_SHOT`
pub const DROP: i32 = 2;
/// `TC_ACT_PIPE`
pub const PIPE: i32 = 3;
/// `TC_ACT_STOLEN`
pub const STOLEN: i32 = 4;
/// `VETH_INFO_PEER`
const VETH_PEER: u16 = 1;

/// A client whose file descriptors are the numbers of namespaces.
struct Numbers;

impl Peer for Numbers {
    fn namespace_by_fd(&self, fd: u32) -> Option<NsId> {
        Some(NsId(fd.into()))
    }

    fn namespace_by_pid(&self, _: u32) -> Option<NsId> {
        None
    }
}

/// A client in a namespace.
pub struct Client(Connection);

impl Client {
    /// Opens a client's connection.
    pub fn new(stack: &Stack, ns: &Arc<Namespace>) -> Self {
        Self(Connection::new(stack, ns, 1, Box::new(Numbers), None))
    }

    /// Sends one request. An error ends the benchmark.
    pub fn send(
        &mut self,
        ty: u16,
        flags: u16,
        fill: impl FnOnce(&mut Writer),
    ) -> Result<(), String> {
        let mut out = Writer::new();
        let mark = out.message(ty, nlm::F_REQUEST | flags, 1, 0);
        fill(&mut out);
        out.finish(mark)
            .map_err(|_| "a request is too long".to_owned())?;
        self.0.request(out.bytes());
        while let Some(answer) = self.0.mailbox().take() {
            if let Some(error) = weir_netlink::refusal(&answer) {
                return Err(format!("set-up: request {ty} was refused: {error}"));
            }
        }
        Ok(())
    }

    fn link(
        &mut self,
        name: &str,
        mac: [u8; 6],
        kind: &str,
        data: impl FnOnce(&mut Writer),
    ) -> Result<(), String> {
        self.send(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&IfInfoMsg {
                flags: ifla::iff::UP,
                change: ifla::iff::UP,
                ..IfInfoMsg::default()
            });
            out.put_str(ifla::IFNAME, name);
            out.put(ifla::ADDRESS, &mac);
            let info = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, kind);
            data(out);
            out.end(info);
        })
    }

    /// Adds a dummy device that is up.
    pub fn dummy(&mut self, name: &str, mac: [u8; 6]) -> Result<(), String> {
        self.link(name, mac, "dummy", |_| {})
    }

    /// Adds a pair of devices that are up; the peer is in another namespace.
    pub fn veth(
        &mut self,
        (name, mac): (&str, [u8; 6]),
        (peer, its_mac): (&str, [u8; 6]),
        ns: NsId,
    ) -> Result<(), String> {
        self.link(name, mac, "veth", |out| {
            let data = out.nest(ifla::info::DATA);
            let other = out.nest(VETH_PEER);
            out.fixed(&IfInfoMsg {
                flags: ifla::iff::UP,
                change: ifla::iff::UP,
                ..IfInfoMsg::default()
            });
            out.put_str(ifla::IFNAME, peer);
            out.put(ifla::ADDRESS, &its_mac);
            out.put_u32(ifla::NET_NS_FD, ns.0 as u32);
            out.end(other);
            out.end(data);
        })
    }

    /// Adds an address to a device.
    pub fn address(
        &mut self,
        index: u32,
        family: u8,
        address: &[u8],
        prefixlen: u8,
    ) -> Result<(), String> {
        self.send(rtm::NEWADDR, nlm::F_CREATE | nlm::F_EXCL, |out| {
            let flags = if family == af::INET6 {
                ifa::f::NODAD as u8
            } else {
                0
            };
            out.fixed(&IfAddrMsg {
                family,
                prefixlen,
                flags,
                scope: 0,
                index,
            });
            out.put(ifa::LOCAL, address);
            out.put(ifa::ADDRESS, address);
        })
    }

    /// Adds a route to the main table.
    pub fn route(&mut self, family: u8, dst: &[u8], dst_len: u8, via: &[u8]) -> Result<(), String> {
        self.send(rtm::NEWROUTE, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&RtMsg {
                family,
                dst_len,
                table: 254,
                protocol: 4,
                ty: 1,
                ..RtMsg::default()
            });
            if dst_len > 0 {
                out.put(rta::DST, dst);
            }
            out.put(rta::GATEWAY, via);
        })
    }

    /// Adds a permanent neighbour.
    pub fn neighbour(
        &mut self,
        index: u32,
        family: u8,
        address: &[u8],
        mac: [u8; 6],
    ) -> Result<(), String> {
        self.send(rtm::NEWNEIGH, nlm::F_CREATE | nlm::F_REPLACE, |out| {
            out.fixed(&NdMsg {
                family,
                ifindex: index as i32,
                state: nda::nud::PERMANENT,
                ..NdMsg::default()
            });
            out.put(nda::DST, address);
            out.put(nda::LLADDR, &mac);
        })
    }

    /// Adds a clsact to a device.
    pub fn clsact(&mut self, index: u32) -> Result<(), String> {
        self.send(rtm::NEWQDISC, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&TcMsg {
                ifindex: index as i32,
                handle: 0xffff_0000,
                parent: 0xffff_fff1,
                ..TcMsg::default()
            });
            out.put_str(tca::KIND, "clsact");
        })
    }

    /// Adds a filter at ingress of a device. `options` fills in `TCA_OPTIONS`.
    pub fn filter(
        &mut self,
        index: u32,
        prio: u16,
        protocol: u16,
        kind: &str,
        options: impl FnOnce(&mut Writer),
    ) -> Result<(), String> {
        self.send(rtm::NEWTFILTER, nlm::F_CREATE, |out| {
            out.fixed(&TcMsg {
                ifindex: index as i32,
                parent: 0xffff_fff2,
                info: TcMsg::make_info(prio, protocol),
                ..TcMsg::default()
            });
            out.put_str(tca::KIND, kind);
            let nest = out.nest(tca::OPTIONS);
            options(out);
            out.end(nest);
        })
    }
}

/// Writes a list of actions into attribute `ty`. `fill` writes the actions, each by one of the
/// functions below.
pub fn put_actions(out: &mut Writer, ty: u16, fill: impl FnOnce(&mut Writer)) {
    let actions = out.nest(ty);
    fill(out);
    out.end(actions);
}

/// Writes an action at a place of a list.
pub fn put_action(out: &mut Writer, place: u16, kind: &str, options: impl FnOnce(&mut Writer)) {
    let action = out.nest(place);
    out.put_str(tca::act::KIND, kind);
    let inside = out.nest(tca::act::OPTIONS);
    options(out);
    out.end(inside);
    out.end(action);
}

/// Returns the common parameters of an action with a control action.
pub fn control(action: i32) -> TcGen {
    TcGen {
        action,
        ..TcGen::default()
    }
}

/// Writes the first action: a gact with a control action.
pub fn put_gact(out: &mut Writer, action: i32) {
    put_action(out, 1, "gact", |out| {
        out.put_fixed(tca::gact::PARMS, &control(action));
    });
}

/// Writes two actions: a skbmod that sets both MAC addresses, and a redirect to the egress of a
/// device.
pub fn put_readdress(out: &mut Writer, dst: [u8; 6], src: [u8; 6], to: u32) {
    put_action(out, 1, "skbmod", |out| {
        out.put_fixed(
            tca::skbmod::PARMS,
            &TcSkbMod {
                common: control(PIPE),
                pad: 0,
                flags: 3,
            },
        );
        out.put(tca::skbmod::DMAC, &dst);
        out.put(tca::skbmod::SMAC, &src);
    });
    put_action(out, 2, "mirred", |out| {
        out.put_fixed(
            tca::mirred::PARMS,
            &TcMirred {
                common: control(STOLEN),
                eaction: tca::mirred::EGRESS_REDIR,
                ifindex: to,
            },
        );
    });
}
