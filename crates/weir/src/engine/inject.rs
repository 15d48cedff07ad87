// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames from `weir inject`: sent by a device as from a packet socket, or received by it as from a
//! driver.

use std::sync::Arc;

use serde_json::{Value, json};
use weir_packet::Batch;
use weir_stack::cpu::Cx;
use weir_stack::datapath::{self, raw};
use weir_stack::device::Device;

use super::Engine;

/// The length in bytes of the longest frame.
const LONGEST: usize = 65_535;

/// Converts bytes to hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let octet = |pair: &[u8]| match *pair {
        [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
        _ => None,
    };
    text.as_bytes().chunks(2).map(octet).collect()
}

/// Injects the command's `frames` (hexadecimal) at the present time. Returns how many were taken,
/// and the reason why the next one was refused.
pub fn run(engine: &Engine, command: &Value) -> Result<Value, String> {
    let name = command["device"]
        .as_str()
        .ok_or("the command names no device")?;
    let netns = command["netns"].as_str();
    let frames = command["frames"].as_array().map_or(&[][..], Vec::as_slice);
    let frames: Option<Vec<_>> = frames
        .iter()
        .map(|frame| frame.as_str().and_then(from_hex))
        .collect();
    let frames = frames.ok_or("the command contains an invalid frame")?;
    let ns = engine
        .namespace(netns)
        .ok_or_else(|| format!("there is no namespace {}", netns.unwrap_or_default()))?;
    let device = ns
        .device_by_name(name)
        .ok_or_else(|| format!("there is no device {name}"))?;
    let receives = command["receive"] == true;
    let mut cpu = engine.cpu();
    let (taken, error) = cpu.with(|cx| match receives {
        true => receive(cx, &device, &frames),
        false => {
            let (sent, error) = raw::send(cx, &device, frames.iter().map(Vec::as_slice));
            (sent, error.map(|errno| sentence(errno, &device)))
        }
    });
    // Completes the work that the frames triggered before the command is answered.
    cpu.settle();
    drop(cpu);
    let now = engine.stack.clock.now();
    Ok(json!({ "taken": taken, "error": error, "now": now }))
}

/// Lets the device receive the frames, as from its driver.
fn receive(cx: &mut Cx<'_>, device: &Arc<Device>, frames: &[Vec<u8>]) -> (usize, Option<String>) {
    if !device.is_up() {
        return (0, Some(sentence(libc::ENETDOWN, device)));
    }
    for (taken, frame) in frames.iter().enumerate() {
        if frame.len() > LONGEST {
            return (taken, Some(sentence(libc::EMSGSIZE, device)));
        }
        let Some(packet) = cx.stack.pool.packet(frame) else {
            return (taken, Some(sentence(libc::ENOBUFS, device)));
        };
        let mut batch = Batch::new();
        let _ = batch.push(packet);
        datapath::receive_frames(cx, device, batch);
    }
    (frames.len(), None)
}

/// Returns the reason why a device refused a frame.
fn sentence(errno: i32, device: &Device) -> String {
    match errno {
        libc::ENETDOWN => "Network is down".into(),
        libc::EINVAL => "Invalid argument: shorter than an Ethernet header".into(),
        libc::EMSGSIZE => format!("Message too long: the MTU is {}", device.mtu()),
        _ => "No buffer space available".into(),
    }
}
