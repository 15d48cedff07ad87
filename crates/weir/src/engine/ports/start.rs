// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports of the command line, and ports under virtual time.
//!
//! `weir run --port` and `weir up --port` open the files of all ports before anything runs. A port is attached when a
//! client has created its device, before the client gets its answer. Under virtual time one timer per port receives the
//! frames that are due, as long as the port is attached.

use super::*;
use crate::cli::{DeviceName, DevicePort};
use crate::playback::Played;
use weir_port::Summary;
use weir_stack::Stack;
use weir_stack::clock::Holds;

/// A port of the command line and its open files.
pub struct Opened {
    device: DeviceName,
    kind: &'static Kind,
    keys: Keys,
    files: Vec<OwnedFd>,
}

/// Opens the files of ports.
pub fn open(ports: &[DevicePort]) -> Result<Vec<Opened>, String> {
    let open = |port: &DevicePort| {
        let files = (port.kind.open)(&port.keys);
        Ok(Opened {
            device: port.device.clone(),
            kind: port.kind,
            keys: port.keys.clone(),
            files: files.map_err(|error| format!("--port {}: {error}", port.device))?,
        })
    };
    ports.iter().map(open).collect()
}

/// The message for a kind that virtual time does not serve.
pub fn refusal(kind: &Kind) -> String {
    format!(
        "a {} port has a live outside, which virtual time cannot wait for; use it with a stack of `weir up`",
        kind.name
    )
}

impl Ports {
    /// Attaches ports as soon as their devices exist.
    pub(in crate::engine) fn expect(&self, ports: Vec<Opened>) {
        lock(&self.waiting).extend(ports);
    }

    /// Returns the devices that ports of the command line wait for.
    pub fn missing(&self) -> Vec<String> {
        let waiting = lock(&self.waiting);
        waiting.iter().map(|port| port.device.to_string()).collect()
    }

    /// Attaches the ports of the command line whose devices now exist.
    pub(in crate::engine) fn look(&self, engine: &Engine) {
        let device = |name: &DeviceName| {
            engine
                .namespace(name.netns.as_deref())?
                .device_by_name(&name.device)
        };
        let mut found = Vec::new();
        {
            let mut waiting = lock(&self.waiting);
            for port in std::mem::take(&mut *waiting) {
                match device(&port.device) {
                    Some(device) => found.push((device, port)),
                    None => waiting.push(port),
                }
            }
        }
        for (device, port) in found {
            let name = port.device.to_string();
            let wanted = Wanted {
                device,
                name: name.clone(),
                kind: port.kind,
                keys: &port.keys,
                role: None,
                busy: false,
                files: port.files,
                life: None,
            };
            if let Err(error) = self.attach(engine, wanted) {
                let error = format!("--port {name}: {error}");
                eprintln!("weir: {error}");
                lock(&self.finished).errors.push(error);
            }
        }
    }

    /// Notes the frames of a port that was detached, and its error.
    pub(super) fn account(&self, port: &Attached) {
        let closed = port.port.close();
        let mut finished = lock(&self.finished);
        let error = match (port.error.get(), closed) {
            (Some(error), _) => Some(error.clone()),
            (None, Err(error)) => Some(error.to_string()),
            (None, Ok(())) => None,
        };
        if port.pollers.is_some() {
            if let (None, Some(error)) = (port.error.get(), error) {
                eprintln!("weir: port {}: {error}", port.name);
            }
            return;
        }
        finished.errors.extend(error);
        let Ok(name) = port.name.parse::<DeviceName>() else {
            return;
        };
        let kind = port.port.kind();
        let counters = port.port.counters();
        let file = |key: &str| port.keys.get(key).map(str::to_owned);
        if let Some(file) = file("file").or_else(|| (kind == "generator").then(|| port.keys.own()))
        {
            let played = Played {
                frames: port.rx.packets.load(Relaxed),
                octets: port.rx.bytes.load(Relaxed),
                lost: counters.rx_errors.load(Relaxed) + counters.rx_dropped.load(Relaxed),
            };
            finished.inputs.push((name.clone(), file, played));
        }
        if let Some(file) = file("out") {
            let summary = Summary {
                frames: port.tx.packets.load(Relaxed),
                bytes: port.tx.bytes.load(Relaxed),
                lost: counters.tx_errors.load(Relaxed),
            };
            finished.outputs.push((name, file, summary));
        }
    }

    /// Adds the frames and errors of the ports to those of a run.
    pub(in crate::engine) fn finish(&self, all: &mut Finished) {
        let mut finished = std::mem::take(&mut *lock(&self.finished));
        all.inputs.append(&mut finished.inputs);
        all.outputs.append(&mut finished.outputs);
        all.errors.append(&mut finished.errors);
    }
}

/// Receives the frames of a port when they are due, under virtual time.
pub(super) fn drive(stack: &Stack, port: &Arc<Attached>) {
    let is_over = |port: &Attached| {
        port.is_over() || port.detached.load(Acquire) || !port.device.is_registered()
    };
    if is_over(port) {
        return;
    }
    let Some(due) = port.port.due() else { return };
    let weak = Arc::downgrade(port);
    let arrive = move |cx: &mut Cx<'_>| {
        if let Some(port) = weak.upgrade().filter(|port| !is_over(port)) {
            receive(cx, &port, 0);
            drive(cx.stack, &port);
        }
    };
    stack.arm(due.max(stack.clock.now()), Holds::Packet, Box::new(arrive));
}
