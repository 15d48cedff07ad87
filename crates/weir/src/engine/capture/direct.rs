// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture under virtual time: the stack writes the frames to the client's standard output itself.
//! A slow reader stops the clock, so no frame is lost and the output is the same on every run.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use weir_packet::tagged::Tagged;
use weir_port::pcap::{Format, Writer};
use weir_port::{Direction as Way, Sink};
use weir_stack::device::{Device, DeviceKey, Direction, Observer, Tap, Taps};
use weir_stack::drops::{DropObserver, Dropped};
use weir_sync::rcu::Guard;

use super::{Wanted, drop_comment};
use crate::engine::names::Namer;
use crate::playback::frame_of;

struct State {
    writer: Writer,
    interfaces: BTreeMap<DeviceKey, u32>,
    left: Option<u64>,
    ended: bool,
    error: Option<String>,
}

/// One capture.
pub struct Direct {
    /// Held while a frame is written.
    state: Mutex<State>,
    epoch_ns: u64,
    process: u32,
    wanted: Wanted,
    namer: Arc<Namer>,
}

/// Returns a process's standard output. It is the descriptor itself if the kernel grants access to
/// it (the process descends from this one, or this one runs as root), otherwise the file behind it,
/// if this user may open it.
pub fn output_of(process: u32) -> std::io::Result<File> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(std::io::ErrorKind::InvalidInput)?;
    let borrowed = pidfd_open(pid, PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, 1, PidfdGetfdFlags::empty()));
    match borrowed {
        Ok(output) => Ok(output.into()),
        Err(_) => OpenOptions::new()
            .append(true)
            .open(format!("/proc/{process}/fd/1")),
    }
}

impl Direct {
    /// Creates a capture of a process that ends after `count` frames.
    pub fn new(
        output: File,
        process: u32,
        (wanted, count): (Wanted, Option<u64>),
        epoch_ns: u64,
        (namer, guard): (Arc<Namer>, &Guard),
    ) -> Result<Self, String> {
        let format = Format {
            classic: false,
            gzip: false,
        };
        let mut writer =
            Writer::new("standard output", format, output).map_err(|error| error.to_string())?;
        let mut interfaces = BTreeMap::new();
        if let Some(device) = &wanted.device {
            let (name, link_type) = (namer.of(device, guard), device.framing().link_type());
            let number = writer.interface_of(&name, link_type);
            let number = number.map_err(|error| error.to_string())?;
            interfaces.insert(device.key, number);
        }
        writer.flush().map_err(|error| error.to_string())?;
        Ok(Self {
            state: Mutex::new(State {
                writer,
                interfaces,
                left: count,
                ended: false,
                error: None,
            }),
            epoch_ns,
            process,
            wanted,
            namer,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the capture has ended, and the error that ended it.
    pub fn ended(&self) -> (bool, Option<String>) {
        let state = self.state();
        (state.ended || self.wanted.is_over(), state.error.clone())
    }

    /// Returns whether the process is gone.
    pub fn is_abandoned(&self) -> bool {
        !std::path::Path::new(&format!("/proc/{}", self.process)).exists()
    }

    fn write(
        &self,
        (device, guard): (&Device, &Guard),
        time: u64,
        frame: &Tagged<'_>,
        (direction, comment): (Way, Option<&str>),
    ) {
        let mut state = self.state();
        if state.ended || !self.wanted.accepts(frame) {
            return;
        }
        let state = &mut *state;
        let number = match state.interfaces.get(&device.key) {
            Some(number) => Ok(*number),
            None => {
                let name = self.namer.of(device, guard);
                let link_type = device.framing().link_type();
                let number = state.writer.interface_of(&name, link_type);
                number.inspect(|number| {
                    state.interfaces.insert(device.key, *number);
                })
            }
        };
        let written = number.and_then(|number| {
            let mut frame = frame_of(frame, self.epoch_ns + time, number, comment);
            frame.cut(self.wanted.snap);
            frame.direction = direction;
            state.writer.write(&frame)?;
            state.writer.flush()
        });
        if let Err(error) = written {
            // A reader that closed the pipe ends a capture normally.
            state.error = (!error.is_broken_pipe()).then(|| error.to_string());
            state.ended = true;
        }
        if let Some(left) = &mut state.left {
            *left = left.saturating_sub(1);
            state.ended |= *left == 0;
        }
    }
}

impl Observer for Direct {
    /// Not called, because [`frames`](Self::frames) is.
    fn frame(&self, _: &Tap<'_>) {}

    fn frames(&self, taps: &Taps<'_>) {
        if !self.wanted.is_in(taps.device, taps.guard) {
            return;
        }
        let way = match taps.direction {
            Direction::Rx => Way::In,
            Direction::Tx => Way::Out,
        };
        for packet in taps.packets {
            let note = taps.trace.read(packet);
            let frame = Tagged::of(packet, taps.device.framing());
            let about = (way, note.as_deref());
            self.write((taps.device, taps.guard), taps.time, &frame, about);
        }
    }
}

impl DropObserver for Direct {
    fn dropped(&self, dropped: &Dropped<'_>) {
        if !self.wanted.is_in(dropped.device, dropped.guard) {
            return;
        }
        let name = self.namer.of(dropped.device, dropped.guard);
        let comment = drop_comment(&name, dropped.place.name(), dropped.reason.name());
        let frame = Tagged::whole(dropped.packet, dropped.device.framing());
        let about = (Way::Unknown, Some(&*comment));
        let at = (dropped.device, dropped.guard);
        self.write(at, dropped.time, &frame, about);
    }
}
