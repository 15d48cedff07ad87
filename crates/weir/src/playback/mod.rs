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
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_packet::Batch;
use weir_packet::tagged::Tagged;
use weir_port::generator::Generator;
use weir_port::pcap::{ETHERNET, Reader, Writer};
use weir_port::{Frame, Sink, Source, Summary};
use weir_stack::Stack;
use weir_stack::clock::Holds;
use weir_stack::cpu::Cx;
use weir_stack::device::{Device, DeviceKey, Direction, Observer, Tap, Taps};
use weir_stack::drops::{DropObserver, Dropped};
use weir_stack::random::seed_of;
use weir_sync::rcu::Guard;

use crate::cli::{DeviceFile, DeviceGenerator, DeviceName};
use crate::engine::Engine;
use crate::engine::capture::drop_comment;
use crate::engine::names::Namer;

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

/// Lets a device receive up to a batch of frames, and counts truncated ones as lost.
fn receive<'f>(
    cx: &mut Cx<'_>,
    device: DeviceKey,
    frames: impl Iterator<Item = Option<&'f [u8]>>,
    played: &Mutex<Played>,
) {
    let device = cx.device(device).cloned();
    let mut batch = Batch::new();
    {
        let mut played = lock(played);
        for frame in frames {
            let packet = frame.and_then(|data| cx.stack.pool.packet(data));
            match packet.filter(|_| device.is_some() && !batch.is_full()) {
                Some(packet) => {
                    played.frames += 1;
                    played.octets += u64::from(packet.len() as u32);
                    let _ = batch.push(packet);
                }
                None => played.lost += 1,
            }
        }
    }
    if let Some(device) = device.filter(|_| !batch.is_empty()) {
        weir_stack::datapath::receive_frames(cx, &device, batch);
    }
}

