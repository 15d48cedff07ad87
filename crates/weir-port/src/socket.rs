// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `socket`: a UNIX socket that carries frames in the framing of QEMU's `-netdev stream` and
//! `-netdev dgram` and of passt, so that a virtual machine connects without any privilege.
//!
//! | key | meaning | default |
//! |---|---|---|
//! | `path` | the socket to listen on, or to connect to with `mode=connect`; with `type=dgram` our own end | |
//! | `type` | `stream`: each frame follows its length (32 bits, big-endian); `dgram`: one frame per datagram | `stream` |
//! | `mode` | `listen`: serves one connection after the other; `connect` | `listen` |
//! | `peer` | `dgram` only: the peer's socket | the first sender's |
//!
//! A frame has at most 69,376 bytes. The port closes a stream that announces a longer one. A stream port
//! has a carrier while it is connected. A full stream stops the device's transmit queue; a full datagram
//! socket loses frames (`tx_errors`).

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll;
use weir_packet::batch::BATCH;
use weir_packet::packet::JUMBO_DATA;
use weir_packet::vnet::Wired;
use weir_packet::{Batch, Cache, Packet};

use crate::keys::Keys;
use crate::port::{Counters, Facts, Kind, Port, Sieve, Site, failed};
use crate::{Error, Result};

/// The kind.
pub static KIND: Kind = Kind {
    name: NAME,
    keys: &["path", "type", "mode", "peer"],
    open,
    adopt,
    virtual_time: None,
};

const NAME: &str = "socket";
/// Bytes of the length in front of a frame.
const PREFIX: usize = 4;
/// Bytes of the input buffer, and the most that waits to be written.
const BUFFER: usize = 256 << 10;

const TYPES: &[&str] = &["stream", "dgram"];
const MODES: &[&str] = &["listen", "connect"];

