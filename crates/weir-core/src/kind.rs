// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface of a link kind: how devices of the kind are made ([`Kind`], `struct rtnl_link_ops`), and the
//! kind's part of a device ([`Link`], `struct net_device_ops`).

use std::net::IpAddr;
use std::sync::Arc;

use weir_netlink::ifla::arphrd;
use weir_netlink::{Attr, Error, LinkStats64, NdMsg, Table, Writer, errno};
use weir_packet::Batch;
use weir_packet::tunnel::Tunnel;
use weir_sync::rcu::Guard;

use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::ethtool::{Driver, LinkSettings};
use crate::features::Offer;
use crate::namespace::{Namespace, NsId};
use crate::request::Ctl;
use crate::stack::Stack;

/// The operations on devices of a kind.
pub struct Kind {
    /// `IFLA_INFO_KIND`
    pub name: &'static str,
    /// The name pattern for requests that give no name (`dummy%d`).
    pub pattern: &'static str,
    /// Creates and registers the device or devices (`rtnl_link_ops.newlink`) and returns the
    /// requested one. `Err` holds the reason why requests cannot create this kind.
    pub create: Result<Create, &'static str>,
    /// Checks the attributes of a request for this kind before it is known whether the device exists
    /// (`rtnl_link_ops.validate`).
    pub validate: Option<Validate>,
}

/// Checks the attributes of a request; see [`Kind::validate`].
pub type Validate = fn(&Table<'_>) -> Result<(), Error>;

/// Creates a device of a kind; see [`Kind::create`].
pub type Create = fn(&mut Ctl<'_>, NewLink<'_>) -> Result<Arc<Device>, Error>;

/// The attributes of a device on a bus.
pub struct Port {
    /// `IFLA_PARENT_DEV_BUS_NAME`
    pub bus: &'static str,
    /// `IFLA_PARENT_DEV_NAME`
    pub parent: String,
    /// `IFLA_PHYS_PORT_NAME`
    pub name: String,
    /// `IFLA_PHYS_SWITCH_ID`
    pub switch: [u8; 32],
}

/// The validated common part of a request for a new link. Kinds parse their own part.
pub struct NewLink<'a> {
    /// The namespace of the new device.
    pub ns: Arc<Namespace>,
    /// The name, or a pattern with `%d`.
    pub name: String,
    /// The requested index, or 0 for the next free one.
    pub ifindex: u32,
    /// `IFLA_MTU`
    pub mtu: Option<u32>,
    /// `IFLA_ADDRESS`
    pub address: Option<Mac>,
    /// `IFLA_BROADCAST`
    pub broadcast: Option<Mac>,
    /// `IFLA_TXQLEN`
    pub txqlen: Option<u32>,
    /// `IFLA_GROUP`
    pub group: Option<u32>,
    /// `IFLA_NUM_TX_QUEUES` and `IFLA_NUM_RX_QUEUES`; most kinds have 1 by default.
    pub queues: (Option<u32>, Option<u32>),
    /// `IFLA_LINK`, an index in the namespace `link_ns`.
    pub link: Option<u32>,
    /// The namespace in which `IFLA_LINK` is looked up (`IFLA_LINK_NETNSID`, else the socket's
    /// namespace).
    pub link_ns: Arc<Namespace>,
    /// `ifi_flags` and `ifi_change`
    pub flags: (u32, u32),
    /// `IFLA_INFO_DATA`
    pub data: Option<Attr<'a>>,
}

/// The origin of the interface identifier of a device's IPv6 link-local address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceId {
    /// The EUI-64 of the Ethernet address.
    Ethernet,
    /// Chosen by the kind.
    Fixed(u64),
    /// Drawn at random, since the device has no address (`ARPHRD_NONE`).
    Random,
    /// None: the device gets no link-local address.
    None,
}

/// Checks whether a device can have an Ethernet address (`is_valid_ether_addr`).
///
/// # Errors
/// EADDRNOTAVAIL for the address of a group and for zeros.
pub fn check_mac(mac: &Mac) -> Result<(), Error> {
    match mac[0] & 1 != 0 || mac == &[0; 6] {
        true => Err(Error::new(errno::EADDRNOTAVAIL)),
        false => Ok(()),
    }
}

