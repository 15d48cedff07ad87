// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The captures of a run: frames that arrive at devices at their times, and files of the frames
//! that leave. [`live`] serves stacks in real time.
//!
//! Under virtual time captures and generators begin when the clock first moves and all their
//! devices exist: the script creates them. That is time 0 of the clock, unless clients slept before
//! the devices existed. The first frame of all captures arrives then, and output time stamps are
//! that frame's time plus the clock.

mod live;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_packet::Batch;
use weir_port::generator::Generator;
use weir_port::pcap::{Reader, Writer};
use weir_port::{Frame, Sink, Source, Summary};
use weir_stack::Stack;
use weir_stack::clock::Holds;
use weir_stack::cpu::Cx;
use weir_stack::device::{Device, DeviceKey, Direction, Observer, Tap};
use weir_stack::drops::{DropObserver, Dropped};
use weir_stack::random::seed_of;

use crate::cli::{DeviceFile, DeviceGenerator, DeviceName};
use crate::engine::Engine;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Errors during the run, printed at the end, after the report.
pub type Errors = Arc<Mutex<Vec<String>>>;

/// A capture or a generator that plays into a device.
struct Input {
    reader: Box<dyn Source>,
    /// The time stamp that corresponds to the start of the inputs, and the clock's time at the
    /// start.
    zero: u64,
    begun: u64,
    frame: Frame,
    device: DeviceKey,
    played: Arc<Mutex<Played>>,
    errors: Errors,
}

/// The counters of an input's frames.
#[derive(Debug, Default, Clone, Copy)]
pub struct Played {
    /// Frames that arrived.
    pub frames: u64,
    /// The number of bytes in them.
    pub octets: u64,
    /// Frames without memory or device, and frames truncated in the capture.
    pub lost: u64,
}

/// Lets a device receive a frame, or counts a truncated frame as lost.
fn receive(cx: &mut Cx<'_>, device: DeviceKey, frame: Option<&[u8]>, played: &Mutex<Played>) {
    let device = cx.device(device).cloned();
    let packet = frame.and_then(|data| cx.stack.pool.packet(data));
    let mut played = lock(played);
    match (&device, packet) {
        (Some(device), Some(packet)) => {
            played.frames += 1;
            played.octets += u64::from(packet.len() as u32);
            let mut batch = Batch::new();
            let _ = batch.push(packet);
            drop(played);
            weir_stack::datapath::receive(cx, device, batch);
        }
        _ => played.lost += 1,
    }
}

impl Input {
    /// Plays the current frame and arms the timer of the next.
    fn arrive(mut self: Box<Self>, cx: &mut Cx<'_>) {
        let whole = self.frame.is_complete().then_some(&self.frame.data[..]);
        receive(cx, self.device, whole, &self.played);
        match self.reader.read(&mut self.frame) {
            Ok(true) => self.arm(cx.stack),
            Ok(false) => {}
            Err(error) => lock(&self.errors).push(error.to_string()),
        }
    }

    fn arm(self: Box<Self>, stack: &Stack) {
        // Time stamps in a capture may go backwards; the clock does not.
        let time = self
            .frame
            .time_ns
            .saturating_sub(self.zero)
            .saturating_add(self.begun)
            .max(stack.clock.now());
        stack.arm(time, Holds::Packet, Box::new(move |cx| self.arrive(cx)));
    }
}

/// A file of the frames that leave a device.
struct Output {
    writer: Mutex<(Writer, u32)>,
    epoch_ns: u64,
    /// Whether each frame is flushed for a reader at once.
    at_once: bool,
    errors: Errors,
}

/// Builds a frame for a file, with its accelerated VLAN tag inserted into the data.
pub fn frame_of(
    packet: &weir_packet::Packet,
    time_ns: u64,
    interface: u32,
    comment: Option<&str>,
) -> Frame {
    let data = packet.data();
    let mut bytes = Vec::with_capacity(data.len() + 4);
    match packet.vlan() {
        Some(tag) if data.len() >= 12 => {
            bytes.extend_from_slice(&data[..12]);
            bytes.extend_from_slice(&tag.proto.to_be_bytes());
            bytes.extend_from_slice(&tag.tci.to_be_bytes());
            bytes.extend_from_slice(&data[12..]);
        }
        _ => bytes.extend_from_slice(data),
    }
    let mut frame = Frame::new(time_ns, bytes);
    frame.interface = interface;
    frame.comment = comment.map(str::to_owned);
    frame
}

