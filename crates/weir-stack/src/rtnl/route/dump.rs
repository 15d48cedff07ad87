// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dumps of routing tables (`inet_dump_fib`, `inet6_dump_fib`, `ip_valid_fib_dump_req`).

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use weir_netlink::{Error, RtMsg, Writer, af, errno, rtm};

use super::fill;
use super::filter::{Filter, strict_filter};
use crate::device::Device;
use crate::fib::exception::Exception;
use crate::fib::host::WithRoutes;
use crate::fib::route::RouteInfo;
use crate::fib::table::{Cursor, Table};
use crate::fib::{Address, Family};
use crate::ipv4::multicast::V4;
use crate::ipv6::multicast::V6;
use crate::rtnl::{Ctl, Dump, DumpCtl, Refused};

/// Starts a dump of one family, or of both if the family is unspecified.
pub fn start(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    if ctl.message.family() == Some(af::MPLS) {
        return super::mpls::dump(ctl).or_else(|error| Ok(Box::new(Refused(Some(error)))));
    }
    Ok(match prepare(ctl) {
        Ok(dump) => Box::new(dump),
        // Linux reports an invalid dump request at the end of the dump.
        Err(error) => Box::new(Refused(Some(error))),
    })
}

fn prepare(ctl: &Ctl<'_>) -> Result<RouteDump, Error> {
    let family = crate::rtnl::dumped_family(ctl);
    let mut filter = Filter::default();
    if ctl.strict {
        filter = strict_filter(ctl)?;
    } else if let Ok(header) = ctl.message.fixed::<RtMsg>() {
        filter.flags = header.flags & (rtm::f::PREFIX | rtm::f::CLONED);
    }
    let multicast = match ctl.message.family() {
        Some(af::IPMR) => Some(super::multicast::dump::<V4>(ctl, &filter, true)),
        Some(af::IP6MR) => Some(super::multicast::dump::<V6>(ctl, &filter, true)),
        _ => None,
    };
    let fib = &ctl.ns.fib();
    let mut dump = RouteDump {
        v4: Tables::default(),
        v6: Tables::default(),
        more: Vec::new(),
        cached: VecDeque::new(),
        filter,
        filtered: ctl.strict && (filter.is_set() || family == af::INET6),
    };
    if let Some(multicast) = multicast {
        dump.more.push(multicast);
        dump.filtered = ctl.strict && filter.is_set();
        return Ok(dump);
    }
    // There are no routes created by router advertisements alone.
    if filter.flags & rtm::f::PREFIX != 0 {
        return Ok(dump);
    }
    if filter.flags & rtm::f::CLONED != 0 {
        dump.cached(ctl, family);
        return Ok(dump);
    }
    if family == af::INET || family == af::UNSPEC {
        let missing = "ipv4: FIB table does not exist";
        dump.v4 = Tables::of(&fib.v4, ctl, filter.table, family, missing)?;
    }
    if ctl.message.family() == Some(af::UNSPEC) {
        dump.more = vec![
            super::mpls::dump(ctl)?,
            super::multicast::dump::<V4>(ctl, &filter, false),
            super::multicast::dump::<V6>(ctl, &filter, false),
        ];
    }
    if family == af::INET6 || family == af::UNSPEC {
        let missing = "ipv6: FIB table does not exist";
        dump.v6 = Tables::of(&fib.v6, ctl, filter.table, family, missing)?;
    }
    Ok(dump)
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
    /// What follows: routes of labels, multicast routes.
    more: Vec<Box<dyn Dump>>,
    /// Exceptions, if they are asked for (`ip route show cache`).
    cached: VecDeque<Cached>,
    filter: Filter,
    filtered: bool,
}

/// An exception to be dumped.
enum Cached {
    V4(Arc<Exception<u32, Arc<Device>>>),
    V6(Arc<Exception<u128, Arc<Device>>>),
}

impl RouteDump {
    /// Collects the exceptions of a family, or of both.
    fn cached(&mut self, ctl: &Ctl<'_>, family: u8) {
        let (fib, all, asked) = (ctl.ns.fib(), family == af::UNSPEC, self.filter);
        let fits = |table: u32, oif: u32, info: Option<Arc<RouteInfo<_>>>| {
            let spec = info.as_ref().map(|info| &info.spec);
            (asked.table == 0 || asked.table == table)
                && (asked.oif == 0 || asked.oif == oif)
                && (asked.kind == 0 || spec.is_some_and(|spec| spec.kind == asked.kind))
                && (asked.protocol == 0 || spec.is_some_and(|spec| spec.protocol == asked.protocol))
        };
        if all || family == af::INET {
            let list = fib.v4.exceptions.all().into_iter();
            let shown = list.filter(|one| one.is_used() && fits(one.table, one.oif(), one.route()));
            self.cached.extend(shown.map(Cached::V4));
        }
        if all || family == af::INET6 {
            let list = fib.v6.exceptions.all().into_iter();
            let shown = list.filter(|one| fits(one.table, one.oif(), one.route()));
            self.cached.extend(shown.map(Cached::V6));
        }
    }

    /// Writes up to `most` exceptions. Returns `false` if the datagram is full.
    fn fill_cached(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer, most: usize) -> bool {
        let look = fill::Look::new(ctl.stack, ctl.ns, ctl.guard);
        let mut room = most;
        while let Some(cached) = self.cached.front() {
            let written = room > 0
                && match cached {
                    Cached::V4(one) => one.route().is_none_or(|info| {
                        ctl.message(out, rtm::NEWROUTE, |out| {
                            fill::exception4(out, one, &info, look);
                        })
                    }),
                    Cached::V6(one) => one.route().is_none_or(|info| {
                        ctl.message(out, rtm::NEWROUTE, |out| {
                            fill::exception6(out, one, &info, look)
                        })
                    }),
                };
            if !written {
                return false;
            }
            room -= 1;
            self.cached.pop_front();
        }
        true
    }

    /// Continues with what follows.
    fn rest(
        &mut self,
        mut fill: impl FnMut(&mut dyn Dump) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        while let Some(next) = self.more.first_mut() {
            if !fill(&mut **next)? {
                return Ok(false);
            }
            self.more.remove(0);
        }
        Ok(true)
    }

    fn some(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer, most: usize) -> bool {
        self.fill_cached(ctl, out, most)
            && self.v4.fill(ctl, out, &self.filter, most)
            && self.v6.fill(ctl, out, &self.filter, most)
    }
}

impl Dump for RouteDump {
    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        let done = self.some(ctl, out, usize::MAX);
        if done {
            return self.rest(|dump| dump.fill(ctl, out));
        }
        if !done && out.is_empty() {
            return Err(Error::new(errno::EMSGSIZE));
        }
        Ok(done)
    }

    fn fill_one(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        let done = self.some(ctl, out, 1);
        if done {
            return self.rest(|dump| dump.fill_one(ctl, out));
        }
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