/// The kind-specific part of a device (`struct net_device_ops`).
pub trait Link: Send + Sync {
    /// Returns `IFLA_INFO_KIND`. It is empty for devices that requests cannot create.
    fn kind(&self) -> &'static str;

    /// Returns `ARPHRD_*`.
    fn hardware_type(&self) -> u16 {
        arphrd::ETHER
    }

    /// Returns whether the device's frames begin with a network header: they have no link-layer header, and no
    /// neighbours are resolved (`header_ops` is not set). Asked once, when the device is made.
    fn is_bare(&self) -> bool {
        false
    }

    /// Returns the link-layer address and the broadcast address of a device whose addresses are not Ethernet's
    /// (`dev_addr`, `broadcast`), at most 16 bytes each.
    fn hardware_addresses(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        None
    }

    /// Returns the permanent address of a device that has one beside its link-layer address (`perm_addr`), as long as
    /// that.
    fn permanent_address(&self) -> Option<Vec<u8>> {
        None
    }

    /// Returns where the interface identifier of the device's IPv6 link-local address comes from
    /// (`ipv6_generate_eui64`).
    fn interface_id(&self) -> InterfaceId {
        InterfaceId::Ethernet
    }

    /// Returns whether the device gets a route to IPv6 groups when it goes up (`addrconf_add_mroute`).
    fn has_group_route(&self) -> bool {
        true
    }

    /// Returns the metadata by which packets to a next hop tell a bare device where it is, if the device sends by that
    /// (`netif_keep_dst`).
    fn next_hop(&self, _guard: &Guard, _next_hop: IpAddr) -> Option<Arc<Tunnel>> {
        None
    }

    /// Returns whether a request may delete the device. If not, a request to delete it has no effect.
    fn may_be_deleted(&self) -> bool {
        true
    }

    /// Returns the smallest and the largest MTU in bytes (`min_mtu`, `max_mtu`). A maximum of 0
    /// means no limit.
    fn mtu_bounds(&self) -> (u32, u32) {
        (68, 65_535)
    }

    /// Checks a new Ethernet address. Weir does not distinguish devices with and without
    /// `IFF_LIVE_ADDR_CHANGE`.
    fn check_address(&self, mac: &Mac) -> Result<(), Error> {
        check_mac(mac)
    }

