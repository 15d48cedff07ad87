// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table through which a stack reaches the floors above the core: the stages of its data path, and its
//! modules.
//!
//! The core imports nothing of those floors. A stack is made with one [`Layers`]
//! ([`Stack::new`](crate::stack::Stack::new)), and reaches what is above through it, as Linux does through
//! `dev_add_pack`, `register_pernet_subsys` and `register_netdevice_notifier`. The modules are called in the
//! order of the list, lower floors first, so every listener is notified in the same order.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use weir_netlink::{Attr, Error};
use weir_packet::Batch;
use weir_sync::rcu::{Domain, Guard};

use crate::cpu::Cx;
use crate::device::Device;
use crate::kind::NewLink;
use crate::namespace::{Namespace, NsId};
use crate::parts::{DeviceParts, NamespaceParts, StackParts};
use crate::request::Ctl;
use crate::stack::{Shared, Stack};
use crate::steer::Point;

/// The floors of a stack above the core.
pub struct Layers {
    /// The order of the data path.
    pub path: Path,
    /// The modules, lower floors first.
    pub modules: &'static [&'static Module],
    /// Request handling for links, used by kinds that create a second device.
    pub links: LinkRequests,
    /// Returns what a new namespace takes over.
    pub inherit: Inherit,
}

/// Returns what a new namespace takes over from the initial namespace, or from the one that creates it, by
/// `net.core.devconf_inherit_init_net`; `None` if all of it has its defaults. It is called when the namespace is
/// created, which may be long before it is filled. The last argument returns what an earlier namespace took
/// over, which may serve again.
pub type Inherit = fn(
    &Stack,
    initial: &Namespace,
    creator: NsId,
    last: &dyn Fn() -> Option<Arc<Inherited>>,
) -> Option<Arc<Inherited>>;

/// What a new namespace takes over. Many namespaces share one.
pub struct Inherited {
    /// Sysctls that are stored; see [`Namespace::kept`].
    pub kept: BTreeMap<String, String>,
    /// The state of the module that sets up settings.
    pub settings: Box<dyn Any + Send + Sync>,
}

