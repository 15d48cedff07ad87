// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The floors above the core, as a stack is told of them: the way of its packets, and its modules.
//!
//! The core imports nothing of them. A stack is made with one [`Layers`]
//! ([`Stack::new`](crate::stack::Stack::new)), and reaches what is above through it, as Linux does through
//! `dev_add_pack`, `register_pernet_subsys` and `register_netdevice_notifier`. The modules are called in the
//! order of the list, lower floors first, so that listeners hear of everything in one order.

use std::sync::Arc;

use weir_netlink::{Attr, Error};
use weir_packet::Batch;
use weir_sync::rcu::{Domain, Guard};

use crate::cpu::Cx;
use crate::device::Device;
use crate::kind::NewLink;
use crate::namespace::Namespace;
use crate::parts::Parts;
use crate::request::Ctl;
use crate::stack::{Shared, Stack};

/// What a stack is made of above the core.
pub struct Layers {
    /// The order of the data path.
    pub path: Path,
    /// The modules, lower floors first.
    pub modules: &'static [&'static Module],
    /// Requests for links, for kinds that make a second one.
    pub links: LinkRequests,
}

/// Takes a batch on from or to a device.
pub type Step = fn(&mut Cx<'_>, &Arc<Device>, Batch);

/// Where the data path goes on for frames that waited, or that a lower floor sends.
pub struct Path {
    /// Frames that begin with an Ethernet header, received by a device.
    pub receive: Step,
    /// From the ingress filters on.
    pub redirected: Step,
    /// Behind the ingress filters.
    pub resume: Step,
    /// Frames that begin with a link-layer header, to be sent by a device.
    pub transmit: Step,
    /// The qdisc at a transmit queue has more to send.
    pub run_queue: fn(&mut Cx<'_>, &Arc<Device>, u16),
    /// The device has room at all transmit queues, and nothing is on its way.
    pub restart: fn(&Shared, &Device),
}

/// Finds the devices that go with one device of a namespace, or with the namespace.
pub type Above = fn(&Namespace, Option<&Device>, &Guard) -> Vec<Arc<Device>>;

/// A part of the stack above the core. Each hook may be left out.
pub struct Module {
    /// Fills the module's places in a new stack.
    pub stack: Option<fn(&mut Parts)>,
    /// Fills the module's places in a new namespace.
    pub namespace: Option<fn(&mut Parts, &NewNamespace<'_>)>,
    /// Fills the module's places in a new device.
    pub device: Option<fn(&mut Parts, &Domain, &Namespace)>,
    /// The protocols the module receives (`dev_add_pack`).
    pub packet_types: &'static [PacketType],
    /// Is called for every event of a device (`register_netdevice_notifier`).
    pub device_event: Option<fn(&Site<'_>, Event)>,
    /// Is called for every event of a namespace (`register_pernet_subsys`).
    pub namespace_event: Option<fn(&Stack, &Arc<Namespace>, NamespaceEvent)>,
    /// The devices that go with another: those of a namespace that stand on a device, or all that have the
    /// namespace for their underlay.
    pub above: Option<Above>,
}

impl Module {
    /// A module without hooks.
    pub const NONE: Self = Self {
        stack: None,
        namespace: None,
        device: None,
        packet_types: &[],
        device_event: None,
        namespace_event: None,
        above: None,
    };
}

/// The number of protocols that may be registered.
pub const PROTOCOLS: usize = 4;

/// A network protocol (`struct packet_type`).
#[derive(Clone, Copy)]
pub struct PacketType {
    /// `ETH_P_*`
    pub protocol: u16,
    /// Receives packets of one device, whose network header is known.
    pub receive: Step,
}

/// What a module knows of a namespace that is being made.
pub struct NewNamespace<'a> {
    /// The stack's RCU domain.
    pub domain: &'a Domain,
    /// Seeds the namespace's generators.
    pub seed: u64,
}

/// A device in its namespace.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The stack.
    pub stack: &'a Stack,
    /// The RCU guard.
    pub guard: &'a Guard,
    /// The namespace.
    pub ns: &'a Arc<Namespace>,
    /// The device.
    pub device: &'a Arc<Device>,
}

impl<'a> Site<'a> {
    /// Creates the context of a device in a namespace.
    pub fn new(
        stack: &'a Stack,
        guard: &'a Guard,
        ns: &'a Arc<Namespace>,
        device: &'a Arc<Device>,
    ) -> Self {
        Self {
            stack,
            guard,
            ns,
            device,
        }
    }

    /// Tells the modules what happens to the device, in their order (`call_netdevice_notifiers`).
    pub fn notify(&self, event: Event) {
        for module in self.stack.layers.modules {
            if let Some(hear) = module.device_event {
                hear(self, event);
            }
        }
    }
}

/// What happens to a device (`enum netdev_cmd`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It is in a namespace's tables (`NETDEV_REGISTER`).
    Entered,
    /// It may send: it is up and has a carrier (`dev_activate`).
    Activated,
    /// It sends no more (`dev_deactivate`).
    Deactivated,
    /// It is up (`NETDEV_UP`).
    Up,
    /// It is down (`NETDEV_DOWN`).
    Down,
    /// Its carrier came or went (`NETDEV_CHANGE`).
    Carrier,
    /// It has another name (`NETDEV_CHANGENAME`).
    Renamed,
    /// It has another link-layer address (`NETDEV_CHANGEADDR`).
    Address,
    /// It has another MTU (`NETDEV_CHANGEMTU`).
    Mtu {
        /// Octets before.
        before: u32,
    },
    /// It leaves the namespace: protocols take away what they have on it (`NETDEV_UNREGISTER`).
    Gone,
    /// Protocols have let go of it; rules and qdiscs do now.
    Detached,
    /// Listeners are to be told what it is like (`rtmsg_ifinfo`).
    Changed {
        /// `RTM_NEWLINK` or `RTM_DELLINK`
        ty: u16,
        /// `ifi_change`
        change: u32,
    },
    /// Listeners are to be told that it goes to another namespace (`rtmsg_ifinfo_newnet`).
    Moves {
        /// The namespace, as the one it leaves calls it.
        nsid: i32,
        /// The index it is to have there.
        ifindex: u32,
    },
}

/// What happens to a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceEvent {
    /// It is made, and in no table yet (`pernet_operations.init`).
    Made,
    /// It is going, and its devices are still there (`pernet_operations.pre_exit`).
    Closing,
    /// Its devices are gone (`pernet_operations.exit`).
    Emptied,
}

/// Requests for links, as control serves them.
pub struct LinkRequests {
    /// Reads the request for a second device: `ifinfomsg` and attributes inside another's
    /// (`rtnl_nla_parse_ifinfomsg`).
    pub parse_peer: for<'a> fn(
        &mut Ctl<'_>,
        &NewLink<'a>,
        Attr<'a>,
        &'static str,
    ) -> Result<NewLink<'a>, Error>,
    /// Applies a new device's flags and tells of it (`rtnl_configure_link`).
    pub configure: fn(&mut Ctl<'_>, &Arc<Device>, &NewLink<'_>) -> Result<(), Error>,
}