    /// Prepares the change to a new address that [`Link::check_address`] accepts (`ndo_set_mac_address`). The
    /// device has its old address.
    fn set_address(
        &self,
        _stack: &Stack,
        _guard: &Guard,
        _device: &Arc<Device>,
        _mac: &Mac,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Returns whether the device keeps its address whatever a request says, and accepts the request all the same.
    fn keeps_address(&self) -> bool {
        false
    }

    /// Prepares the change to a new MTU in bytes that [`Link::mtu_bounds`] and [`Link::check_mtu`] accept
    /// (`ndo_change_mtu`). The device has its old MTU.
    fn set_mtu(
        &self,
        _stack: &Stack,
        _guard: &Guard,
        _device: &Arc<Device>,
        _mtu: u32,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the number that distinguishes the device from others with its address (`dev_id`), or 0.
    fn device_id(&self) -> u16 {
        0
    }

    /// Returns whether the device may have a handler of received frames (not `IFF_NO_RX_HANDLER`).
    fn may_have_handler(&self) -> bool {
        true
    }

    /// Checks an IP address before the device gets it (`inetaddr_validator_chain`).
    fn check_ip(&self, _guard: &Guard, _address: IpAddr) -> Result<(), Error> {
        Ok(())
    }

    /// Called when the IP addresses of the device have changed (`inetaddr_chain`), under their lock.
    fn ips_changed(&self, _guard: &Guard, _device: &Device) {}

    /// Returns `IFLA_TSO_MAX_SIZE` in bytes (`netif_set_tso_max_size`).
    fn tso_max_size(&self) -> u32 {
        65_536
    }

    /// Returns the reported speed in units of 10^6 bits per second (`get_link_ksettings`).
    fn speed(&self) -> Option<u32> {
        None
    }

    /// Returns the features of a new device.
    fn features(&self) -> Offer {
        Offer::default()
    }

    /// Removes features that the device cannot have at present (`ndo_fix_features`).
    fn fix_features(&self, features: u64) -> u64 {
        features
    }

    /// Returns whether frames that the device receives may be merged (GRO): it polls its frames
    /// (`napi_gro_receive`).
    fn polls(&self) -> bool {
        true
    }

    /// Returns whether the device takes long packets as they are, if its features allow them. Otherwise they are
    /// split before they get to it.
    fn takes_long_packets(&self) -> bool {
        true
    }

    /// Describes the driver to `ethtool` (`ethtool_ops`).
    fn driver(&self) -> Driver {
        Driver::default()
    }

    /// Returns the settings of the link (`get_link_ksettings`).
    fn link_settings(&self) -> Option<LinkSettings> {
        None
    }

    /// Returns the driver's own counters by name (`get_strings`, `get_ethtool_stats`).
    fn driver_stats(&self, _device: &Device) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// Returns whether the driver has a hook for traffic control offload (`ndo_setup_tc`). It
    /// refuses all offloads.
    fn has_offload_hook(&self) -> bool {
        false
    }

    /// Returns whether the device starts without a queue (`IFF_NO_QUEUE`).
    fn no_queue(&self) -> bool {
        true
    }

    /// Checks an MTU in ways that the bounds cannot express.
    fn check_mtu(&self, _mtu: u32) -> Result<(), Error> {
        Ok(())
    }

    /// Called before the device goes up (`ndo_open`).
    fn open(&self, _stack: &Stack, _guard: &Guard, _device: &Arc<Device>) -> Result<(), Error> {
        Ok(())
    }

    /// Called before the device goes up, and when its lower device got another address while it was up: a
    /// device that has its lower device's address takes over the new one (`vlan_dev_inherit_address`).
    fn inherit_address(&self, _stack: &Stack, _guard: &Guard, _device: &Arc<Device>) {}

    /// Returns whether the device goes up and down with its lower device.
    fn follows_lower(&self) -> bool {
        true
    }

    /// Maps the priority of a VLAN tag to a packet priority on ingress
    /// (`vlan_get_ingress_priority`).
    fn ingress_priority(&self, _pcp: u8) -> u32 {
        0
    }

    /// Called after the device has been unregistered.
    fn removed(&self, _stack: &Stack, _device: &Arc<Device>) {}

    /// Sets the carrier on request (`ndo_change_carrier`).
    fn set_carrier(
        &self,
        _ctl: &mut Ctl<'_>,
        _device: &Arc<Device>,
        _on: bool,
    ) -> Result<(), Error> {
        Err(Error::new(errno::EOPNOTSUPP))
    }

    /// Returns whether there is a carrier.
    fn carrier(&self, _stack: &Stack, device: &Device) -> bool {
        let _ = device;
        true
    }

    /// Returns whether the kind reports changes of its carrier. The operational state of devices that never
    /// do is unknown.
    fn reports_carrier(&self) -> bool {
        false
    }

    /// Sends frames (`ndo_start_xmit`). The device is up; observers have seen the frames, and they are
    /// counted.
    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch);

    /// Returns whether the kind counts received and sent frames itself, because its frames are
    /// extracted from or put into other packets.
    fn counts_itself(&self) -> bool {
        false
    }

    /// Adds the counters that the kind keeps in addition to [`crate::device::LinkStats`].
    fn add_stats(&self, _stats: &mut LinkStats64) {}

    /// Returns the namespace the device leads to, if that can differ from its own
    /// (`rtnl_link_ops.get_link_net`).
    fn link_namespace(&self) -> Option<NsId> {
        None
    }

    /// Returns the forwarding table, if the device has one.
    fn fdb(&self) -> Option<&dyn Fdb> {
        None
    }

    /// Returns the kind's own part of the device to the kind's module, if it asks for it.
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }

    /// Returns whether the device is a VRF (`IFF_L3MDEV_MASTER`).
    fn is_l3_master(&self) -> bool {
        false
    }

