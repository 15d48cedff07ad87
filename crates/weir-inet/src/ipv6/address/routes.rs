// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The routes that come and go with the addresses of a device, and with the device.

use std::net::Ipv6Addr;
use std::sync::Arc;

use super::super::facts::Facts;
use super::{Address, News, Work};
use crate::addresses::Changes;
use crate::device::Device;
use crate::fib::address::{multicast6, prefix6};
use crate::fib::host::WithRoutes;
use crate::fib::route::{Event, RouteConfig};

impl Work<'_, '_> {
    /// Adds a route. As in Linux, it is not an error if the route exists or cannot be added.
    pub(super) fn add_route(&mut self, config: &RouteConfig<u128>) {
        let (site, mut events) = (self.site, self.take_route_events());
        let fib = &site.ns.fib().v6;
        let _ = fib.add(config, &site.host(), site.guard, &mut events);
        self.routes(events);
    }

    pub(super) fn remove_route(&mut self, config: &RouteConfig<u128>) {
        let (site, mut events) = (self.site, self.take_route_events());
        let _ = site.ns.fib().v6.delete(config, site.guard, &mut events);
        self.routes(events);
    }

    /// Takes the events of routes that nothing else has followed yet: further ones are told with them.
    fn take_route_events(&mut self) -> Vec<Event<u128, Arc<Device>>> {
        match self.news.pop() {
            Some(News::Routes(events)) => events,
            other => {
                self.news.extend(other);
                Vec::new()
            }
        }
    }

    pub(super) fn routes(&mut self, events: Vec<Event<u128, Arc<Device>>>) {
        if !events.is_empty() {
            self.news.push(News::Routes(events));
        }
    }

    /// Adds the prefix route of an address (`addrconf_prefix_route`).
    pub(super) fn add_prefix_route(&mut self, address: &Address) {
        let config = prefix6(
            address.network(),
            address.prefix_len,
            self.site.device,
            address.metric,
            address.expires(),
        );
        self.add_route(&config);
    }

    pub(super) fn remove_prefix_route(&mut self, prefix: Ipv6Addr, prefix_len: u8) {
        let mut config = prefix6(prefix, prefix_len, self.site.device, 0, None);
        config.priority = 0;
        self.remove_route(&config);
    }

    /// Renews the memberships (`ipv6_find_idev`) and adds the multicast route (`addrconf_add_dev`).
    pub(super) fn add_multicast_route(&mut self) {
        self.renew_groups();
        if !self.site.is_loopback() && !self.site.device.is_l3_master() {
            self.add_route(&multicast6(self.site.device));
        }
    }
}
