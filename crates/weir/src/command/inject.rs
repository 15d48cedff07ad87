// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir inject`: frames of a capture enter a device of the stack around, or of one behind a control socket.
//!
//! This process reads the capture, sleeps between frames, and hands over those whose time has come. It sleeps like
//! any other program: in a script of `weir run`, by the stack's clock.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use weir_port::pcap::Reader;
use weir_port::{Frame, Source};

use crate::cli::Inject;
use crate::engine::inject::to_hex;

/// Frames, and their octets, that are handed over at once at most.
const FRAMES: usize = 64;
const OCTETS: usize = 128 << 10;

/// Frames of one time, and what has been sent until now.
struct Sender<'a> {
    args: &'a Inject,
    file: String,
    frames: Vec<String>,
    octets: usize,
    /// Frames handed over before.
    sent: u64,
}

impl Sender<'_> {
    /// The stack's clock; an error says that there is no such device, or no stack.
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
        let number = |key: &str| answer[key].as_u64().ok_or("the stack gave no answer");
        let error = answer["error"].as_str().map(str::to_owned);
        Ok((number("taken")?, error, number("now")?))
    }

    /// Hands over what has been collected; the stack's time.
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
            // What came before stays sent.
            self.flush()?;
            return Err(format!(
                "{}: frame {number}: the capture holds {} of its {} octets",
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

/// Sends the frames, each at its time.
pub fn run(args: &Inject) -> Result<ExitCode, String> {
    // Waits of a program of the name `weir` are not by the stack's clock: `weir capture` looks after its capture.
    // Under its old name the program would send all frames at one time.
    rustix::thread::set_name(c"weir-inject")
        .map_err(|error| format!("the thread's name: {error}"))?;
    let file = args.file.to_string_lossy().into_owned();
    let mut sender = Sender {
        args,
        file: file.clone(),
        frames: Vec::new(),
        octets: 0,
        sent: 0,
    };
    // What is wrong with the device is said before a capture is waited for.
    sender.now()?;
    let mut reader = Reader::open(&file).map_err(|error| error.to_string())?;
    let mut frame = Frame::default();
    // The time at which the last frame was due, and its stamp. The first one was due when it went.
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
        // A capture may go back in time; nothing else does.
        let gap = frame.time_ns.saturating_sub(stamp.unwrap_or(frame.time_ns));
        stamp = Some(frame.time_ns.max(stamp.unwrap_or(0)));
        if gap > 0 && !args.topspeed {
            let now = sender.flush()?;
            let last = due.unwrap_or(now);
            // How much later than it was due the last frame went: a clock that stands still makes none late.
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