    /// Returns the operations on ports, if the device can have ports (`ndo_add_slave`).
    fn master(&self) -> Option<&dyn Master> {
        None
    }

    /// Returns the operations of requests of family AF_BRIDGE, if the device is a bridge.
    fn bridging(&self) -> Option<&dyn Bridging> {
        None
    }

    /// Returns the extended statistics of the device or of a port of it: `LINK_XSTATS_TYPE_*` and the attributes in it
    /// (`rtnl_link_ops.fill_linkxstats`). Those of bridges are [`Bridging::extended_statistics`].
    fn extended_statistics(&self, _of: &Device) -> Option<(u16, Vec<u8>)> {
        None
    }

    /// Called before the device is unregistered, while it is as it was (`rtnl_link_ops.dellink`).
    fn leaves(&self, _stack: &Stack, _guard: &Guard, _device: &Arc<Device>) {}

    /// Returns the device of `IFLA_LINK` as (namespace, index), if there is one.
    fn lower(&self, _stack: &Stack) -> Option<(NsId, u32)> {
        None
    }

    /// Returns the port on a bus, if the device is on one.
    fn port(&self) -> Option<&Port> {
        None
    }

    /// Writes the contents of `IFLA_INFO_DATA`. If it writes nothing, the attribute is left out.
    fn fill_data(&self, _stack: &Stack, _out: &mut Writer) {}

    /// Applies `IFLA_INFO_DATA` to an existing device (`changelink`).
    fn change(
        &self,
        _ctl: &mut Ctl<'_>,
        _device: &Arc<Device>,
        _data: Option<Attr<'_>>,
    ) -> Result<(), Error> {
        Err(Error::new(errno::EOPNOTSUPP))
    }

    /// Returns the devices that are deleted together with this one.
    fn dependents(&self, _stack: &Stack, _device: &Device) -> Vec<Arc<Device>> {
        Vec::new()
    }

    /// Returns whether the driver has a filter for received frames, to which users may add addresses
    /// (`ndo_set_rx_mode`).
    fn has_filter(&self) -> bool {
        true
    }

    /// Returns whether the driver filters unicast addresses (`IFF_UNICAST_FLT`). Otherwise the device is
    /// promiscuous while its list of them is not empty.
    fn has_unicast_filter(&self) -> bool {
        false
    }

    /// Returns whether users may add unicast addresses to the filter (`ndo_fdb_add`).
    fn filters_unicast(&self) -> bool {
        true
    }

    /// Called when the addresses that the device accepts changed while it was up, and when it goes up
    /// or down (`ndo_set_rx_mode`); see [`crate::taken`].
    fn accepts(&self, _stack: &Stack, _guard: &Guard, _device: &Arc<Device>) {}

    /// Called when the device went up or down.
    fn changed_state(&self, _stack: &Stack, _guard: &Guard, _device: &Arc<Device>) {}

    /// Called when promiscuous or all-multicast mode is turned on or off; see
    /// [`ask_for_all`](crate::netdev::ask_for_all) (`ndo_change_rx_flags`).
    fn asks_for_all(&self, _stack: &Stack, _guard: &Guard, _flag: u32, _more: bool) {}

    /// Returns whether the device may move to another namespace.
    fn may_move(&self) -> bool {
        true
    }
}

/// The operations of a device on its ports.
pub trait Master {
    /// Makes a device a port (`ndo_add_slave`). The device has no master.
    fn add(
        &self,
        stack: &Stack,
        guard: &Guard,
        master: &Arc<Device>,
        port: &Arc<Device>,
    ) -> Result<(), Error>;

    /// Ends that a device is a port (`ndo_del_slave`).
    fn release(&self, stack: &Stack, guard: &Guard, port: &Arc<Device>) -> Result<(), Error>;

    /// Writes the contents of a port's `IFLA_INFO_SLAVE_DATA` (`fill_slave_info`).
    fn fill_port(&self, stack: &Stack, guard: &Guard, port: &Arc<Device>, out: &mut Writer);