/// Returns whether a path is a socket on which nobody listens any more.
fn is_stale(path: &Path) -> bool {
    let socket = path
        .symlink_metadata()
        .is_ok_and(|data| data.file_type().is_socket());
    socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn open(keys: &Keys) -> Result<Vec<OwnedFd>> {
    let path = keys.require("path")?;
    let connects = keys.choice("mode", MODES)? == 1;
    let file: OwnedFd = match keys.choice("type", TYPES)? {
        0 if keys.get("peer").is_some() => {
            return Err(Error::new(NAME, "peer= belongs to type=dgram"));
        }
        0 if connects => UnixStream::connect(path)
            .map_err(failed(NAME, path))?
            .into(),
        0 => {
            if is_stale(Path::new(path)) {
                std::fs::remove_file(path).map_err(failed(NAME, path))?;
            }
            UnixListener::bind(path).map_err(failed(NAME, path))?.into()
        }
        _ if keys.get("mode").is_some() => {
            return Err(Error::new(NAME, "mode= belongs to type=stream"));
        }
        _ => {
            if is_stale(Path::new(path)) {
                std::fs::remove_file(path).map_err(failed(NAME, path))?;
            }
            UnixDatagram::bind(path).map_err(failed(NAME, path))?.into()
        }
    };
    Ok(vec![file])
}

fn adopt(keys: &Keys, files: Vec<OwnedFd>, _: &Site) -> Result<Arc<dyn Port>> {
    let [file] = <[OwnedFd; 1]>::try_from(files)
        .map_err(|_| Error::new(NAME, "a socket port has one descriptor"))?;
    let name = keys.require("path")?.to_owned();
    let end = match (keys.choice("type", TYPES)?, keys.choice("mode", MODES)?) {
        (0, 0) => End::Listener(file.into(), None),
        (0, _) => End::Stream(Stream::new(file.into())),
        _ => End::Datagram(Datagram {
            socket: file.into(),
            peer: keys.get("peer").map(PathBuf::from),
            buffer: vec![0; BUFFER].into(),
        }),
    };
    let port = Socket::new(name, end).map_err(failed(NAME, "epoll"))?;
    Ok(Arc::new(port))
}

/// A connection and its buffers.
#[derive(Debug)]
struct Stream {
    socket: UnixStream,
    /// Bytes from `start` to `end` are read and not yet parsed.
    input: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes of accepted frames for which the socket had no room.
    output: Vec<u8>,
    /// Whether the epoll set reports room.
    waits: bool,
}

#[derive(Debug)]
struct Datagram {
    socket: UnixDatagram,
    peer: Option<PathBuf>,
    buffer: Box<[u8]>,
}

#[derive(Debug)]
enum End {
    Listener(UnixListener, Option<Stream>),
    Stream(Stream),
    Datagram(Datagram),
}

/// A socket port.
#[derive(Debug)]
pub struct Socket {
    name: String,
    /// The descriptor that callers poll. It stays the same while connections come and go.
    epoll: OwnedFd,
    end: Mutex<End>,
    counters: Counters,
}

/// The place of frames on their way from a buffer: a batch, after a sieve if there is one.
struct Out<'a, 's> {
    memory: &'a mut Cache,
    batch: &'a mut Batch,
    sieve: Option<Sieve<'s>>,
    counters: &'a Counters,
    /// Frames that the sieve has dropped.
    dropped: usize,
}

impl Out<'_, '_> {
    /// The number of frames that may follow now.
    fn room(&self) -> usize {
        self.batch.room().min(BATCH.saturating_sub(self.dropped))
    }

    /// Has up to 64 frames judged and makes packets of those that are kept. A frame without memory is lost.
    fn deliver(&mut self, frames: &[&[u8]]) {
        let dropped = match &mut self.sieve {
            Some(sieve) if !frames.is_empty() => sieve(frames),
            _ => 0,
        };
        let kept = frames.iter().enumerate();
        for (_, frame) in kept.filter(|(n, _)| dropped >> n & 1 == 0) {
            match self.memory.packet(frame) {
                Some(packet) => drop(self.batch.push(packet)),
                None => Counters::add(&self.counters.rx_dropped, 1),
            }
        }
        self.dropped += dropped.count_ones() as usize;
    }
}

/// The result of reading a connection.
enum Look {
    /// Nothing more waits, or the batch is full.
    Empty,
    /// The peer has closed the connection or sent an impossible length.
    Over,
}

impl Stream {
    fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            input: vec![0; BUFFER].into(),
            start: 0,
            end: 0,
            output: Vec::new(),
            waits: false,
        }
    }

    /// Returns the range of the next complete frame in the input. `Err` means an impossible length.
    fn next(&self) -> std::result::Result<Option<std::ops::Range<usize>>, ()> {
        let held = self.input.get(self.start..self.end).unwrap_or_default();
        let Some((prefix, rest)) = held.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > JUMBO_DATA {
            return Err(());
        }
        let begin = self.start + PREFIX;
        Ok((rest.len() >= len).then(|| begin..begin + len))
    }

    /// Passes on the complete frames of the input, as many as there is room for. Returns whether there were as
    /// many. `Err` means an impossible length, behind the frames that were passed on.
    fn deliver(&mut self, out: &mut Out<'_, '_>) -> std::result::Result<bool, ()> {
        let room = out.room();
        let mut places = [const { 0..0 }; BATCH];
        let (mut count, mut next) = (0, Ok(None));
        for slot in places.iter_mut().take(room) {
            next = self.next();
            let Ok(Some(place)) = &next else { break };
            self.start = place.end;
            (*slot, count) = (place.clone(), count + 1);
        }
        let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
        for (frame, place) in frames.iter_mut().zip(places) {
            *frame = self.input.get(place).unwrap_or_default();
        }
        out.deliver(frames.get(..count).unwrap_or_default());
        next.map(|_| count == room)
    }

    fn receive(&mut self, out: &mut Out<'_, '_>, epoll: &OwnedFd) -> Look {
        if self.waits && !self.flush(epoll) {
            return Look::Over;
        }
        loop {
            match self.deliver(out) {
                Err(()) => return Look::Over,
                Ok(true) => return Look::Empty,
                Ok(false) => {
                    self.input.copy_within(self.start..self.end, 0);
                    (self.start, self.end) = (0, self.end - self.start);
                    let room = self.input.get_mut(self.end..).unwrap_or_default();
                    match self.socket.read(room) {
                        Ok(0) => return Look::Over,
                        Ok(n) => self.end += n,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            return Look::Empty;
                        }
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => return Look::Over,
                    }
                }
            }
        }
    }

    /// Writes the waiting output and has the epoll set report room while some is left. Returns `false`
    /// if the connection is over.
    fn flush(&mut self, epoll: &OwnedFd) -> bool {
        let mut done = 0;
        let alive = loop {
            let rest = self.output.get(done..).unwrap_or_default();
            if rest.is_empty() {
                break true;
            }
            match self.socket.write(rest) {
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break false,
            }
        };
        self.output.drain(..done);
        let waits = !self.output.is_empty();
        if waits != self.waits {
            self.waits = waits;
            let flags = if waits {
                FRAMES | epoll::EventFlags::OUT
            } else {
                FRAMES
            };
            return alive && epoll::modify(epoll, &self.socket, SOMETHING, flags).is_ok();
        }
        alive
    }

    /// Accepts frames while the waiting output is short. Returns `None` if the connection is over.
    fn send(&mut self, frames: &[Packet], epoll: &OwnedFd) -> Option<usize> {
        let mut taken = 0;
        loop {
            if !self.flush(epoll) {
                return None;
            }
            let rest = frames.get(taken..).unwrap_or_default();
            if rest.is_empty() || self.output.len() >= BUFFER {
                // Frames are refused only while output waits, so the epoll set reports room later.
                return Some(taken);
            }
            for packet in rest {
                if self.output.len() >= BUFFER {
                    break;
                }
                let frame = Wired::new(packet);
                self.output.extend((frame.len() as u32).to_be_bytes());
                for part in frame.parts() {
                    self.output.extend_from_slice(part);
                }
                taken += 1;
            }
        }
    }
}

