// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filters of dumps of routes (`ip_valid_fib_dump_req`).

use std::sync::Arc;

use weir_netlink::{Error, RtMsg, Strictness, errno, rta, rtm};
use weir_sync::rcu::Guard;

use super::parse;
use crate::device::Device;
use crate::fib::route::Route;
use crate::rtnl::Ctl;

/// The filter of a dump request (`struct fib_dump_filter`).
#[derive(Debug, Default, Clone, Copy)]
pub struct Filter {
    /// What routes must have, or 0.
    pub table: u32,
    /// What routes must have, or 0.
    pub protocol: u8,
    /// What routes must have, or 0.
    pub kind: u8,
    /// What routes must have, or 0.
    pub oif: u32,
    /// What routes must have, or 0.
    pub flags: u32,
}

impl Filter {
    /// Returns whether anything is asked for.
    pub fn is_set(&self) -> bool {
        self.table != 0 || self.protocol != 0 || self.kind != 0 || self.oif != 0 || self.flags != 0
    }

    /// Returns whether a route has it.
    pub fn takes<K>(&self, route: &Route<K, Arc<Device>>, guard: &Guard) -> bool {
        let spec = &route.info.spec;
        let by = |info: &crate::fib::route::RouteInfo<_>| {
            info.paths(guard).iter().any(|hop| hop.oif == self.oif)
        };
        (self.kind == 0 || self.kind == spec.kind)
            && (self.protocol == 0 || self.protocol == spec.protocol)
            && (self.oif == 0 || by(&route.info) || route.siblings.iter().any(|info| by(info)))
    }
}

/// Validates a strict dump request (`ip_valid_fib_dump_req`).
pub fn strict_filter(ctl: &Ctl<'_>) -> Result<Filter, Error> {
    let invalid = |text| Err(Error::msg(errno::EINVAL, text));
    let message = ctl.message;
    let Ok(header) = message.fixed::<RtMsg>() else {
        return invalid("Invalid header for FIB dump request");
    };
    if header.dst_len != 0 || header.src_len != 0 || header.tos != 0 || header.scope != 0 {
        return invalid("Invalid values in header for FIB dump request");
    }
    if header.flags & !(rtm::f::CLONED | rtm::f::PREFIX) != 0 {
        return invalid("Invalid flags for FIB dump request");
    }
    let (header, attrs) = message.parse::<RtMsg>(&parse::POLICY4, Strictness::DeprecatedStrict)?;
    let mut filter = Filter {
        table: u32::from(header.table),
        protocol: header.protocol,
        kind: header.ty,
        oif: 0,
        flags: header.flags,
    };
    for ty in attrs.types() {
        match ty {
            rta::TABLE => filter.table = attrs.u32(ty)?.unwrap_or(0),
            rta::OIF => {
                filter.oif = attrs.u32(ty)?.unwrap_or(0);
                if ctl.ns.device(filter.oif, ctl.guard).is_none() {
                    return Err(Error::new(errno::ENODEV));
                }
            }
            _ => return invalid("Unsupported attribute in dump request"),
        }
    }
    Ok(filter)
}