    /// Applies `IFLA_INFO_SLAVE_DATA` to a port (`slave_changelink`).
    fn change_port(
        &self,
        ctl: &mut Ctl<'_>,
        port: &Arc<Device>,
        data: Attr<'_>,
    ) -> Result<(), Error>;
}

/// What a bridge does with requests of family AF_BRIDGE about itself and its ports.
pub trait Bridging {
    /// Writes a port, or the bridge itself: `ifinfomsg` and attributes. `mask` is `IFLA_EXT_MASK`
    /// (`ndo_bridge_getlink`).
    fn fill_link(
        &self,
        stack: &Stack,
        guard: &Guard,
        device: &Arc<Device>,
        mask: u32,
        out: &mut Writer,
    );

    /// Changes a port, or the bridge itself, by `IFLA_PROTINFO` and `IFLA_AF_SPEC` (`ndo_bridge_setlink`).
    fn set_link(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        protinfo: Option<Attr<'_>>,
        spec: Option<Attr<'_>>,
    ) -> Result<(), Error>;

    /// Takes a port, or the bridge itself, out of the VLANs of `IFLA_AF_SPEC` (`ndo_bridge_dellink`).
    fn delete_link(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        spec: Option<Attr<'_>>,
    ) -> Result<(), Error>;

    /// Returns the VLANs of a port, or of the bridge itself, as bodies of `RTM_NEWVLAN`, with their counters if
    /// `stats` (`br_vlan_dump_dev`).
    fn vlans(&self, guard: &Guard, device: &Arc<Device>, stats: bool) -> Vec<Vec<u8>>;

    /// Returns the global options of the bridge's VLANs, as bodies of `RTM_NEWVLAN`; nothing for a port.
    fn global_vlans(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) -> Vec<Vec<u8>>;

    /// Returns the entries of the forwarding database that are behind ports as `struct __fdb_entry`s, the newest
    /// first (`br_fdb_fillbuf`).
    fn brforward(&self, stack: &Stack, guard: &Guard) -> Vec<u8>;

    /// Adds, changes or deletes VLANs of a port or of the bridge itself by the attributes of `RTM_NEWVLAN` or
    /// `RTM_DELVLAN`, which is `ty` (`br_vlan_rtm_process`).
    fn process_vlans(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        attrs: &mut dyn Iterator<Item = Attr<'_>>,
        ty: u16,
    ) -> Result<(), Error>;

    /// Returns the attributes of `LINK_XSTATS_TYPE_BRIDGE` of a port or of the bridge itself, in as many parts as
    /// messages are needed (`fill_linkxstats`).
    fn extended_statistics(&self, guard: &Guard, device: &Arc<Device>) -> Vec<Vec<u8>>;
}

/// The forwarding table of a device.
pub trait Fdb {
    /// Adds an entry (`ndo_fdb_add`).
    fn add(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        message: &NdMsg,
        attrs: &Table<'_>,
        mac: Mac,
    ) -> Result<(), Error>;

    /// Deletes an entry (`ndo_fdb_del`).
    fn delete(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        attrs: &Table<'_>,
        mac: Mac,
    ) -> Result<(), Error>;

    /// Deletes all entries that the request describes (`ndo_fdb_del_bulk`).
    fn delete_many(
        &self,
        _ctl: &mut Ctl<'_>,
        _device: &Arc<Device>,
        _message: &NdMsg,
        _attrs: &Table<'_>,
    ) -> Result<(), Error> {
        Err(Error::new(errno::EOPNOTSUPP))
    }

    /// Answers with an entry (`ndo_fdb_get`).
    fn get(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        attrs: &Table<'_>,
        mac: Mac,
    ) -> Result<(), Error>;

    /// Removes an entry whose nexthop object has been deleted. `vni` is that of the entry's key. Nobody is told.
    fn lost_object(
        &self,
        _stack: &Stack,
        _guard: &Guard,
        _device: &Arc<Device>,
        _mac: Mac,
        _vni: u32,
    ) {
    }

    /// Returns all entries, each as the body of a message (`ndo_fdb_dump`).
    fn messages(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) -> Vec<Vec<u8>>;
}