impl Datagram {
    /// Reads datagrams one behind the other while the longest one fits, and passes them on together.
    fn receive(&mut self, out: &mut Out<'_, '_>) -> io::Result<()> {
        loop {
            let room = out.room();
            let mut places = [const { 0..0 }; BATCH];
            let (mut count, mut end) = (0, 0);
            let mut waits = Ok(true);
            while count < room && end + JUMBO_DATA <= self.buffer.len() {
                let rest = self.buffer.get_mut(end..).unwrap_or_default();
                let longest = rest.len().min(JUMBO_DATA);
                match self.socket.recv_from(&mut rest[..longest]) {
                    Ok((len, from)) => {
                        if let (None, Some(path)) = (&self.peer, from.as_pathname()) {
                            self.peer = Some(path.to_owned());
                        }
                        places[count] = end..end + len;
                        (count, end) = (count + 1, end + len);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        waits = Ok(false);
                        break;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        waits = Err(error);
                        break;
                    }
                }
            }
            let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
            for (frame, place) in frames.iter_mut().zip(places) {
                *frame = self.buffer.get(place).unwrap_or_default();
            }
            out.deliver(frames.get(..count).unwrap_or_default());
            if !waits? || count == room {
                return Ok(());
            }
        }
    }

    fn send(&mut self, frames: &[Packet], counters: &Counters) {
        for packet in frames {
            let bytes = Wired::new(packet).parts().concat();
            let result = match &self.peer {
                Some(peer) => self.socket.send_to(&bytes, peer).map(drop),
                None => Err(io::ErrorKind::NotConnected.into()),
            };
            // Nobody is connected now, or the reader's queue is full.
            Counters::add(&counters.tx_errors, u64::from(result.is_err()));
        }
    }
}

/// The events of the inner epoll set need not identify their descriptor.
const SOMETHING: epoll::EventData = epoll::EventData::new_u64(0);
/// A frame or a connection waits.
const FRAMES: epoll::EventFlags = epoll::EventFlags::IN;

impl Socket {
    fn new(name: String, end: End) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        match &end {
            End::Listener(listener, _) => {
                listener.set_nonblocking(true)?;
                epoll::add(&epoll, listener, SOMETHING, FRAMES)?;
            }
            End::Stream(stream) => watch(&epoll, &stream.socket)?,
            End::Datagram(datagram) => {
                datagram.socket.set_nonblocking(true)?;
                epoll::add(&epoll, &datagram.socket, SOMETHING, FRAMES)?;
            }
        }
        Ok(Self {
            name,
            epoll,
            end: Mutex::new(end),
            counters: Counters::default(),
        })
    }

    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches a connection for frames.
fn watch(epoll: &OwnedFd, socket: &UnixStream) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    Ok(epoll::add(epoll, socket, SOMETHING, FRAMES)?)
}

impl Port for Socket {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn facts(&self) -> Facts {
        Facts {
            name: self.name.clone(),
            ..Facts::default()
        }
    }

    fn has_carrier(&self) -> bool {
        !matches!(&*self.end(), End::Listener(_, None))
    }

    fn descriptor(&self, _: u16) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    fn sifts(&self) -> bool {
        true
    }

    fn take(
        &self,
        _: u16,
        memory: &mut Cache,
        batch: &mut Batch,
        sieve: Option<Sieve<'_>>,
    ) -> io::Result<usize> {
        let before = batch.len();
        let mut out = Out {
            memory,
            batch,
            sieve,
            counters: &self.counters,
            dropped: 0,
        };
        match &mut *self.end() {
            End::Datagram(datagram) => datagram.receive(&mut out)?,
            End::Stream(stream) => {
                let look = stream.receive(&mut out, &self.epoll);
                if matches!(look, Look::Over) && out.batch.len() + out.dropped == before {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
            }
            End::Listener(listener, current) => {
                if current.is_none() {
                    match listener.accept() {
                        Ok((socket, _)) => {
                            watch(&self.epoll, &socket)?;
                            // The next client waits until this connection is over.
                            epoll::modify(
                                &self.epoll,
                                &*listener,
                                SOMETHING,
                                epoll::EventFlags::empty(),
                            )?;
                            *current = Some(Stream::new(socket));
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
                if let Some(stream) = current
                    && matches!(stream.receive(&mut out, &self.epoll), Look::Over)
                {
                    *current = None;
                    epoll::modify(&self.epoll, &*listener, SOMETHING, FRAMES)?;
                }
            }
        }
        Ok(out.batch.len() - before + out.dropped)
    }

    fn send(&self, _: u16, frames: &[Packet]) -> io::Result<usize> {
        match &mut *self.end() {
            End::Datagram(datagram) => {
                datagram.send(frames, &self.counters);
                Ok(frames.len())
            }
            End::Stream(stream) => stream
                .send(frames, &self.epoll)
                .ok_or_else(|| io::ErrorKind::ConnectionReset.into()),
            // `receive` notices the end of a connection and accepts the next one.
            End::Listener(_, current) => {
                let taken = current
                    .as_mut()
                    .and_then(|stream| stream.send(frames, &self.epoll));
                Ok(taken.unwrap_or_else(|| {
                    Counters::add(&self.counters.tx_errors, frames.len() as u64);
                    frames.len()
                }))
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