/// Continues with a batch from or to a device, and leaves the batch empty. A batch is half a kilobyte, which would be
/// copied at every stage if it were passed by value.
pub type Step = fn(&mut Cx<'_>, &Arc<Device>, &mut Batch);

/// The stages at which a queued frame, or a frame sent by a lower floor, enters the data path.
pub struct Path {
    /// Receives frames of a device; they begin with an Ethernet header.
    pub receive: Step,
    /// Starts after the steering, with the observers.
    pub steered: Step,
    /// Starts at the ingress filters.
    pub redirected: Step,
    /// Starts after the ingress filters.
    pub resume: Step,
    /// Starts at layer 3, after the handler of received frames ([`RxHandler`](crate::wire::RxHandler)).
    pub unhandled: Step,
    /// Sends frames by a device; they begin with a link-layer header.
    pub transmit: Step,
    /// Runs the qdisc of a transmit queue that has more to send.
    pub run_queue: fn(&mut Cx<'_>, &Arc<Device>, u16),
    /// Resets the device: room at all transmit queues, and no frame in flight.
    pub restart: fn(&Shared, &Device),
}

impl Path {
    /// Returns the stage at which steered packets go on.
    #[inline]
    pub fn of(&self, point: Point) -> Step {
        match point {
            Point::Arrived => self.steered,
            Point::Redirected => self.redirected,
            Point::Resumed => self.resume,
        }
    }
}

/// Hears of an event of a device.
pub type HearDevice = fn(&Site<'_>, Event);

/// Calls a function with each device that is deleted together with a device, or with the namespace.
pub type Above = fn(&Namespace, Option<&Device>, &Guard, &mut dyn FnMut(Arc<Device>));

/// A part of the stack above the core. Every hook is optional.
pub struct Module {
    /// Fills the module's places in a new stack.
    pub stack: Option<fn(&mut StackParts)>,
    /// Fills the module's places in a new namespace.
    pub namespace: Option<fn(&mut NamespaceParts, &NewNamespace<'_>)>,
    /// Fills the module's places in a new device, which begins with these `IFF_*` flags.
    pub device: Option<fn(&mut DeviceParts, &Domain, &Namespace, u32)>,
    /// The protocols that the module receives (`dev_add_pack`).
    pub packet_types: &'static [PacketType],
    /// Called for the events of a device that it names (`register_netdevice_notifier`).
    pub device_event: Option<Hears>,
    /// Called for every event of a namespace (`register_pernet_subsys`).
    pub namespace_event: Option<fn(&Stack, &Arc<Namespace>, NamespaceEvent)>,
    /// Finds the devices that depend on another: those of a namespace on top of a device, or all whose
    /// underlay is the namespace.
    pub above: Option<Above>,
}

/// The events of a device that a module hears, and its function. A router has ninety events while it is made and
/// deleted, of which most modules need a few.
#[derive(Clone, Copy)]
pub struct Hears {
    /// [`Event::bit`] of each.
    events: u32,
    hear: HearDevice,
}

impl Hears {
    /// Has `hear` called for the events of these kinds. What an event carries does not count.
    pub const fn of(events: &[Event], hear: HearDevice) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < events.len() {
            bits |= events[at].bit();
            at += 1;
        }
        Self { events: bits, hear }
    }
}

/// The functions of all modules by the kind of event that they hear, each in the order of the modules.
pub(crate) struct Hearers([Box<[HearDevice]>; u32::BITS as usize]);

impl Hearers {
    pub(crate) fn of(modules: &[&Module]) -> Self {
        let all = || modules.iter().filter_map(|module| module.device_event);
        Self(std::array::from_fn(|number| {
            let hears = |hears: &Hears| hears.events >> number & 1 != 0;
            all().filter(hears).map(|hears| hears.hear).collect()
        }))
    }
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

/// A registered network protocol (`struct packet_type`).
#[derive(Clone, Copy)]
pub struct PacketType {
    /// `ETH_P_*`
    pub protocol: u16,
    /// Receives packets of one device. Their network offset is set.
    pub receive: Step,
}

/// The context in which a module sets up a new namespace.
pub struct NewNamespace<'a> {
    /// The stack's RCU domain.
    pub domain: &'a Domain,
    /// The seed of the namespace's random generators.
    pub seed: u64,
    /// What the namespace takes over, from [`Layers::inherit`].
    pub inherited: Option<&'a Inherited>,
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

    /// Notifies the modules of an event of the device, in their order (`call_netdevice_notifiers`).
    pub fn notify(&self, event: Event) {
        let hearers = &self.stack.device_hearers.0;
        for hear in &hearers[event.bit().trailing_zeros() as usize] {
            hear(self, event);
        }
    }
}

/// An event of a device (`enum netdev_cmd`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The device entered a namespace's tables (`NETDEV_REGISTER`).
    Entered,
    /// The device may send: it is up and has a carrier (`dev_activate`).
    Activated,
    /// The device stopped sending (`dev_deactivate`).
    Deactivated,
    /// The device went up (`NETDEV_UP`).
    Up,
    /// The device went down (`NETDEV_DOWN`).
    Down,
    /// The carrier changed (`NETDEV_CHANGE`).
    Carrier,
    /// The carrier or the operational state changed, and listeners have been told: devices on top take it over.
    Operstate,
    /// A flag, the group, the alias or a similar property changed (`NETDEV_CHANGE`).
    State,
    /// The name changed (`NETDEV_CHANGENAME`).
    Renamed,
    /// The device joins or leaves a VRF, and still has the routes of its old table (`NETDEV_CHANGEUPPER`).
    L3Master,
    /// The link-layer address changed (`NETDEV_CHANGEADDR`).
    Address,
    /// Another port of a bond is the active one (`NETDEV_BONDING_FAILOVER`).
    Failover,
    /// The neighbours are to learn where the device's addresses are now (`NETDEV_NOTIFY_PEERS`).
    NotifyPeers,
    /// The MTU changed (`NETDEV_CHANGEMTU`).
    Mtu {
        /// The previous MTU in bytes.
        before: u32,
    },
    /// The features changed (`NETDEV_FEAT_CHANGE`).
    Features,
    /// The device leaves the namespace. Protocols remove their state from it (`NETDEV_UNREGISTER`).
    Gone,
    /// Protocols have removed their state. Rules and qdiscs remove theirs.
    Detached,
    /// Listeners must be sent the device's current state (`rtmsg_ifinfo`).
    Changed {
        /// `RTM_NEWLINK` or `RTM_DELLINK`
        ty: u16,
        /// `ifi_change`
        change: u32,
    },
    /// Listeners must be told that the device moves to another namespace (`rtmsg_ifinfo_newnet`).
    Moves {
        /// The nsid of the new namespace, as seen from the old one.
        nsid: i32,
        /// The device's index in the new namespace.
        ifindex: u32,
    },
}

impl Event {
    /// Returns a bit that stands for the kind of event.
    const fn bit(self) -> u32 {
        1 << match self {
            Self::Entered => 0,
            Self::Activated => 1,
            Self::Deactivated => 2,
            Self::Up => 3,
            Self::Down => 4,
            Self::Carrier => 5,
            Self::Operstate => 6,
            Self::State => 7,
            Self::Renamed => 8,
            Self::L3Master => 9,
            Self::Address => 10,
            Self::Failover => 11,
            Self::NotifyPeers => 12,
            Self::Mtu { .. } => 13,
            Self::Features => 14,
            Self::Gone => 15,
            Self::Detached => 16,
            Self::Changed { .. } => 17,
            Self::Moves { .. } => 18,
        }
    }
}

/// An event of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceEvent {
    /// The namespace was made and is in no table yet (`pernet_operations.init`).
    Made,
    /// The namespace is being deleted and still has its devices (`pernet_operations.pre_exit`).
    Closing,
    /// The namespace's devices are deleted (`pernet_operations.exit`).
    Emptied,
}

/// The functions of control that serve requests for links.
pub struct LinkRequests {
    /// Parses the request for a second device, `ifinfomsg` and attributes, nested in the request for the
    /// first (`rtnl_nla_parse_ifinfomsg`).
    pub parse_peer: for<'a> fn(
        &mut Ctl<'_>,
        &NewLink<'a>,
        Attr<'a>,
        &'static str,
    ) -> Result<NewLink<'a>, Error>,
    /// Applies a new device's flags and notifies the listeners (`rtnl_configure_link`).
    pub configure: fn(&mut Ctl<'_>, &Arc<Device>, &NewLink<'_>) -> Result<(), Error>,
}
