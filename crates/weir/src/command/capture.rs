// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir capture`: writes frames to standard output, live.
//!
//! A stack in real time shares rings of frames with this process, which writes them out. Under
//! virtual time the stack writes to this process's standard output itself, and this process waits
//! for the end: the frame count, a reader that closed the pipe, or a signal.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use weir_port::pcap::{ETHERNET, Format, Writer};
use weir_port::ring::{Consumer, Ends, Record, What};
use weir_port::{Direction, Frame, Sink};

use crate::cli::{Capture, DeviceName};
use crate::engine::capture::drop_comment;

/// The interval between checks for the end.
const LOOK: Duration = Duration::from_millis(100);
/// The pause after frames, in which more of them gather, so that a busy stack need not wake this
/// process for each batch.
const PAUSE: Duration = Duration::from_millis(1);
/// The number of frames that are read at a time.
const MANY: usize = 4096;

/// Captures until the end.
pub fn run(args: &Capture) -> Result<ExitCode, String> {
    if rustix::termios::isatty(std::io::stdout()) {
        return Err(
            "standard output is a terminal: pipe it to `tcpdump -r -` or into a file".into(),
        );
    }
    let (device, words) = whom(args)?;
    let socket = args.socket.as_deref();
    let program = super::bpf::compile_words(&words)?;
    let output = std::io::stdout().as_fd().try_clone_to_owned();
    let output = output.map_err(|error| format!("standard output: {error}"))?;
    let kept = output.try_clone();
    let kept = kept.map_err(|error| format!("standard output: {error}"))?;
    let netns = device.as_ref().map_or(&args.netns, |device| &device.netns);
    let command = json!({
        "command": "capture",
        "netns": netns,
        "device": device.as_ref().map(|device| &device.device),
        "all": args.all,
        "drops": args.drops,
        "count": args.count,
        "snaplen": args.snaplen,
        "buffer": args.buffer.map(|size| size.0),
        "program": program.map(|program| program.to_text()),
        "process": std::process::id(),
    });
    // A signal ends the capture with its statistics. A second one ends the process at once, for
    // example if nobody reads its output.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        use signal_hook::flag::{register, register_conditional_shutdown};
        register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .and_then(|_| register(signal, stop.clone()))
            .map_err(|error| format!("cannot install signal handlers: {error}"))?;
    }
    let (answer, files) = super::ask_with(socket, &command, vec![output])?;
    let id = answer["id"]
        .as_u64()
        .ok_or("the stack did not start a capture")?;
    if !files.is_empty() {
        return Reader::new(args, &answer, files, kept)?.run(&stop);
    }
    drop(kept);
    while !stop.load(Relaxed) {
        std::thread::sleep(LOOK);
        let answer = super::ask(socket, &json!({ "command": "captured", "id": id }))?;
        if let Some(error) = answer["error"].as_str() {
            return Err(error.to_owned());
        }
        if answer["ended"].as_bool() == Some(true) {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the device and the words of the expression.
fn whom(args: &Capture) -> Result<(Option<DeviceName>, Vec<String>), String> {
    if !args.all && !args.drops {
        if args.netns.is_some() {
            return Err("--netns needs --all or --drops; a device is netns/dev".into());
        }
        let device = args.device.as_deref();
        let device = device.ok_or("a capture needs a device, --all or --drops")?;
        return Ok((Some(device.parse()?), args.expression.clone()));
    }
    // All words are the expression.
    let words = args.device.iter().chain(&args.expression);
    Ok((None, words.cloned().collect()))
}

/// Why a capture ends.
enum End {
    /// It goes on.
    Not,
    /// All frames that were wanted are there.
    Count,
    /// The reader of standard output is gone.
    Pipe,
}

/// Reads the rings of a stack in real time.
struct Reader<'a> {
    args: &'a Capture,
    consumer: Consumer,
    writer: Writer,
    /// The name and the link type of each device.
    names: BTreeMap<u32, (String, u16)>,
    /// The number of each device in the output, and its frames.
    interfaces: BTreeMap<u32, (u32, u64)>,
    places: Vec<String>,
    reasons: Vec<String>,
    written: u64,
}

fn strings(value: &Value) -> Vec<String> {
    let all = value.as_array().into_iter().flatten();
    all.map(|one| one.as_str().unwrap_or_default().to_owned())
        .collect()
}

fn names_of(value: &Value) -> BTreeMap<u32, (String, u16)> {
    let all = value.as_object().into_iter().flatten();
    let read = |(key, value): (&String, &Value)| {
        let link_type = u16::try_from(value[1].as_u64()?).ok()?;
        Some((
            key.parse().ok()?,
            (value[0].as_str()?.to_owned(), link_type),
        ))
    };
    all.filter_map(read).collect()
}

impl<'a> Reader<'a> {
    fn new(
        args: &'a Capture,
        answer: &Value,
        files: Vec<OwnedFd>,
        output: OwnedFd,
    ) -> Result<Self, String> {
        let ends = Ends::from_vec(files).and_then(Consumer::new);
        let consumer = ends.map_err(|error| format!("the rings of the stack: {error}"))?;
        let format = Format {
            classic: false,
            gzip: false,
        };
        let writer = Writer::new("standard output", format, File::from(output));
        let mut reader = Self {
            args,
            consumer,
            writer: writer.map_err(|error| error.to_string())?,
            names: names_of(&answer["names"]),
            interfaces: BTreeMap::new(),
            places: strings(&answer["places"]),
            reasons: strings(&answer["reasons"]),
            written: 0,
        };
        if let Some(snaplen) = args.snaplen {
            reader.writer.set_snaplen(snaplen);
        }
        let first = answer["device"].as_u64().map(|key| key as u32);
        let first: Vec<u32> = match (first, args.all) {
            (Some(key), _) => vec![key],
            (None, true) => {
                let prefix = args.netns.as_ref().map(|netns| format!("{netns}/"));
                let inside = |name: &str| prefix.as_ref().is_none_or(|p| name.starts_with(p));
                let all = reader.names.iter().filter(|(_, (name, _))| inside(name));
                all.map(|(key, _)| *key).collect()
            }
            (None, false) => Vec::new(),
        };
        for key in first {
            reader.interface(key).map_err(|error| error.to_string())?;
        }
        Ok(reader)
    }

    /// Returns the number of a device in the output, and describes it before its first frame.
    fn interface(&mut self, key: u32) -> weir_port::Result<u32> {
        if let Some((number, _)) = self.interfaces.get(&key) {
            return Ok(*number);
        }
        if !self.names.contains_key(&key) {
            let socket = self.args.socket.as_deref();
            // A stack that is gone answers no more.
            let names = super::ask(socket, &json!({ "command": "capture-names" }));
            self.names.extend(names_of(&names.unwrap_or_default()));
        }
        let unknown = || (format!("#{key}"), ETHERNET);
        let (name, link_type) = self.names.entry(key).or_insert_with(unknown);
        let number = self.writer.interface_of(name, *link_type)?;
        self.interfaces.insert(key, (number, 0));
        Ok(number)
    }

    fn write(&mut self, record: Record) -> weir_port::Result<()> {
        let key = record.meta.device;
        let mut frame = Frame::new(record.meta.time_ns, record.data);
        frame.orig_len = record.original;
        frame.interface = self.interface(key)?;
        let name_of = |names: &[String], at: u16| {
            let name = names.get(usize::from(at)).cloned();
            name.unwrap_or_else(|| at.to_string())
        };
        match record.meta.what {
            What::Received => frame.direction = Direction::In,
            What::Sent => frame.direction = Direction::Out,
            What::Dropped(place, reason) => {
                let device = self.names.get(&key).map_or("", |(name, _)| name);
                let place = name_of(&self.places, place);
                let reason = name_of(&self.reasons, reason);
                frame.comment = Some(drop_comment(device, &place, &reason));
            }
        }
        self.writer.write(&frame)?;
        self.written += 1;
        if let Some((_, frames)) = self.interfaces.get_mut(&key) {
            *frames += 1;
        }
        Ok(())
    }

    /// Writes frames, as many as are wanted.
    fn write_all(&mut self, records: &mut Vec<Record>) -> Result<End, String> {
        let mut result = Ok(());
        for record in records.drain(..) {
            if self.args.count.is_some_and(|count| self.written >= count) {
                break;
            }
            result = self.write(record);
            if result.is_err() {
                break;
            }
        }
        match result.and_then(|()| self.writer.flush()) {
            Ok(()) if self.args.count.is_some_and(|count| self.written >= count) => Ok(End::Count),
            Ok(()) => Ok(End::Not),
            Err(error) if error.is_broken_pipe() => Ok(End::Pipe),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Captures until a signal, the end of the stack or of the device, or the last frame.
    fn run(mut self, stop: &AtomicBool) -> Result<ExitCode, String> {
        let mut records = Vec::new();
        let mut end = self.write_all(&mut records)?;
        let mut alive = true;
        while matches!(end, End::Not) {
            // In this order: what the stack wrote before the signal is there.
            let stopping = stop.load(Relaxed) || !alive;
            let read = self.consumer.read(MANY, &mut records);
            let some = read.map_err(|error| format!("the rings of the stack: {error}"))?;
            let many = records.len() >= MANY / 2;
            end = self.write_all(&mut records)?;
            if some && !many && !stopping {
                std::thread::sleep(PAUSE);
            } else if !some {
                if stopping {
                    break;
                }
                let wait = self.consumer.wait(LOOK);
                alive = wait.map_err(|error| format!("waiting for frames: {error}"))?;
            }
        }
        let lost = self.consumer.counts().1;
        if !matches!(end, End::Pipe) {
            let done = self.statistics().and_then(|()| self.writer.finish());
            match done {
                Err(error) if !error.is_broken_pipe() => return Err(error.to_string()),
                _ => {}
            }
        }
        if !self.args.quiet {
            eprintln!("weir: {} frames captured, {lost} lost", self.written);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Writes the statistics of all devices.
    fn statistics(&mut self) -> weir_port::Result<()> {
        let lost = self.consumer.lost();
        for key in lost.keys() {
            self.interface(*key)?;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        for (key, (number, frames)) in &self.interfaces {
            let lost = lost.get(key).copied().unwrap_or(0);
            self.writer.statistics(*number, now, (*frames, lost))?;
        }
        Ok(())
    }
}
