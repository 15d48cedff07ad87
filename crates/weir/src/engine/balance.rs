// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of `weir balance`: rtnetlink requests for actions `balance` and the filters that have them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde_json::{Value, json};
use weir_conntrack::Family;
use weir_netlink::tca::{self, act, flower, matchall, root};
use weir_netlink::{TcGen, TcMsg, TcaMsg, Writer, errno, nlm, rtm};
use weir_stack::connection::{Connection, NoPeer};
use weir_stack::device::Device;
use weir_stack::namespace::Namespace;
use weir_tc::action::balance::{Ends, Listed, Report, attr, bytes_of, reports};
use weir_tc::report::ActionReport;

use super::Engine;
use crate::cli::{Backend, Service};

/// The kind of the actions.
const KIND: &str = "balance";
/// The preference of the filters of index 0.
const PREFERENCE: u32 = 1000;
/// `TC_ACT_UNSPEC`: other filters see the packet, too.
const CONTINUE: i32 = -1;
/// The ingress of a clsact.
const INGRESS: u32 = 0xffff_fff2;
/// Its egress.
const EGRESS: u32 = 0xffff_fff3;

/// Executes a command.
pub fn run(engine: &Engine, command: &Value) -> Result<Value, String> {
    let netns = command["netns"].as_str();
    let ns = engine
        .namespace(netns)
        .ok_or_else(|| format!("there is no namespace {}", netns.unwrap_or_default()))?;
    let service: Service = command["service"].as_str().unwrap_or_default().parse()?;
    let texts = command["backends"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let backends = texts
        .iter()
        .map(|text| listed(text.as_str().unwrap_or_default(), &service))
        .collect::<Result<Vec<_>, _>>()?;
    let guard = engine.stack.domain.pin();
    let present = reports(&ns.tc, &guard);
    drop(guard);
    let wanted = ends(service.protocol, service.ends);
    let found = present.iter().find(|report| report.service == wanted);
    let mut requests = Requests {
        connection: Connection::new(&engine.stack, &ns, 0, Box::new(NoPeer), None),
    };
    requests.connection.options.ext_ack = true;
    match (command["do"].as_str(), found) {
        (Some("add"), None) => {
            let flows = command["flows"].as_u64().map(|flows| flows as u32);
            let options = |w: &mut Writer, index| options(w, index, &wanted, flows, &backends);
            requests.add(command, &ns, &present, &wanted, &options)
        }
        (Some("set"), Some(report)) => {
            let flags = nlm::F_CREATE | nlm::F_REPLACE;
            requests.send(rtm::NEWACTION, flags, |w| {
                w.fixed(&TcaMsg::default());
                put_action(w, root::TAB, |w| {
                    options(w, report.index, &wanted, Some(report.flows), &backends);
                });
            })?;
            Ok(json!({}))
        }
        (Some("del"), Some(report)) => {
            requests.delete(&ns, report.index)?;
            Ok(json!({}))
        }
        (Some("add"), Some(_)) => Err(format!(
            "the namespace balances {service} already; `weir balance set` changes the backends"
        )),
        _ => Err(format!("the namespace does not balance {service}")),
    }
}

fn ends(protocol: u8, ends: SocketAddr) -> Ends {
    let (family, mut address) = (family(ends.ip()), [0; 16]);
    match ends.ip() {
        IpAddr::V4(four) => address[..4].copy_from_slice(&four.octets()),
        IpAddr::V6(six) => address = six.octets(),
    }
    Ends {
        family,
        protocol,
        address,
        port: ends.port(),
    }
}

fn family(address: IpAddr) -> Family {
    match address {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}

fn listed(text: &str, service: &Service) -> Result<Listed, String> {
    let backend: Backend = text.parse()?;
    Ok(Listed {
        weight: backend.weight,
        ends: ends(service.protocol, backend.ends),
    })
}

/// Writes the options of an action.
fn options(w: &mut Writer, index: u32, service: &Ends, flows: Option<u32>, backends: &[Listed]) {
    let parms = TcGen {
        index,
        action: CONTINUE,
        ..TcGen::default()
    };
    w.put_fixed(attr::PARMS, &parms);
    w.put(attr::SERVICE, &service.to_bytes());
    if let Some(flows) = flows {
        w.put_u32(attr::FLOWS, flows);
    }
    let list = w.nest(attr::BACKENDS);
    for backend in backends {
        w.put(attr::BACKEND, &bytes_of(backend));
    }
    w.end(list);
}

/// Writes a list with one action.
fn put_action(w: &mut Writer, list: u16, options: impl FnOnce(&mut Writer)) {
    let list = w.nest(list);
    let first = w.nest(1);
    w.put_str(act::KIND, KIND);
    let inside = w.nest(act::OPTIONS);
    options(w);
    w.end(inside);
    w.end(first);
    w.end(list);
}

/// A connection for requests.
struct Requests {
    connection: Connection,
}

impl Requests {
    /// Sends a request. The error is a sentence.
    fn send(&mut self, ty: u16, flags: u16, fill: impl FnOnce(&mut Writer)) -> Result<(), String> {
        self.send_unless(ty, flags, 0, fill).map(drop)
    }

    /// Sends a request, which may fail with one errno. Returns whether it was done.
    fn send_unless(
        &mut self,
        ty: u16,
        flags: u16,
        harmless: i32,
        fill: impl FnOnce(&mut Writer),
    ) -> Result<bool, String> {
        let mut out = Writer::new();
        let mark = out.message(ty, nlm::F_REQUEST | nlm::F_ACK | flags, 1, 0);
        fill(&mut out);
        out.finish(mark)
            .map_err(|_| "the request is too long".to_owned())?;
        self.connection.request(out.bytes());
        let mut result = Ok(true);
        while let Some(answer) = self.connection.mailbox().take() {
            match weir_netlink::refusal(&answer) {
                Some(error) if error.errno == harmless => result = Ok(false),
                Some(error) => result = Err(sentence(error)),
                None => {}
            }
        }
        result
    }

    fn add(
        &mut self,
        command: &Value,
        ns: &Arc<Namespace>,
        present: &[Report],
        service: &Ends,
        options: &dyn Fn(&mut Writer, u32),
    ) -> Result<Value, String> {
        let used = |index: &u32| present.iter().any(|report| report.index == *index);
        // Each has a preference of 16 bits.
        let index = (1..=u32::from(u16::MAX) - PREFERENCE).find(|index| !used(index));
        let index = index.ok_or("the namespace has as many balancers as there are preferences")?;
        let device = |name: &Value| {
            let name = name.as_str().unwrap_or_default();
            let found = ns.device_by_name(name);
            found.ok_or_else(|| format!("there is no device {name}"))
        };
        let first = device(&command["device"])?;
        let replies = command["replies"].as_array().map_or(&[][..], Vec::as_slice);
        let replies = replies.iter().map(device).collect::<Result<Vec<_>, _>>()?;
        // The first filter makes the action, and the others share it. It goes with the last of them.
        let both = replies
            .iter()
            .any(|reply| reply.ifindex() == first.ifindex());
        let mut done = Vec::new();
        let made = self.filter(&first, index, service, both, |w| options(w, index))?;
        done.push((&first, made));
        for reply in &replies {
            if done
                .iter()
                .any(|(other, _)| other.ifindex() == reply.ifindex())
            {
                continue;
            }
            let parms = TcGen {
                index,
                ..TcGen::default()
            };
            let share = |w: &mut Writer| w.put_fixed(attr::PARMS, &parms);
            match self.filter(reply, index, service, true, share) {
                Ok(made) => done.push((reply, made)),
                Err(error) => {
                    for (device, made) in done {
                        self.remove(device, index, service, made);
                    }
                    return Err(error);
                }
            }
        }
        let preference = PREFERENCE + index;
        let text = format!("balancer {index}: filters with preference {preference}\n");
        Ok(json!({ "index": index, "pref": preference, "text": text }))
    }

    /// Adds a filter at the ingress of a device: for packets of the service, or for all of its family. Returns whether
    /// the device has got a clsact for it. After an error it has none but its own.
    fn filter(
        &mut self,
        device: &Device,
        index: u32,
        service: &Ends,
        all: bool,
        options: impl FnOnce(&mut Writer),
    ) -> Result<bool, String> {
        let new = nlm::F_CREATE | nlm::F_EXCL;
        let made = self.send_unless(rtm::NEWQDISC, new, errno::EEXIST, |w| {
            w.fixed(&clsact(device));
            w.put_str(tca::KIND, "clsact");
        })?;
        let header = header(device, index, service);
        let added = self.send(rtm::NEWTFILTER, new, |w| {
            w.fixed(&header);
            if all {
                w.put_str(tca::KIND, "matchall");
                let inside = w.nest(tca::OPTIONS);
                put_action(w, matchall::ACT, options);
                w.end(inside);
                return;
            }
            // ICMP errors about answers have the service's address, but not its port.
            w.put_str(tca::KIND, "flower");
            let inside = w.nest(tca::OPTIONS);
            put_action(w, flower::ACT, options);
            w.put(flower::KEY_ETH_TYPE, &protocol(service).to_be_bytes());
            match service.family {
                Family::V4 => {
                    w.put(flower::KEY_IPV4_DST, &service.address[..4]);
                    w.put(flower::KEY_IPV4_DST_MASK, &[0xff; 4]);
                }
                Family::V6 => {
                    w.put(flower::KEY_IPV6_DST, &service.address);
                    w.put(flower::KEY_IPV6_DST_MASK, &[0xff; 16]);
                }
            }
            w.end(inside);
        });
        if added.is_err() && made {
            self.remove_clsact(device);
        }
        added.map(|()| made)
    }

    /// Removes the filter of a device again, and the clsact if it was made for the filter.
    fn remove(&mut self, device: &Device, index: u32, service: &Ends, made: bool) {
        let header = header(device, index, service);
        // There is one to be removed, so this does not fail.
        let _ = self.send(rtm::DELTFILTER, 0, |w| w.fixed(&header));
        if made {
            self.remove_clsact(device);
        }
    }

    /// Removes an action and the filters that have it alone.
    fn delete(&mut self, ns: &Arc<Namespace>, index: u32) -> Result<(), String> {
        let is_it = |action: &ActionReport| (action.kind, action.index) == (KIND, index);
        let mut doomed = Vec::new();
        for device in ns.all_devices() {
            let (_, filters) = weir_tc::report::device(&device.tc);
            let its = filters
                .into_iter()
                .filter(|filter| filter.actions.iter().any(is_it));
            for filter in its {
                let parent = match filter.hook.as_str() {
                    "ingress" if filter.actions.len() == 1 => INGRESS,
                    "egress" if filter.actions.len() == 1 => EGRESS,
                    // Before anything is removed.
                    _ => {
                        return Err(format!(
                            "the filter with pref {} of {} does more than balance; remove it first",
                            filter.prio,
                            device.name()
                        ));
                    }
                };
                let header = TcMsg {
                    ifindex: device.ifindex() as i32,
                    parent,
                    handle: filter.handle,
                    info: TcMsg::make_info(filter.prio, filter.protocol),
                    ..TcMsg::default()
                };
                doomed.push((header, filter.kind, filter.chain));
            }
        }
        for (header, kind, chain) in doomed {
            // A block that devices share has lost it with the first of them.
            self.send_unless(rtm::DELTFILTER, 0, errno::ENOENT, |w| {
                w.fixed(&header);
                w.put_str(tca::KIND, kind);
                w.put_u32(tca::CHAIN, chain);
            })?;
        }
        // It went with the last filter, unless it had been made without one.
        self.send_unless(rtm::DELACTION, 0, errno::ENOENT, |w| {
            w.fixed(&TcaMsg::default());
            let list = w.nest(root::TAB);
            let first = w.nest(1);
            w.put_str(act::KIND, KIND);
            w.put_u32(act::INDEX, index);
            w.end(first);
            w.end(list);
        })?;
        Ok(())
    }

    fn remove_clsact(&mut self, device: &Device) {
        let _ = self.send(rtm::DELQDISC, 0, |w| w.fixed(&clsact(device)));
    }
}

fn clsact(device: &Device) -> TcMsg {
    TcMsg {
        ifindex: device.ifindex() as i32,
        handle: 0xffff_0000,
        parent: 0xffff_fff1,
        ..TcMsg::default()
    }
}

fn protocol(service: &Ends) -> u16 {
    match service.family {
        Family::V4 => 0x0800,
        Family::V6 => 0x86dd,
    }
}

fn header(device: &Device, index: u32, service: &Ends) -> TcMsg {
    TcMsg {
        ifindex: device.ifindex() as i32,
        parent: INGRESS,
        info: TcMsg::make_info((PREFERENCE + index) as u16, protocol(service)),
        ..TcMsg::default()
    }
}

/// Returns the sentence of an error, or the system's text for its number.
fn sentence(error: weir_netlink::Error) -> String {
    match error.message {
        Some(text) => text.into_owned(),
        None => std::io::Error::from_raw_os_error(error.errno).to_string(),
    }
}
