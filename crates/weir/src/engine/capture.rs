// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Live captures: write the frames of a device, in both directions, to a client's standard output.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde_json::{Value, json};
use weir_packet::bpf::Program;
use weir_port::pcap::{Format, Writer};
use weir_port::{Direction as Way, Sink};
use weir_stack::device::{Device, Direction, Observer, Tap};

use super::Engine;
use crate::playback::frame_of;

struct State {
    writer: Writer,
    interface: u32,
    left: Option<u64>,
    ended: bool,
    error: Option<String>,
}

/// One capture.
struct Live {
    /// Held while a frame is written.
    state: Mutex<State>,
    epoch_ns: u64,
    process: u32,
    /// The frames it writes; `None` for all.
    filter: Option<Program>,
}

impl Live {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Live {
    fn frame(&self, tap: &Tap<'_>) {
        let mut state = self.state();
        if state.ended {
            return;
        }
        let mut frame = frame_of(
            tap.packet,
            self.epoch_ns + tap.time,
            state.interface,
            tap.note,
        );
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| !filter.matches(&frame.data))
        {
            return;
        }
        frame.direction = if tap.direction == Direction::Rx {
            Way::In
        } else {
            Way::Out
        };
        let written = state
            .writer
            .write(&frame)
            .and_then(|()| state.writer.flush());
        if let Err(error) = written {
            // A reader that closed the pipe ends a capture normally.
            state.error = (!error.is_broken_pipe()).then(|| error.to_string());
            state.ended = true;
        }
        if let Some(left) = &mut state.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                state.ended = true;
            }
        }
    }
}

/// A capture, the observer registered at the device, and the device.
type Running = (Arc<Live>, Arc<dyn Observer>, Arc<Device>);

/// Returns a process's standard output. It is the descriptor itself if the kernel grants access to
/// it (the process descends from this one, or this one runs as root), otherwise the file behind it,
/// if this user may open it.
fn output_of(process: u32) -> std::io::Result<File> {
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

/// The captures of a stack.
#[derive(Default)]
pub struct Captures {
    last: u64,
    live: BTreeMap<u64, Running>,
}

impl Captures {
    /// Starts a capture for a process, on its standard output. `files` holds that descriptor; if it
    /// is empty, the descriptor is taken from the process.
    pub fn start(
        &mut self,
        engine: &Engine,
        command: &Value,
        files: Vec<OwnedFd>,
    ) -> Result<Value, String> {
        self.reap(engine);
        let name = command["device"]
            .as_str()
            .ok_or("the command names no device")?;
        let netns = command["netns"].as_str();
        let process = command["process"]
            .as_u64()
            .and_then(|pid| u32::try_from(pid).ok())
            .ok_or("the command names no process")?;
        let ns = engine
            .namespace(netns)
            .ok_or_else(|| format!("there is no namespace {}", netns.unwrap_or_default()))?;
        let device = ns
            .device_by_name(name)
            .ok_or_else(|| format!("there is no device {name}"))?;
        let filter = command["program"].as_str().map(Program::parse).transpose();
        let filter = filter.map_err(|error| error.to_string())?;
        let output = match files.into_iter().next() {
            Some(output) => output.into(),
            None => output_of(process)
                .map_err(|error| format!("standard output of process {process}: {error}"))?,
        };
        let format = Format {
            classic: false,
            gzip: false,
        };
        let mut writer =
            Writer::new("standard output", format, output).map_err(|error| error.to_string())?;
        let interface = writer.interface(name).map_err(|error| error.to_string())?;
        writer.flush().map_err(|error| error.to_string())?;
        let state = State {
            writer,
            interface,
            left: command["count"].as_u64(),
            ended: false,
            error: None,
        };
        let live = Arc::new(Live {
            state: Mutex::new(state),
            epoch_ns: engine.stack.clock.epoch_ns(),
            process,
            filter,
        });
        let observer: Arc<dyn Observer> = live.clone();
        device.observe(&engine.stack.domain.pin(), observer.clone());
        self.last += 1;
        self.live.insert(self.last, (live, observer, device));
        Ok(json!({ "id": self.last }))
    }

    /// Returns whether a capture has ended. Reporting the end also removes the capture.
    pub fn look(&mut self, engine: &Engine, command: &Value) -> Value {
        let id = command["id"].as_u64().unwrap_or(0);
        let answer = match self.live.get(&id) {
            None => return json!({ "ended": true }),
            Some((live, _, device)) => {
                let state = live.state();
                json!({ "ended": state.ended || !device.is_registered(), "error": state.error })
            }
        };
        if answer["ended"] == true {
            self.remove(engine, id);
        }
        answer
    }

    fn remove(&mut self, engine: &Engine, id: u64) {
        if let Some((_, observer, device)) = self.live.remove(&id) {
            device.unobserve(&engine.stack.domain.pin(), &observer);
        }
    }

    /// Ends the captures of processes that are gone.
    pub fn reap(&mut self, engine: &Engine) {
        let gone = |live: &Live| !std::path::Path::new(&format!("/proc/{}", live.process)).exists();
        let ids: Vec<_> = self
            .live
            .iter()
            .filter(|(_, (live, _, _))| gone(live))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.remove(engine, id);
        }
    }
}
