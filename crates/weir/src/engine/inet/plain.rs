// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plain datagram sockets ([`weir_intercept::datagram`]): programs read data from the pair, and write data to it.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

use rustix::event::PollFlags;
use rustix::io::Errno as Os;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use weir_intercept::datagram::{self, Datagram};
use weir_intercept::{Errno, InetReply, SocketId};
use weir_socket::Outgoing;

use super::{Endpoint, Engine};

/// The most packets that are kept while a socket becomes plain; further ones are lost, as without room.
const MOST_HELD: usize = 256;
/// The longest packet that a program may have written, in bytes: no send buffer of a pair takes a longer one.
const LONGEST: usize = 512 << 10;
const LOST: &str =
    "what a program wrote to a datagram socket is lost, because the socket is not connected";

/// How datagrams are written to a pair.
#[derive(Debug, Default)]
enum Form {
    /// With their heads.
    #[default]
    Whole,
    /// They are kept, with their heads.
    Held(Vec<Vec<u8>>),
    /// The data alone.
    Plain,
}

/// The form of the packets of a pair.
#[derive(Debug, Default)]
pub(super) struct Packets {
    /// Held for reading while a packet is written.
    form: RwLock<Form>,
    /// Room for a packet. Held while packets are taken from the pair and sent, so that they keep their order. Taken
    /// outside of `with_cx`.
    taking: Mutex<Vec<u8>>,
    /// The user knows of data that were lost for want of an address.
    told: AtomicBool,
}

impl Packets {
    /// Writes a datagram to the pair.
    pub(super) fn write(&self, wire: &OwnedFd, datagram: &Datagram<'_>) -> Result<(), Os> {
        match &*self.form.read().unwrap_or_else(PoisonError::into_inner) {
            Form::Whole => {
                let head = datagram.head();
                let parts = [
                    IoSlice::new(&head),
                    IoSlice::new(datagram.from),
                    IoSlice::new(datagram.control),
                    IoSlice::new(datagram.data),
                ];
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                return sendmsg(wire, &parts, &mut SendAncillaryBuffer::default(), flags).map(drop);
            }
            Form::Plain => return write_plain(wire, datagram),
            Form::Held(_) => {}
        }
        match &mut *self.form.write().unwrap_or_else(PoisonError::into_inner) {
            Form::Held(held) if held.len() < MOST_HELD => held.push(datagram.to_bytes()),
            Form::Held(_) => return Err(Os::NOBUFS),
            // It has become plain meanwhile, for ever.
            _ => return write_plain(wire, datagram),
        }
        Ok(())
    }

    fn is_plain(&self) -> bool {
        matches!(
            &*self.form.read().unwrap_or_else(PoisonError::into_inner),
            Form::Plain
        )
    }

    /// Keeps what comes, unless the packets are plain.
    fn hold(&self) {
        let mut form = self.form.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*form, Form::Whole) {
            *form = Form::Held(Vec::new());
        }
    }

    /// Writes plain packets from now on, first those of `before`, each after its length, and those that were kept.
    fn become_plain(&self, wire: &OwnedFd, mut before: &[u8]) {
        let mut form = self.form.write().unwrap_or_else(PoisonError::into_inner);
        let mut packets = Vec::new();
        while let Some((length, rest)) = before.split_first_chunk() {
            let Some((packet, rest)) = rest.split_at_checked(u32::from_ne_bytes(*length) as usize)
            else {
                break;
            };
            packets.push(packet.to_vec());
            before = rest;
        }
        if let Form::Held(held) = std::mem::replace(&mut *form, Form::Plain) {
            packets.extend(held);
        }
        for packet in &packets {
            if let Some(datagram) = Datagram::parse(packet) {
                // Without room it is lost.
                let _ = write_plain(wire, &datagram);
            }
        }
    }
}

fn write_plain(wire: &OwnedFd, datagram: &Datagram<'_>) -> Result<(), Os> {
    match datagram::send_plain(wire, datagram) {
        // So many descriptors are on their way that the user may have no more: no room.
        Err(Errno(libc::ETOOMANYREFS | libc::EMFILE | libc::ENFILE)) => Err(Os::NOBUFS),
        done => done.map_err(|error| Os::from_raw_os_error(error.0)),
    }
}

impl Engine {
    /// Keeps what a datagram socket receives until it is plain.
    pub(super) fn hold_packets(&self, id: SocketId) -> Result<InetReply, Errno> {
        self.endpoint(id)?.packets.hold();
        Ok(InetReply::default())
    }

    /// Makes a datagram socket plain.
    pub(super) fn make_plain(&self, id: SocketId, before: &[u8]) -> Result<InetReply, Errno> {
        let endpoint = self.endpoint(id)?;
        if let Some(wire) = endpoint.wire() {
            endpoint.packets.become_plain(&wire, before);
        }
        Ok(InetReply::default())
    }

    /// Sends what a program has written to the pair of a plain socket. The program does not learn of an error; the
    /// user does if there is no address to go to.
    pub(super) fn take_packets(&self, endpoint: &Endpoint) {
        let (Some(wire), Ok(socket)) = (endpoint.wire(), endpoint.socket()) else {
            return;
        };
        if !endpoint.packets.is_plain() {
            return;
        }
        let mut data = super::lock(&endpoint.packets.taking);
        data.resize(LONGEST, 0);
        loop {
            let length = match recv(&wire, &mut data[..], RecvFlags::DONTWAIT) {
                // An empty datagram, or the end.
                Ok((0, _)) if super::stream::events(&wire).intersects(PollFlags::HUP) => return,
                Ok((length, _)) => length,
                Err(Os::INTR) => continue,
                Err(_) => return,
            };
            let message = Outgoing {
                to: &[],
                control: &[],
                data: &data[..length],
                flags: 0,
            };
            let sent = self.with_cx(|cx| socket.send(cx, &message));
            let lost = sent.is_err_and(|error| error == libc::EDESTADDRREQ);
            if lost && !endpoint.packets.told.swap(true, Relaxed) {
                eprintln!("weir: {LOST}");
            }
        }
    }
}
