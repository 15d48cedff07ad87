// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Captures and generators of a stack in real time (`weir up --in`, `--gen`, `--out`).
//!
//! Such a stack starts without devices; its clients create them. The output file of a device begins
//! when a client has created the device, before the client gets its answer. All inputs begin
//! together, when all their devices exist and are up. The first frame of all files arrives at that
//! time. A capture from standard input or a pipe begins with its first frame.
//!
//! Each capture has a thread that reads it and sleeps, so that a pipe without data delays nothing
//! else.

use std::collections::VecDeque;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use weir_packet::batch::BATCH;
use weir_port::Frame;
use weir_port::Source;
use weir_port::pcap::{Reader, Writer};
use weir_stack::Stack;
use weir_stack::cpu::Cx;
use weir_stack::device::{Device, DeviceKey};

use super::{Input, Output, Playback, Played, lock, receive, text};
use crate::cli::{DeviceFile, DeviceGenerator, DeviceName};
use crate::command::is_standard;
use crate::engine::Engine;

/// The longest sleep between checks whether the stack is being stopped.
const LOOK: Duration = Duration::from_millis(100);
/// The maximum number of frames of a capture queued for the stack's CPU.
const AHEAD: usize = 256;

/// A capture that has not begun.
enum Origin {
    /// A file and its first frame.
    File(Box<Reader>, Frame),
    /// A pipe, to be opened by a thread that may block on it.
    Pipe(String),
}

/// Inputs and outputs that wait for their devices.
pub(super) struct Waiting {
    /// Devices, each with its index among the outputs.
    outputs: Vec<(DeviceName, usize)>,
    inputs: Vec<(DeviceName, Origin)>,
    generators: Vec<DeviceGenerator>,
    /// Whether inputs have begun.
    begun: bool,
}

impl Waiting {
    fn is_over(&self) -> bool {
        self.begun && self.outputs.is_empty()
    }
}

/// Returns whether opening the path may block until another process writes to it.
fn is_pipe(path: &Path) -> bool {
    let fifo = |data: std::fs::Metadata| data.file_type().is_fifo();
    is_standard(path) || path.metadata().is_ok_and(fifo)
}

fn device(engine: &Engine, name: &DeviceName) -> Option<Arc<Device>> {
    engine
        .namespace(name.netns.as_deref())?
        .device_by_name(&name.device)
}

impl Playback {
    /// Opens all files of a stack in real time.
    pub fn open_live(
        stack: &Stack,
        (inputs, generators): (&[DeviceFile], &[DeviceGenerator]),
        outputs: &[DeviceFile],
    ) -> Result<Self, String> {
        let mut playback = Self::default();
        let mut waiting = Waiting {
            outputs: Vec::new(),
            inputs: Vec::new(),
            generators: generators.to_vec(),
            begun: inputs.is_empty() && generators.is_empty(),
        };
        for input in inputs {
            let file = text(&input.file);
            let source = if is_pipe(&input.file) {
                Origin::Pipe(file)
            } else {
                let mut reader = Reader::open(&file).map_err(|error| error.to_string())?;
                let mut frame = Frame::default();
                if !reader.read(&mut frame).map_err(|error| error.to_string())? {
                    continue;
                }
                Origin::File(Box::new(reader), frame)
            };
            waiting.inputs.push((input.device.clone(), source));
        }
        for output in outputs {
            let file = text(&output.file);
            let writer = Writer::create(&file).map_err(|error| error.to_string())?;
            let times = (stack.clock.epoch_ns(), true);
            let errors = playback.errors.clone();
            let sink = Arc::new(Output::new(writer, &output.device, times, errors));
            let number = playback.outputs.len();
            waiting.outputs.push((output.device.clone(), number));
            playback.outputs.push((output.device.clone(), sink, file));
        }
        if !waiting.is_over() {
            playback.live = Some(waiting);
        }
        Ok(playback)
    }

    /// Returns whether [`Playback::look`] has anything to do.
    pub fn is_waiting(&self) -> bool {
        self.live.is_some()
    }

    /// Starts the inputs and outputs whose devices now exist.
    pub fn look(&mut self, engine: &Arc<Engine>) {
        let Some(mut waiting) = self.live.take() else {
            return;
        };
        waiting.outputs.retain(|(name, number)| {
            let found = device(engine, name);
            if let Some(device) = &found {
                let sink = &self.outputs[*number].1;
                sink.attach(device, &engine.stack.domain.pin());
            }
            found.is_none()
        });
        if !waiting.begun {
            let names = waiting.inputs.iter().map(|(name, _)| name);
            let names = names.chain(waiting.generators.iter().map(|made| &made.device));
            let up = |name: &DeviceName| device(engine, name).filter(|device| device.is_up());
            if let Some(devices) = names.map(up).collect::<Option<Vec<_>>>() {
                self.begin(engine, &mut waiting, &devices);
                waiting.begun = true;
            }
        }
        if !waiting.is_over() {
            self.live = Some(waiting);
        }
    }

