// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir inject`: injects frames of a capture into a device of the stack in which it runs, or of
//! one behind a control socket.
//!
//! This process reads the capture, sleeps between frames, and sends the frames that are due. It
//! sleeps like any other program: in a script of `weir run`, by the stack's clock.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use weir_port::pcap::Reader;
use weir_port::{Frame, Source};

use crate::cli::Inject;
use crate::engine::inject::to_hex;

/// The maximum number of frames, and of their bytes, in one request.
const FRAMES: usize = 64;
const OCTETS: usize = 128 << 10;

/// The frames that are due at one time, and the count of frames sent before.
struct Sender<'a> {
    args: &'a Inject,
    file: String,
    frames: Vec<String>,
    octets: usize,
    /// The number of frames injected so far.
    sent: u64,
}

impl Sender<'_> {
    /// Returns the stack's clock. Fails if there is no such device, or no stack.
    fn now(&self) -> Result<u64, String> {
        self.ask(&[]).map(|(_, _, now)| now)
    }

    fn ask(&self, frames: &[String]) -> Result<(u64, Option<String>, u64), String> {
        let answer = super::ask(
            self.args.socket.as_deref(),
            &json!({
                "command": "inject",
                "netns": self.args.device.netns,
                "device": self.args.device.device,
                "receive": self.args.receive,
                "frames": frames,
            }),
        )?;
        let number = |key: &str| answer[key].as_u64().ok_or("the stack did not answer");
        let error = answer["error"].as_str().map(str::to_owned);
        Ok((number("taken")?, error, number("now")?))
    }

    /// Sends the collected frames and returns the stack's time.
    fn flush(&mut self) -> Result<u64, String> {
        let frames = std::mem::take(&mut self.frames);
        self.octets = 0;
        let (taken, error, now) = self.ask(&frames)?;
        self.sent += taken;
        match error {
            None => Ok(now),
            Some(error) => Err(format!(
                "{}: frame {}: {}: {error}",
                self.file,
                self.sent + 1,
                self.args.device
            )),
        }
    }

    fn push(&mut self, frame: &Frame) -> Result<(), String> {
        if !frame.is_complete() {
            let number = self.sent + self.frames.len() as u64 + 1;
            // The frames before this one stay injected.
            self.flush()?;
            return Err(format!(
                "{}: frame {number}: the capture holds {} of its {} bytes",
                self.file,
                frame.data.len(),
                frame.orig_len
            ));
        }
        self.frames.push(to_hex(&frame.data));
        self.octets += frame.data.len();
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.frames.len() >= FRAMES || self.octets >= OCTETS
    }
}

/// Injects the frames, each at its time.
pub fn run(args: &Inject) -> Result<ExitCode, String> {
    // Waits of a program named `weir` do not follow the stack's clock, because `weir capture` looks
    // after its capture. Under that name this program would inject all frames at the same time.
    rustix::thread::set_name(c"weir-inject")
        .map_err(|error| format!("cannot set the thread's name: {error}"))?;
    let file = args.file.to_string_lossy().into_owned();
    let mut sender = Sender {
        args,
        file: file.clone(),
        frames: Vec::new(),
        octets: 0,
        sent: 0,
    };
    // Reports a problem with the device before waiting for a capture.
    sender.now()?;
    let mut reader = Reader::open(&file).map_err(|error| error.to_string())?;
    let mut frame = Frame::default();
    // The due time and the time stamp of the last frame. The first frame was due when it was sent.
    let (mut due, mut stamp) = (None, None);
    let mut left = args.count.unwrap_or(u64::MAX);
    let read = loop {
        if left == 0 {
            break Ok(());
        }
        match reader.read(&mut frame) {
            Ok(true) => left -= 1,
            Ok(false) => break Ok(()),
            Err(error) => break Err(error.to_string()),
        }
        // Time stamps in a capture may go backwards; the injection does not.
        let gap = frame.time_ns.saturating_sub(stamp.unwrap_or(frame.time_ns));
        stamp = Some(frame.time_ns.max(stamp.unwrap_or(0)));
        if gap > 0 && !args.topspeed {
            let now = sender.flush()?;
            let last = due.unwrap_or(now);
            // The delay of the last frame after its due time. Under a clock that stands still no
            // frame is late.
            let late = now.saturating_sub(last);
            due = Some(last + gap);
            if gap > late {
                std::thread::sleep(Duration::from_nanos(gap - late));
            }
        }
        if sender.is_full() {
            sender.flush()?;
        }
        sender.push(&frame)?;
    };
    sender.flush()?;
    read?;
    Ok(ExitCode::SUCCESS)
}
