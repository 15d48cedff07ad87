// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stack as seen by traffic control (weir-tc): devices, and namespaces as the host of requests.

use std::sync::Arc;

use weir_sync::rcu::Guard;
use weir_tc::psample::Hearers;
use weir_tc::qdisc::{Drops, find_ops};
use weir_tc::{Env, Host};

use crate::device::Device;
use crate::drops::Place;
use crate::layers::{Event, Hears, Module, NamespaceEvent, Site};
use crate::namespace::Namespace;
use crate::stack::Stack;
use crate::sysctl::tree;

/// A namespace as the host of traffic control requests.
struct NsHost<'a> {
    stack: &'a Stack,
    ns: &'a Namespace,
    guard: &'a Guard,
}

impl Host for NsHost<'_> {
    fn device(&self, ifindex: u32) -> Option<Arc<dyn weir_tc::Device>> {
        let device = self.ns.device(ifindex, self.guard)?;
        Some(device.clone())
    }

    fn device_ref(&self, ifindex: u32) -> Option<&dyn weir_tc::Device> {
        Some(&**self.ns.device(ifindex, self.guard)?)
    }

    fn device_by_name(&self, name: &str) -> Option<Arc<dyn weir_tc::Device>> {
        let device = self.ns.device_by_name(name)?;
        Some(device)
    }

    fn next_device(&self, after: u32) -> Option<Arc<dyn weir_tc::Device>> {
        let links = self.ns.links();
        let (_, device) = links.by_index.above(&after)?;
        Some(device.clone())
    }

    fn listening(&self, group: u32) -> bool {
        self.ns.subscribers.anybody(group)
    }

    fn notify(&self, group: u32, message: &[u8], except: Option<u32>) {
        self.ns.subscribers.notify(group, message, except);
    }

    fn now(&self) -> u64 {
        self.stack.clock.now()
    }

    fn default_qdisc(&self) -> &'static str {
        let kept = self.ns.global.kept.lock();
        let name = kept.get(tree::DEFAULT_QDISC);
        let ops = name.and_then(|name| find_ops(name.as_bytes()));
        ops.map_or("pfifo_fast", |ops| ops.kind)
    }

    fn epoch(&self) -> u64 {
        self.stack.clock.epoch_ns()
    }

    fn generic(&self) -> Arc<dyn Hearers> {
        self.ns.generic.clone()
    }
}

/// Runs `work` with traffic control's view of a namespace.
pub fn with_env<R>(
    stack: &Stack,
    ns: &Namespace,
    guard: &Guard,
    work: impl FnOnce(&Env<'_>) -> R,
) -> R {
    let host = NsHost { stack, ns, guard };
    work(&Env::new(&host, &ns.tc, guard))
}

/// Qdiscs and filters follow devices and namespaces.
pub static MODULE: Module = Module {
    device_event: Some(Hears::of(
        &[Event::Activated, Event::Deactivated, Event::Detached],
        device_event,
    )),
    namespace_event: Some(namespace_event),
    ..Module::NONE
};

fn device_event(site: &Site<'_>, event: Event) {
    let Site {
        stack,
        guard,
        ns,
        device,
    } = *site;
    match event {
        Event::Activated => device_up(stack, guard, ns, device),
        Event::Deactivated => device_down(stack, guard, device),
        Event::Detached => device_gone(stack, guard, ns, device),
        _ => {}
    }
}

fn namespace_event(stack: &Stack, ns: &Arc<Namespace>, event: NamespaceEvent) {
    if event == NamespaceEvent::Emptied {
        with_env(stack, ns, &stack.domain.pin(), |env| ns.tc.shutdown(env));
    }
}

/// Attaches the default qdisc to a device that came up, unless it has a qdisc.
pub fn device_up(stack: &Stack, guard: &Guard, ns: &Namespace, device: &Arc<Device>) {
    let tc: Arc<dyn weir_tc::Device> = device.clone();
    with_env(stack, ns, guard, |env| device.tc.activate(&tc, env));
    if device.has_wire() {
        crate::datapath::restart(stack, device);
    }
}

/// Drops the queued packets of a device that went down. From then on, nothing is queued.
pub fn device_down(stack: &Stack, guard: &Guard, device: &Device) {
    end(stack, device, device.tc.deactivate(guard));
    crate::datapath::rearm_all(stack, device, guard);
}

fn end(stack: &Stack, device: &Device, waited: Drops) {
    for (packet, reason) in waited {
        device.count_drop(Place::Qdisc, reason);
        stack.trace.end(&packet);
    }
}

/// Removes the qdiscs and filters of a device that leaves the namespace, and releases it from
/// actions.
pub fn device_gone(stack: &Stack, guard: &Guard, ns: &Namespace, device: &Device) {
    let waited = with_env(stack, ns, guard, |env| device.tc.shutdown(env));
    end(stack, device, waited);
    ns.tc.device_gone(u64::from(device.key.0));
}
