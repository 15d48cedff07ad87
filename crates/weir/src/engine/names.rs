// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of devices for captures: `dev` or `netns/dev`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock, Weak};

use weir_stack::device::{Device, DeviceKey};
use weir_sync::rcu::Guard;

use super::{Engine, lock};
use crate::report;

/// How a capture describes a device.
#[derive(Clone)]
pub struct Named {
    /// `dev` or `netns/dev`.
    pub name: String,
    /// `LINKTYPE_*`
    pub link_type: u16,
}

/// Names the devices of an engine, which may be made later than this.
#[derive(Default)]
pub struct Namer {
    engine: OnceLock<Weak<Engine>>,
    /// The devices seen while somebody wants to know them, gone ones included.
    seen: Mutex<(u32, BTreeMap<DeviceKey, Named>)>,
    /// How many want to know them.
    wanted: AtomicUsize,
}

impl Namer {
    /// Sets the engine, once.
    pub fn set(&self, engine: Weak<Engine>) {
        // The first one stays.
        let _ = self.engine.set(engine);
    }

    /// Returns a device's name. Takes no lock but that of the device's names, so it may be called
    /// on the data path.
    pub fn of(&self, device: &Device, guard: &Guard) -> String {
        let engine = self.engine.get().and_then(Weak::upgrade);
        let prefix = engine.map(|engine| report::prefix(&engine, device.namespace(guard).id));
        prefix.unwrap_or_default() + &device.name()
    }

    fn named(&self, device: &Device, guard: &Guard) -> Named {
        Named {
            name: self.of(device, guard),
            link_type: device.framing().link_type(),
        }
    }

    /// Begins or ends to note new devices.
    pub fn want(&self, wanted: bool) {
        match wanted {
            true => self.wanted.fetch_add(1, Relaxed),
            false => self.wanted.fetch_sub(1, Relaxed),
        };
    }

    /// Notes the devices that have come since the last call, if somebody wants to know them. Called
    /// after each request.
    pub fn look(&self, engine: &Engine) {
        if self.wanted.load(Relaxed) == 0 {
            return;
        }
        let last = engine.stack.devices_made();
        let guard = engine.stack.domain.pin();
        let mut seen = lock(&self.seen);
        for key in seen.0 + 1..=last {
            if let Some(device) = engine.stack.device(DeviceKey(key), &guard) {
                seen.1.insert(device.key, self.named(device, &guard));
            }
        }
        seen.0 = seen.0.max(last);
    }

    /// Returns the present names of all devices, and the last ones of devices that are gone.
    pub fn all(&self, engine: &Engine) -> BTreeMap<DeviceKey, Named> {
        let guard = engine.stack.domain.pin();
        let namespaces = engine.stack.all_namespaces().into_iter();
        let devices = namespaces.flat_map(|ns| ns.all_devices());
        let present = devices.map(|device| (device.key, self.named(&device, &guard)));
        let present: Vec<_> = present.collect();
        let last = engine.stack.devices_made();
        let mut seen = lock(&self.seen);
        seen.1.extend(present);
        seen.0 = seen.0.max(last);
        seen.1.clone()
    }
}
