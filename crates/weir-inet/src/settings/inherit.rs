// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings with which a new namespace begins, by `net.core.devconf_inherit_init_net` (`devinet_init_net`,
//! `addrconf_init_net`).
//!
//! | value | `net.ipv4.conf.{all,default}` from | `net.ipv6.conf.{all,default}` from |
//! |---|---|---|
//! | 0, the default | the initial namespace | the kernel's defaults |
//! | 1 | the initial namespace | the initial namespace |
//! | 2 | the kernel's defaults | the kernel's defaults |
//! | 3 | the namespace of the process that creates it | the same |
//!
//! `autoconf` and `disable_ipv6` of `net.ipv6.conf.default`, and `stable_secret`, always have the kernel's defaults.
//!
//! The values are those at the creation, while a namespace is filled when it is first used. A copy is kept
//! until then only if something differs from the defaults. Namespaces that take over the same values share it.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use super::{AllConf, DeviceConf, Ipv6Conf, NamespaceConf, WithSettings};
use crate::conf::{Core, Slot};
use crate::layers::{Inherited, NewNamespace};
use crate::namespace::{Namespace, NsId};
use crate::stack::Stack;

/// The values that a namespace takes over.
struct Taken {
    all: AllConf,
    default: DeviceConf,
}

impl Taken {
    fn equals(&self, other: &Self) -> bool {
        self.all.ipv4.equals(&other.all.ipv4)
            && self.all.ipv6.equals(&other.all.ipv6)
            && self.default.ipv4.equals(&other.default.ipv4)
            && self.default.ipv6.equals(&other.default.ipv6)
    }
}

/// Makes the settings of a new namespace.
pub(super) fn begin(new: &NewNamespace<'_>) -> NamespaceConf {
    let conf = NamespaceConf::default();
    let taken = new.inherited.and_then(|from| from.settings.downcast_ref());
    if let Some(Taken { all, default }) = taken {
        conf.all.ipv4.copy(&all.ipv4);
        conf.all.ipv6.copy(&all.ipv6);
        conf.default.ipv4.copy(&default.ipv4);
        conf.default.ipv6.copy(&default.ipv6);
    }
    conf
}

/// The families that are taken over.
#[derive(Clone, Copy)]
struct Families {
    ipv4: bool,
    ipv6: bool,
}

impl Families {
    /// The directories of the settings that are only stored.
    fn directories(self) -> impl Iterator<Item = &'static str> {
        let ipv4 = ["ipv4/conf/all/", "ipv4/conf/default/"];
        let ipv6 = ["ipv6/conf/all/", "ipv6/conf/default/"];
        let ipv4 = ipv4.into_iter().filter(move |_| self.ipv4);
        ipv4.chain(ipv6.into_iter().filter(move |_| self.ipv6))
    }

    /// Returns the stored settings of a namespace that are taken over.
    fn kept(self, from: &Namespace) -> BTreeMap<String, String> {
        let kept = from.kept.lock();
        if kept.is_empty() {
            return BTreeMap::new();
        }
        let of = |directory: &'static str| {
            let rest = kept.range::<str, _>((Included(directory), Unbounded));
            rest.take_while(move |(path, _)| path.starts_with(directory))
        };
        let all = self.directories().flat_map(of);
        all.map(|(path, value)| (path.clone(), value.clone()))
            .collect()
    }
}

/// [`Layers::inherit`](crate::layers::Layers::inherit)
pub fn inherit(
    stack: &Stack,
    initial: &Namespace,
    creator: NsId,
    last: &dyn Fn() -> Option<Arc<Inherited>>,
) -> Option<Arc<Inherited>> {
    let mode = initial.global.core.get(Core::DevconfInheritInitNet);
    let families = Families {
        ipv4: mode != 2,
        ipv6: mode == 1 || mode == 3,
    };
    match mode {
        2 => None,
        3 if creator != Stack::INITIAL => take(&*stack.namespace(creator)?, families, last),
        _ => take(initial, families, last),
    }
}

/// Copies what differs from the defaults.
fn take(
    from: &Namespace,
    families: Families,
    last: &dyn Fn() -> Option<Arc<Inherited>>,
) -> Option<Arc<Inherited>> {
    let conf = from.conf();
    let kept = families.kept(from);
    let ipv4 = !conf.all.ipv4.is_default() || !conf.default.ipv4.is_default();
    let ipv6 = !conf.all.ipv6.is_default() || !conf.default.ipv6.is_default();
    if kept.is_empty() && !(families.ipv4 && ipv4) && !(families.ipv6 && ipv6) {
        return None;
    }
    let taken = Taken {
        all: AllConf::default(),
        default: DeviceConf::default(),
    };
    if families.ipv4 {
        taken.all.ipv4.copy(&conf.all.ipv4);
        taken.default.ipv4.copy(&conf.default.ipv4);
    }
    if families.ipv6 {
        taken.all.ipv6.copy(&conf.all.ipv6);
        let default = &taken.default.ipv6;
        default.copy(&conf.default.ipv6);
        for slot in [Ipv6Conf::Autoconf, Ipv6Conf::DisableIpv6] {
            default.set(slot, Ipv6Conf::DEFAULTS[Slot::index(slot)]);
        }
    }
    let same = |last: &Arc<Inherited>| {
        let settings = last.settings.downcast_ref::<Taken>();
        last.kept == kept && settings.is_some_and(|settings| settings.equals(&taken))
    };
    if let Some(last) = last().filter(same) {
        return Some(last);
    }
    Some(Arc::new(Inherited {
        kept,
        settings: Box::new(taken),
    }))
}