impl Input {
    /// Plays the current frame and arms the timer of the next.
    fn arrive(mut self: Box<Self>, cx: &mut Cx<'_>) {
        let whole = self.frame.is_complete().then_some(&self.frame.data[..]);
        receive(cx, self.device, [whole].into_iter(), &self.played);
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

/// A file of the frames that leave a device, which is its only interface.
struct Output {
    writer: Mutex<Writer>,
    /// The device's name, until the file has it.
    name: Mutex<Option<String>>,
    epoch_ns: u64,
    /// Whether each frame is flushed for a reader at once.
    at_once: bool,
    errors: Errors,
}

/// Builds a frame for a file, with its accelerated VLAN tag inserted into the data.
pub fn frame_of(packet: &Tagged<'_>, time_ns: u64, interface: u32, comment: Option<&str>) -> Frame {
    let mut frame = Frame::new(time_ns, packet.to_vec());
    frame.interface = interface;
    frame.comment = comment.map(str::to_owned);
    frame
}

impl Output {
    fn new(
        writer: Writer,
        name: &DeviceName,
        (epoch_ns, at_once): (u64, bool),
        errors: Errors,
    ) -> Self {
        Self {
            writer: Mutex::new(writer),
            name: Mutex::new(Some(name.to_string())),
            epoch_ns,
            at_once,
            errors,
        }
    }

    /// Describes the device, once; `link_type` is that of its frames.
    fn describe(&self, link_type: u16) {
        let Some(name) = lock(&self.name).take() else {
            return;
        };
        let mut writer = lock(&self.writer);
        let mut written = writer.interface_of(&name, link_type).map(drop);
        if self.at_once {
            written = written.and_then(|()| writer.flush());
        }
        if let Err(error) = written {
            lock(&self.errors).push(error.to_string());
        }
    }

    /// Describes the device and writes its frames from now on.
    fn attach(self: &Arc<Self>, device: &Device, guard: &Guard) {
        self.describe(device.framing().link_type());
        device.observe(guard, self.clone());
    }
}

impl Observer for Output {
    fn frame(&self, tap: &Tap<'_>) {
        if tap.direction != Direction::Tx {
            return;
        }
        let mut writer = lock(&self.writer);
        let packet = Tagged::of(tap.packet, tap.device.framing());
        let mut frame = frame_of(&packet, self.epoch_ns + tap.time, 0, tap.note);
        frame.direction = weir_port::Direction::Out;
        let mut written = writer.write(&frame);
        if self.at_once {
            written = written.and_then(|()| writer.flush());
        }
        if let Err(error) = written {
            lock(&self.errors).push(error.to_string());
        }
    }
}

/// The number and the name of each device in a file.
type Interfaces = BTreeMap<DeviceKey, (u32, String)>;

/// A file of frames of all devices: those that cross them, or those that are dropped.
struct AllFile {
    state: Mutex<(Writer, Interfaces)>,
    epoch_ns: u64,
    errors: Errors,
    namer: Arc<Namer>,
}

impl AllFile {
    /// Writes a frame. `comment` gets the device's name.
    fn write(
        &self,
        (device, guard): (&Device, &Guard),
        (frame, time): (&Tagged<'_>, u64),
        direction: weir_port::Direction,
        comment: impl FnOnce(&str) -> Option<String>,
    ) {
        let mut state = lock(&self.state);
        let (writer, interfaces) = &mut *state;
        let interface = match interfaces.entry(device.key) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(place) => {
                let name = self.namer.of(device, guard);
                let number = writer.interface_of(&name, device.framing().link_type());
                number.map(|number| place.insert((number, name)))
            }
        };
        let written = interface.and_then(|(interface, name)| {
            let comment = comment(name);
            let time = self.epoch_ns + time;
            let mut frame = frame_of(frame, time, *interface, comment.as_deref());
            frame.direction = direction;
            writer.write(&frame)
        });
        if let Err(error) = written {
            lock(&self.errors).push(error.to_string());
        }
    }
}

impl DropObserver for AllFile {
    fn dropped(&self, dropped: &Dropped<'_>) {
        // Starts at the beginning of the frame if that still exists.
        let frame = Tagged::whole(dropped.packet, dropped.device.framing());
        let comment = |name: &str| {
            let (place, reason) = (dropped.place.name(), dropped.reason);
            let comment = drop_comment(name, place, reason.name());
            let comment = format!("{comment}: {}", reason.sentence());
            Some(match dropped.note {
                Some(note) => format!("{note}; {comment}"),
                None => comment,
            })
        };
        let unknown = weir_port::Direction::Unknown;
        let at = (dropped.device, dropped.guard);
        self.write(at, (&frame, dropped.time), unknown, comment);
    }
}

impl Observer for AllFile {
    /// Not called, because [`frames`](Self::frames) is.
    fn frame(&self, _: &Tap<'_>) {}

    fn frames(&self, taps: &Taps<'_>) {
        let direction = match taps.direction {
            Direction::Rx => weir_port::Direction::In,
            Direction::Tx => weir_port::Direction::Out,
        };
        for packet in taps.packets {
            let frame = Tagged::of(packet, taps.device.framing());
            let note = taps.trace.read(packet);
            let at = (taps.device, taps.guard);
            self.write(at, (&frame, taps.time), direction, |_| {
                note.as_deref().map(str::to_owned)
            });
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
    /// The files of dropped packets and of all devices.
    all: Vec<Arc<AllFile>>,
    namer: Arc<Namer>,
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
        (drops, all): (Option<&Path>, Option<&Path>),
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
            let writer = Writer::create(&file).map_err(|error| error.to_string())?;
            let errors = playback.errors.clone();
            let sink = Output::new(writer, &output.device, (epoch_ns, false), errors);
            let sink = Arc::new(sink);
            playback.outputs.push((output.device.clone(), sink, file));
            waiting.outputs.push(output.device.clone());
        }
        if let Some(path) = drops {
            let writer = Writer::create(&text(path)).map_err(|error| error.to_string())?;
            let sink = playback.all_file(writer, epoch_ns);
            stack.observe_drops(sink);
        }
        if let Some(path) = all {
            let writer = Writer::create(&text(path)).map_err(|error| error.to_string())?;
            let sink = playback.all_file(writer, epoch_ns);
            stack.observe(sink);
        }
        playback.waiting = Some(waiting);
        Ok(playback)
    }

    fn all_file(&mut self, writer: Writer, epoch_ns: u64) -> Arc<AllFile> {
        let file = Arc::new(AllFile {
            state: Mutex::new((writer, BTreeMap::new())),
            epoch_ns,
            errors: self.errors.clone(),
            namer: self.namer.clone(),
        });
        self.all.push(file.clone());
        file
    }

    /// Returns what names the devices; it needs the engine before packets move.
    pub fn namer(&self) -> &Arc<Namer> {
        &self.namer
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
            sink.attach(device, &guard);
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
            // A device that never came.
            sink.describe(ETHERNET);
            let finished = lock(&sink.writer).finish();
            match finished {
                Ok(summary) => outputs.push((name.clone(), file.clone(), summary)),
                Err(error) => lock(&self.errors).push(error.to_string()),
            }
        }
        for file in &self.all {
            if let Err(error) = lock(&file.state).0.finish() {
                lock(&self.errors).push(error.to_string());
            }
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