impl Observer for Output {
    fn frame(&self, tap: &Tap<'_>) {
        if tap.direction != Direction::Tx {
            return;
        }
        let mut writer = lock(&self.writer);
        let mut frame = frame_of(tap.packet, self.epoch_ns + tap.time, writer.1, tap.note);
        frame.direction = weir_port::Direction::Out;
        let mut written = writer.0.write(&frame);
        if self.at_once {
            written = written.and_then(|()| writer.0.flush());
        }
        if let Err(error) = written {
            lock(&self.errors).push(error.to_string());
        }
    }
}

/// The file of all dropped packets.
struct DropFile {
    state: Mutex<(Writer, BTreeMap<DeviceKey, u32>)>,
    epoch_ns: u64,
    errors: Errors,
}

impl DropObserver for DropFile {
    fn dropped(&self, dropped: &Dropped<'_>) {
        let mut state = lock(&self.state);
        let (writer, interfaces) = &mut *state;
        let interface = match interfaces.get(&dropped.device.key) {
            Some(interface) => Ok(*interface),
            None => writer.interface(&dropped.device.name()).inspect(|number| {
                interfaces.insert(dropped.device.key, *number);
            }),
        };
        let written = interface.and_then(|interface| {
            let mut comment = format!(
                "dropped: {} at {}: {}",
                dropped.reason.name(),
                dropped.place.name(),
                dropped.reason.sentence()
            );
            if let Some(note) = dropped.note {
                comment = format!("{note}; {comment}");
            }
            // Starts at the beginning of the frame if that still exists.
            let mut whole = dropped.packet.copy();
            if let Some(packet) = &mut whole {
                let _ = packet.data_to_mac();
            }
            let packet = whole.as_ref().unwrap_or(dropped.packet);
            writer.write(&frame_of(
                packet,
                self.epoch_ns + dropped.time,
                interface,
                Some(&comment),
            ))
        });
        if let Err(error) = written {
            lock(&self.errors).push(error.to_string());
        }
    }
}

/// The captures of a run; see the module documentation.
#[derive(Default)]
pub struct Playback {
    waiting: Option<Waiting>,
    live: Option<live::Waiting>,
    outputs: Vec<(DeviceName, Arc<Output>, String)>,
    inputs: Vec<(DeviceName, Arc<Mutex<Played>>, String)>,
    drops: Option<(Arc<DropFile>, String)>,
    errors: Errors,
}

/// Inputs and outputs set up before the script runs and attached when the clock first moves.
struct Waiting {
    inputs: Vec<(DeviceName, Reader, Frame)>,
    generators: Vec<DeviceGenerator>,
    outputs: Vec<DeviceName>,
}

