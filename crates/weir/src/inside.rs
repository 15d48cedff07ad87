// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The channel from `weir play`, `weir stat` and `weir capture` to the stack in which they run: a
//! netlink socket, like every other client's, with a message type of Weir's own and JSON as its
//! payload.
//!
//! It needs no environment variable and no path, so it works in any namespace and in a cleaned
//! environment. The kernel answers the message type with EOPNOTSUPP, which means that the process
//! runs outside Weir.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags,
    SocketType, recvmsg,
};
use serde_json::Value;
use weir_netlink::{Header, Writer, messages, nlm};

/// The message type, above all of rtnetlink's.
const COMMAND: u16 = 0x7765;
/// The number of JSON bytes in one message.
const CHUNK: usize = 32 << 10;

/// Returns the command in a datagram, if it is one.
pub fn command_of(datagram: &[u8]) -> Option<(Header, Value)> {
    let message = messages(datagram)
        .next()
        .filter(|message| message.header.ty == COMMAND)?;
    let command = serde_json::from_slice(message.payload()).unwrap_or(Value::Null);
    Some((message.header, command))
}

/// Builds the datagrams that answer a command: its JSON in chunks, then the end.
pub fn answer(header: &Header, answer: &Result<Value, String>) -> Vec<Vec<u8>> {
    let json = match answer {
        Ok(value) => serde_json::json!({ "ok": value }),
        Err(text) => serde_json::json!({ "error": text }),
    }
    .to_string();
    let mut datagrams: Vec<_> = json
        .as_bytes()
        .chunks(CHUNK)
        .map(|chunk| message(COMMAND, header, chunk))
        .collect();
    datagrams.push(message(nlm::DONE, header, &[0; 4]));
    datagrams
}

/// Builds the datagram with which descriptors for the client go, ahead of the answer.
pub fn files(header: &Header) -> Vec<u8> {
    message(COMMAND, header, &[])
}

fn message(ty: u16, header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut out = Writer::new();
    let mark = out.message(ty, nlm::F_MULTI, header.seq, header.pid);
    out.raw(payload);
    let finished = out.finish(mark);
    debug_assert!(finished.is_ok(), "an unbounded writer is never full");
    out.into_vec()
}

fn open() -> Result<OwnedFd, String> {
    let fail = |error| format!("cannot open a netlink socket: {error}");
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(fail)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0)).map_err(fail)?;
    Ok(socket)
}

/// Sends a command to the stack in which this process runs and waits for the answer. Returns `None`
/// if the process runs outside Weir.
pub fn ask(command: &Value) -> Result<Option<(Value, Vec<OwnedFd>)>, String> {
    let socket = open()?;
    let mut out = Writer::new();
    let mark = out.message(COMMAND, nlm::F_REQUEST | nlm::F_ACK, 1, 0);
    out.raw(command.to_string().as_bytes());
    out.finish(mark)
        .map_err(|_| "the command is too long".to_owned())?;
    rustix::net::send(&socket, out.bytes(), SendFlags::empty())
        .map_err(|error| error.to_string())?;
    let (mut json, mut files) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; CHUNK + 4096];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let received = recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
            .map_err(|error| error.to_string())?;
        let len = received.bytes;
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(there) = part {
                files.extend(there);
            }
        }
        if len == 0 {
            return Err("the stack is gone".into());
        }
        for message in messages(&buffer[..len]) {
            match message.header.ty {
                COMMAND => json.extend_from_slice(message.payload()),
                nlm::DONE => return read_answer(&json).map(|answer| Some((answer, files))),
                // The kernel answered.
                nlm::ERROR => return Ok(None),
                _ => {}
            }
        }
    }
}

fn read_answer(json: &[u8]) -> Result<Value, String> {
    let mut answer: Value = serde_json::from_slice(json)
        .map_err(|error| format!("cannot parse the answer: {error}"))?;
    if let Some(text) = answer.get("error").and_then(Value::as_str) {
        return Err(text.to_owned());
    }
    Ok(answer.get_mut("ok").map(Value::take).unwrap_or_default())
}
