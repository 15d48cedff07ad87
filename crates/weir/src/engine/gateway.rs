// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gateway of a stack: its device in the initial namespace, with addresses and default routes.

mod publish;

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use weir_gateway::Config;
use weir_gateway::port::Link;
use weir_intercept::Backend;
use weir_netlink::{IfAddrMsg, IfInfoMsg, RtMsg, Writer, af, ifa, ifla, nlm, rta, rtm};
use weir_stack::Stack;

use super::{Engine, from_stack};
use crate::cli::Gateway;

/// The gateway, if there is one.
#[derive(Default)]
pub struct State {
    link: OnceLock<Arc<Link>>,
}

impl State {
    /// Ends the gateway's connections.
    pub fn stop(&self) {
        if let Some(link) = self.link.get() {
            link.stop();
        }
    }

    /// The counters, as JSON and as text.
    pub fn stat(&self) -> Result<Value, String> {
        let link = self
            .link
            .get()
            .ok_or("the stack has no gateway; start it with `weir up --gateway`")?;
        let (mut data, mut text) = (Map::new(), String::new());
        for (name, value) in link.gateway_counters().all() {
            let _ = writeln!(text, "{name:<16} {value:>12}");
            data.insert(name.to_owned(), value.into());
        }
        Ok(json!({ "data": data, "text": text }))
    }
}

impl Engine {
    /// Makes what the command line asks for. Call it before clients are served.
    pub fn open_gateway(&self, args: &Gateway) -> Result<(), String> {
        if args.flag().is_some() {
            more_descriptors();
        }
        let published = publish::bind(&args.published)?;
        if let Some(config) = &args.gateway {
            self.open_way_out(config)
                .map_err(|error| format!("--gateway: {error}"))?;
        }
        if !args.published.is_empty() {
            publish::start(&self.me, published)?;
        }
        Ok(())
    }

    fn open_way_out(&self, config: &Config) -> Result<(), String> {
        let name = &config.device;
        self.ask(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&IfInfoMsg::default());
            out.put_str(ifla::IFNAME, name);
            let info = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, "dummy");
            out.end(info);
        })?;
        let ns = self
            .stack
            .namespace(Stack::INITIAL)
            .ok_or("there is no initial namespace")?;
        let device = ns
            .device_by_name(name)
            .ok_or_else(|| format!("{name} cannot be made"))?;
        let link =
            Link::start(config.clone(), device.address()).map_err(|error| error.to_string())?;
        if let Some(sentence) = link.shortcomings() {
            eprintln!("weir: --gateway: {sentence}");
        }
        // There is one call.
        let _ = self.gateway.link.set(link.clone());
        let index = device.ifindex();
        self.ports.attach_own(self, device, link)?;
        self.ask(rtm::NEWLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index: index as i32,
                flags: ifla::iff::UP,
                change: ifla::iff::UP,
                ..IfInfoMsg::default()
            });
        })?;
        let v4 = config
            .v4
            .map(|v4| (v4.device.into(), v4.prefix, v4.gateway.into()));
        let v6 = config
            .v6
            .map(|v6| (v6.device.into(), v6.prefix, v6.gateway.into()));
        for (address, prefix, gateway) in [v4, v6].into_iter().flatten() {
            self.address(index, address, prefix)?;
            self.default_route(index, gateway)?;
        }
        Ok(())
    }

    /// `ip address add ADDRESS/PREFIX dev DEV nodad`
    fn address(&self, index: u32, address: IpAddr, prefix: u8) -> Result<(), String> {
        self.ask(rtm::NEWADDR, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&IfAddrMsg {
                family: family(address),
                prefixlen: prefix,
                index,
                ..IfAddrMsg::default()
            });
            out.put_ip(ifa::LOCAL, address);
            out.put_ip(ifa::ADDRESS, address);
            if address.is_ipv6() {
                out.put_u32(ifa::FLAGS, ifa::f::NODAD);
            }
        })
    }

    /// `ip route add default via GATEWAY dev DEV`
    fn default_route(&self, index: u32, gateway: IpAddr) -> Result<(), String> {
        self.ask(rtm::NEWROUTE, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&RtMsg {
                family: family(gateway),
                table: rta::table::MAIN as u8,
                protocol: rta::prot::BOOT,
                ty: rta::rtn::UNICAST,
                ..RtMsg::default()
            });
            out.put_ip(rta::GATEWAY, gateway);
            out.put_u32(rta::OIF, index);
        })
    }

    /// Sends a request in the initial namespace, as `ip` would.
    fn ask(&self, kind: u16, flags: u16, fill: impl FnOnce(&mut Writer)) -> Result<(), String> {
        let mut out = Writer::new();
        let message = out.message(kind, nlm::F_REQUEST | nlm::F_ACK | flags, 1, 0);
        fill(&mut out);
        out.finish(message)
            .map_err(|_| "the request is too long".to_owned())?;
        let answer = self.request(from_stack(Stack::INITIAL), out.bytes());
        let answer = answer.map_err(|error| error.to_string())?;
        match weir_netlink::refusal(&answer) {
            Some(error) => Err(error.quiet().to_string()),
            None => Ok(()),
        }
    }
}

/// Raises the limit on descriptors as far as the process may: each flow has one.
fn more_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // With the limit as it is there are fewer flows.
    let _ = setrlimit(Resource::Nofile, raised);
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => af::INET,
        IpAddr::V6(_) => af::INET6,
    }
}
