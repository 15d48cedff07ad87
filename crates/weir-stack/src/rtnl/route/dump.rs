// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dumps of routing tables (`inet_dump_fib`, `inet6_dump_fib`, `ip_valid_fib_dump_req`).

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use weir_netlink::{Error, RtMsg, Strictness, Writer, af, errno, rta, rtm};

use weir_sync::rcu::Guard;

use super::{fill, parse};
use crate::device::Device;
use crate::fib::host::WithRoutes;
use crate::fib::route::Route;
use crate::fib::table::{Cursor, Table};
use crate::fib::{Address, Family};
use crate::rtnl::{Ctl, Dump, DumpCtl};

/// The filter of a dump request (`struct fib_dump_filter`).
#[derive(Debug, Default, Clone, Copy)]
struct Filter {
    table: u32,
    protocol: u8,
    kind: u8,
    oif: u32,
    flags: u32,
}

impl Filter {
    fn is_set(&self) -> bool {
        self.table != 0 || self.protocol != 0 || self.kind != 0 || self.oif != 0 || self.flags != 0
    }

    fn takes<K>(&self, route: &Route<K, Arc<Device>>, guard: &Guard) -> bool {
        let spec = &route.info.spec;
        let by = |info: &crate::fib::route::RouteInfo<_>| {
            info.paths(guard).iter().any(|hop| hop.oif == self.oif)
        };
        (self.kind == 0 || self.kind == spec.kind)
            && (self.protocol == 0 || self.protocol == spec.protocol)
            && (self.oif == 0 || by(&route.info) || route.siblings.iter().any(|info| by(info)))
    }
}

/// Starts a dump of one family, or of both if the family is unspecified.
pub fn start(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    Ok(match prepare(ctl) {
        Ok(dump) => Box::new(dump),
        // Linux reports an invalid dump request at the end of the dump.
        Err(error) => Box::new(Failed(Some(error))),
    })
}

/// A dump that ends with an error.
struct Failed(Option<Error>);

impl Dump for Failed {
    fn fill(&mut self, _ctl: &DumpCtl<'_>, _out: &mut Writer) -> Result<bool, Error> {
        self.0.take().map_or(Ok(true), Err)
    }
}

fn prepare(ctl: &Ctl<'_>) -> Result<RouteDump, Error> {
    let family = crate::rtnl::dumped_family(ctl);
    let mut filter = Filter::default();
    if ctl.strict {
        filter = strict_filter(ctl)?;
    } else if let Ok(header) = ctl.message.fixed::<RtMsg>() {
        filter.flags = header.flags & (rtm::f::PREFIX | rtm::f::CLONED);
    }
    let multicast = ctl.message.family() == Some(af::IPMR);
    let fib = &ctl.ns.fib();
    let mut dump = RouteDump {
        v4: Tables::default(),
        v6: Tables::default(),
        filter,
        filtered: ctl.strict && (filter.is_set() || family == af::INET6),
    };
    // There are no cached routes, none created by router advertisements, and no multicast routes, as in Linux
    // without a daemon (`ipmr_rtm_dumproute`).
    if multicast || filter.flags & (rtm::f::CLONED | rtm::f::PREFIX) != 0 {
        return Ok(dump);
    }
    if family == af::INET || family == af::UNSPEC {
        let missing = "ipv4: FIB table does not exist";
        dump.v4 = Tables::of(&fib.v4, ctl, filter.table, family, missing)?;
    }
    if family == af::INET6 || family == af::UNSPEC {
        let missing = "ipv6: FIB table does not exist";
        dump.v6 = Tables::of(&fib.v6, ctl, filter.table, family, missing)?;
    }
    Ok(dump)
}

/// Validates a strict dump request (`ip_valid_fib_dump_req`).
fn strict_filter(ctl: &Ctl<'_>) -> Result<Filter, Error> {
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

/// The tables still to be dumped, and the position in the first one.
struct Tables<K: Address> {
    left: VecDeque<Arc<Table<K, Arc<Device>>>>,
    cursor: Cursor<K>,
    /// The number of routes of the next prefix that have already been dumped.
    shown: usize,
}

impl<K: Address> Default for Tables<K> {
    fn default() -> Self {
        Self {
            left: VecDeque::new(),
            cursor: None,
            shown: 0,
        }
    }
}

impl<K: Address> Tables<K> {
    fn of(
        family: &Family<K, Arc<Device>>,
        ctl: &Ctl<'_>,
        table: u32,
        asked: u8,
        missing: &'static str,
    ) -> Result<Self, Error> {
        let left = if table == 0 {
            family.tables(ctl.guard).cloned().collect()
        } else {
            match family.table(table, ctl.guard) {
                Some(table) => [table.clone()].into(),
                None if asked == af::UNSPEC => VecDeque::new(),
                None => return Err(Error::msg(errno::ENOENT, missing)),
            }
        };
        Ok(Self {
            left,
            ..Self::default()
        })
    }

    /// Writes up to `most` routes. Returns `false` if the datagram is full.
    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer, filter: &Filter, most: usize) -> bool {
        let look = fill::Look::new(ctl.stack, ctl.ns, ctl.guard);
        let mut room = most;
        while let Some(table) = self.left.front().cloned() {
            let (cursor, shown) = (&mut self.cursor, &mut self.shown);
            let done = table.dump(*cursor, ctl.guard, |dst, len, leaf| {
                let routes = table.routes_of(dst, len, leaf);
                for (index, route) in routes.iter().enumerate().skip(*shown) {
                    if filter.takes(route, ctl.guard) {
                        if room == 0
                            || !ctl.message(out, rtm::NEWROUTE, |out| fill::route(out, route, look))
                        {
                            *shown = index;
                            return ControlFlow::Break(());
                        }
                        room -= 1;
                    }
                }
                *cursor = Some((dst, len));
                *shown = 0;
                ControlFlow::Continue(())
            });
            if done.is_break() {
                return false;
            }
            self.left.pop_front();
            self.cursor = None;
            self.shown = 0;
        }
        true
    }
}

struct RouteDump {
    v4: Tables<u32>,
    v6: Tables<u128>,
    filter: Filter,
    filtered: bool,
}

impl RouteDump {
    fn some(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer, most: usize) -> bool {
        self.v4.fill(ctl, out, &self.filter, most) && self.v6.fill(ctl, out, &self.filter, most)
    }
}

impl Dump for RouteDump {
    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        let done = self.some(ctl, out, usize::MAX);
        if !done && out.is_empty() {
            return Err(Error::new(errno::EMSGSIZE));
        }
        Ok(done)
    }

    fn fill_one(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        let done = self.some(ctl, out, 1);
        if !done && out.is_empty() {
            // There are more next hops than fit an attribute; retrying would never end.
            return Err(Error::new(errno::EMSGSIZE));
        }
        Ok(done)
    }

    fn generation(&self, ctl: &DumpCtl<'_>) -> u32 {
        let fib = &ctl.ns.fib();
        fib.v4.generation().wrapping_add(fib.v6.generation())
    }

    fn is_filtered(&self) -> bool {
        self.filtered
    }
}