    /// Starts all inputs. `devices` are their devices, those of generators last.
    fn begin(&mut self, engine: &Arc<Engine>, waiting: &mut Waiting, devices: &[Arc<Device>]) {
        let begun = engine.stack.clock.now();
        let stamps = waiting
            .inputs
            .iter()
            .filter_map(|(_, source)| match source {
                Origin::File(_, frame) => Some(frame.time_ns),
                Origin::Pipe(_) => None,
            });
        let zero = stamps.min();
        let (captures, generated) = devices.split_at(waiting.inputs.len().min(devices.len()));
        for (device, (name, source)) in captures.iter().zip(waiting.inputs.drain(..)) {
            let played = Arc::new(Mutex::new(Played::default()));
            let (file, first) = match source {
                Origin::File(reader, frame) => (reader.file().to_owned(), Some((*reader, frame))),
                Origin::Pipe(file) => (file, None),
            };
            device
                .steering
                .spread(&engine.stack.softnet, device.rx_queues(), true);
            let player = Player {
                engine: Arc::downgrade(engine),
                zero,
                begun,
                feed: Arc::new(Feed {
                    device: device.key,
                    played: played.clone(),
                    frames: Mutex::default(),
                    ahead: AtomicUsize::new(0),
                    due: AtomicUsize::new(0),
                }),
            };
            self.inputs.push((name, played, file.clone()));
            let errors = self.errors.clone();
            let play = move || {
                if let Err(error) = player.play(first, &file) {
                    eprintln!("weir: {error}");
                    lock(&errors).push(error);
                }
            };
            let thread = std::thread::Builder::new().name("capture".into());
            if let Err(error) = thread.spawn(play) {
                lock(&self.errors).push(format!("cannot start a thread for a capture: {error}"));
            }
        }
        for (device, made) in generated.iter().zip(waiting.generators.drain(..)) {
            if let Err(error) = self.begin_generator(engine, device, made, begun) {
                eprintln!("weir: {error}");
                lock(&self.errors).push(error);
            }
        }
    }

    /// Starts a generator.
    pub(super) fn begin_generator(
        &mut self,
        engine: &Engine,
        device: &Device,
        made: DeviceGenerator,
        begun: u64,
    ) -> Result<(), String> {
        device
            .steering
            .spread(&engine.stack.softnet, device.rx_queues(), true);
        let mut generator = self.generator(engine, device, &made)?;
        let mut frame = Frame::default();
        let played = Arc::new(Mutex::new(Played::default()));
        self.inputs.push((made.device, played.clone(), made.spec));
        if generator
            .read(&mut frame)
            .map_err(|error| error.to_string())?
        {
            let input = Input {
                reader: Box::new(generator),
                zero: 0,
                begun,
                frame,
                device: device.key,
                played,
                errors: self.errors.clone(),
            };
            Box::new(input).arm(&engine.stack);
        }
        Ok(())
    }
}

/// Plays a capture in real time.
struct Player {
    engine: Weak<Engine>,
    /// The time stamp that corresponds to the start of the inputs, and the clock's time at the
    /// start.
    zero: Option<u64>,
    begun: u64,
    feed: Arc<Feed>,
}

impl Player {
    fn play(mut self, first: Option<(Reader, Frame)>, file: &str) -> Result<(), String> {
        let (mut reader, mut frame) = match first {
            Some(first) => first,
            None => {
                let mut reader = Reader::open(file).map_err(|error| error.to_string())?;
                let mut frame = Frame::default();
                if !reader.read(&mut frame).map_err(|error| error.to_string())? {
                    return Ok(());
                }
                let Some(engine) = self.engine.upgrade() else {
                    return Ok(());
                };
                (self.zero, self.begun) = (Some(frame.time_ns), engine.stack.clock.now());
                (reader, frame)
            }
        };
        let zero = self.zero.unwrap_or(frame.time_ns);
        loop {
            let due = frame.time_ns.saturating_sub(zero);
            if !self.wait(due.saturating_add(self.begun)) {
                return Ok(());
            }
            self.post(&frame);
            if !reader.read(&mut frame).map_err(|error| error.to_string())? {
                return Ok(());
            }
        }
    }

    /// Sleeps until a time of the stack's clock and until the stack has room. Returns false if the
    /// stack is being stopped.
    fn wait(&self, time: u64) -> bool {
        loop {
            let Some(engine) = self.engine.upgrade().filter(|engine| !engine.is_stopping()) else {
                return false;
            };
            let left = Duration::from_nanos(time.saturating_sub(engine.stack.clock.now()));
            let full = self.feed.ahead.load(Relaxed) >= AHEAD;
            drop(engine);
            match (left.is_zero(), full) {
                (true, false) => return true,
                (true, true) => std::thread::sleep(Duration::from_micros(100)),
                (false, _) => std::thread::sleep(left.min(LOOK)),
            }
        }
    }

    fn post(&self, frame: &Frame) {
        let Some(engine) = self.engine.upgrade() else {
            return;
        };
        let feed = self.feed.clone();
        lock(&feed.frames).push_back(frame.is_complete().then(|| frame.data.clone()));
        feed.ahead.fetch_add(1, Relaxed);
        engine
            .stack
            .post(Box::new(move |cx| Feed::receive(&feed, cx)));
    }
}

/// The frames of a capture on their way to the stack's CPUs.
struct Feed {
    device: DeviceKey,
    played: Arc<Mutex<Played>>,
    /// The frames; `None` is a truncated one.
    frames: Mutex<VecDeque<Option<Vec<u8>>>>,
    /// The number of frames.
    ahead: AtomicUsize,
    /// The number of jobs that have asked for a frame to be received.
    due: AtomicUsize,
}

impl Feed {
    /// Receives a frame. Jobs run on any CPU, but one CPU at a time receives the frames, in order. The
    /// others leave theirs to it.
    fn receive(&self, cx: &mut Cx<'_>) {
        let mut count = 1;
        if self.due.fetch_add(1, AcqRel) > 0 {
            return;
        }
        loop {
            let frames: Vec<_> = {
                let mut frames = lock(&self.frames);
                let count = count.min(frames.len());
                frames.drain(..count).collect()
            };
            self.ahead.fetch_sub(frames.len(), Relaxed);
            receive(
                cx,
                self.device,
                frames.iter().map(Option::as_deref),
                &self.played,
            );
            let left = self.due.fetch_sub(count, AcqRel) - count;
            if left == 0 {
                return;
            }
            count = left.min(BATCH);
        }
    }
}