/// The results of a run's captures and ports.
#[derive(Default)]
pub struct Finished {
    /// Device, file, counters of the arrived frames.
    pub inputs: Vec<(DeviceName, String, Played)>,
    /// Device, file, counters of the written frames.
    pub outputs: Vec<(DeviceName, String, Summary)>,
    /// The errors.
    pub errors: Vec<String>,
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Playback {
    /// Opens all files before anything runs, and sets the clock's epoch.
    pub fn open(
        stack: &Stack,
        (inputs, generators): (&[DeviceFile], &[DeviceGenerator]),
        outputs: &[DeviceFile],
        drops: Option<&Path>,
    ) -> Result<Self, String> {
        let mut playback = Self::default();
        let mut waiting = Waiting {
            inputs: Vec::new(),
            generators: generators.to_vec(),
            outputs: Vec::new(),
        };
        let mut epoch = None;
        for input in inputs {
            let file = text(&input.file);
            let mut reader = Reader::open(&file).map_err(|error| error.to_string())?;
            let mut frame = Frame::new(0, Vec::new());
            match reader.read(&mut frame) {
                Ok(true) => {
                    epoch =
                        Some(epoch.map_or(frame.time_ns, |epoch: u64| epoch.min(frame.time_ns)));
                    waiting.inputs.push((input.device.clone(), reader, frame));
                }
                Ok(false) => {}
                Err(error) => lock(&playback.errors).push(error.to_string()),
            }
        }
        let epoch_ns = epoch.unwrap_or(0);
        stack.clock.set_epoch_ns(epoch_ns);
        for output in outputs {
            let file = text(&output.file);
            let mut writer = Writer::create(&file).map_err(|error| error.to_string())?;
            let interface = writer
                .interface(&output.device.to_string())
                .map_err(|error| error.to_string())?;
            let sink = Arc::new(Output {
                writer: Mutex::new((writer, interface)),
                epoch_ns,
                at_once: false,
                errors: playback.errors.clone(),
            });
            playback.outputs.push((output.device.clone(), sink, file));
            waiting.outputs.push(output.device.clone());
        }
        if let Some(path) = drops {
            let file = text(path);
            let writer = Writer::create(&file).map_err(|error| error.to_string())?;
            let sink = Arc::new(DropFile {
                state: Mutex::new((writer, BTreeMap::new())),
                epoch_ns,
                errors: playback.errors.clone(),
            });
            let _ = stack.drop_observer.set(sink.clone());
            playback.drops = Some((sink, file));
        }
        playback.waiting = Some(waiting);
        Ok(playback)
    }

    /// Attaches the files to their devices, once.
    pub fn start(&mut self, engine: &Engine) -> Result<(), String> {
        let Some(waiting) = &self.waiting else {
            return Ok(());
        };
        let find = |flag: &str, name: &DeviceName| -> Result<Arc<Device>, String> {
            let ns = engine.namespace(name.netns.as_deref()).ok_or_else(|| {
                format!(
                    "{flag} {name}: there is no namespace {}",
                    name.netns.as_deref().unwrap_or_default()
                )
            })?;
            ns.device_by_name(&name.device)
                .ok_or_else(|| format!("{flag} {name}: there is no such device"))
        };
        // Resolves all devices first, so that a missing one leaves nothing half attached.
        let outputs = waiting
            .outputs
            .iter()
            .map(|name| find("--out", name))
            .collect::<Result<Vec<_>, _>>()?;
        let inputs = waiting
            .inputs
            .iter()
            .map(|(name, _, _)| find("--in", name))
            .collect::<Result<Vec<_>, _>>()?;
        let generated = waiting
            .generators
            .iter()
            .map(|made| find("--gen", &made.device))
            .collect::<Result<Vec<_>, _>>()?;
        let guard = engine.stack.domain.pin();
        for (device, (_, sink, _)) in outputs.iter().zip(&self.outputs) {
            device.observe(&guard, sink.clone());
        }
        let Some(waiting) = self.waiting.take() else {
            return Ok(());
        };
        let begun = engine.stack.clock.now();
        for (device, (name, reader, frame)) in inputs.iter().zip(waiting.inputs) {
            let played = Arc::new(Mutex::new(Played::default()));
            self.inputs
                .push((name, played.clone(), reader.file().to_owned()));
            let input = Input {
                reader: Box::new(reader),
                zero: engine.stack.clock.epoch_ns(),
                begun,
                frame,
                device: device.key,
                played,
                errors: self.errors.clone(),
            };
            Box::new(input).arm(&engine.stack);
        }
        for (device, made) in generated.iter().zip(waiting.generators) {
            if let Err(error) = self.begin_generator(engine, device, made, begun) {
                lock(&self.errors).push(error);
            }
        }
        Ok(())
    }

    /// Creates a device's generator and fills in the defaults of its specification: frames are
    /// addressed to the device, and the seed derives from the run's seed, the device and the number
    /// of generators before it at this device.
    fn generator(
        &self,
        engine: &Engine,
        device: &Device,
        made: &DeviceGenerator,
    ) -> Result<Generator, String> {
        let mut parameters = made.parameters.clone();
        let named = |key: &str| made.spec.split(',').any(|pair| pair.starts_with(key));
        if !named("seed=") {
            let before = self.inputs.iter().filter(|(name, ..)| *name == made.device);
            let path = format!("generator/{}/{}", made.device, before.count());
            parameters.seed = seed_of(engine.stack.config.seed, &path);
        }
        if parameters.eth_dst.is_none() {
            parameters.eth_dst = Some(device.address());
        }
        Generator::new(parameters).map_err(|error| error.to_string())
    }

    /// Finishes the files.
    pub fn finish(&mut self) -> Finished {
        let mut outputs = Vec::new();
        for (name, sink, file) in &self.outputs {
            match lock(&sink.writer).0.finish() {
                Ok(summary) => outputs.push((name.clone(), file.clone(), summary)),
                Err(error) => lock(&self.errors).push(error.to_string()),
            }
        }
        if let Some((sink, _)) = &self.drops
            && let Err(error) = lock(&sink.state).0.finish()
        {
            lock(&self.errors).push(error.to_string());
        }
        let inputs = self
            .inputs
            .iter()
            .map(|(name, played, file)| (name.clone(), file.clone(), *lock(played)))
            .collect();
        Finished {
            inputs,
            outputs,
            errors: std::mem::take(&mut *lock(&self.errors)),
        }
    }
}
