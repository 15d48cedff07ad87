// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `struct msghdr` of a client.
use crate::backend::Errno;
use crate::datagram::Datagram;
use crate::seccomp::Call;
use crate::sys;
use std::borrow::Cow;

/// The size of a struct msghdr.
pub(super) const MSGHDR: usize = 56;
/// The size of a struct mmsghdr: a msghdr, the length of the message, padding.
pub(super) const MMSGHDR: u64 = 64;
/// The offsets of fields that a receive changes.
const NAMELEN: u64 = 8;
const CONTROLLEN: u64 = 40;
const FLAGS: u64 = 48;
/// The largest number of parts (`UIO_MAXIOV`).
const MAX_PARTS: u64 = 1024;
/// The most data of one datagram that are copied, in bytes.
const MAX_DATA: usize = 1 << 20;
/// The length of the longest address: a `sockaddr_storage`.
pub(super) const MAX_ADDRESS: usize = 128;
/// The most control data of one datagram, in bytes.
const MAX_CONTROL: usize = 1 << 16;

/// What becomes of more data than are copied at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Longer {
    /// A datagram is sent whole or not at all: EMSGSIZE.
    Refused,
    /// Of a stream, the beginning is sent.
    Cut,
}

/// A message of a client: where its parts are.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The msghdr itself, if there is one.
    header: Option<u64>,
    name: u64,
    name_length: i32,
    /// Where the room for the name is read and its length is written back, if not in the msghdr.
    name_length_at: Option<u64>,
    parts: Vec<(u64, u64)>,
    control: u64,
    control_length: u64,
}

/// Returns a word of a structure of words.
pub(super) fn word(bytes: &[u8], number: usize) -> u64 {
    let at = number * 8;
    let word = bytes.get(at..at + 8).and_then(|word| word.first_chunk());
    word.map_or(0, |word| u64::from_ne_bytes(*word))
}

fn read(tid: u32, at: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; length];
    if length > 0 && sys::read_memory(tid, at, &mut bytes)? < length {
        return Err(Errno(libc::EFAULT));
    }
    Ok(bytes)
}

/// Reads an array of struct iovec. A length beyond the largest signed one is EINVAL, a part that ends there is EFAULT
/// (`import_iovec`).
fn parts(tid: u32, at: u64, count: u64) -> Result<Vec<(u64, u64)>, Errno> {
    let bytes = read(tid, at, count as usize * 16)?;
    let part = |part: &[u8]| match word(part, 1) {
        length if length > i64::MAX as u64 => Err(Errno(libc::EINVAL)),
        length if word(part, 0).saturating_add(length) > i64::MAX as u64 => {
            Err(Errno(libc::EFAULT))
        }
        length => Ok((word(part, 0), length)),
    };
    bytes.chunks_exact(16).map(part).collect()
}

impl Place {
    /// The message of `read`, `write`, `readv` or `writev`.
    pub(super) fn of_transfer(call: &Call) -> Result<Self, Errno> {
        let parts = match call.number {
            libc::SYS_readv | libc::SYS_writev if call.args[2] > MAX_PARTS => {
                return Err(Errno(libc::EINVAL));
            }
            libc::SYS_readv | libc::SYS_writev => parts(call.tid, call.args[1], call.args[2])?,
            _ => vec![(call.args[1], call.args[2])],
        };
        Ok(Self {
            parts,
            ..Self::default()
        })
    }

    /// The message of `sendto`.
    pub(super) fn of_sendto(call: &Call) -> Self {
        Self {
            parts: vec![(call.args[1], call.args[2])],
            name: call.args[4],
            name_length: call.int(5),
            ..Self::default()
        }
    }

    /// The message of `recvfrom`. The room for the name is read when there is a name (`move_addr_to_user`).
    pub(super) fn of_recvfrom(call: &Call) -> Self {
        Self {
            parts: vec![(call.args[1], call.args[2])],
            name: call.args[4],
            name_length_at: (call.args[4] != 0).then_some(call.args[5]),
            ..Self::default()
        }
    }

    /// The message with a msghdr at this address.
    pub(super) fn at(tid: u32, header: u64) -> Result<Self, Errno> {
        let bytes: [u8; MSGHDR] = sys::read_array(tid, header)?;
        let name_length = word(&bytes, 1) as u32 as i32;
        if name_length < 0 {
            return Err(Errno(libc::EINVAL));
        }
        if word(&bytes, 3) > MAX_PARTS {
            return Err(Errno(libc::EMSGSIZE));
        }
        Ok(Self {
            header: Some(header),
            name: word(&bytes, 0),
            name_length: if word(&bytes, 0) == 0 { 0 } else { name_length },
            name_length_at: None,
            parts: parts(tid, word(&bytes, 2), word(&bytes, 3))?,
            control: word(&bytes, 4),
            control_length: if word(&bytes, 4) == 0 {
                0
            } else {
                word(&bytes, 5)
            },
        })
    }

    /// Returns whether there are control messages.
    pub(super) fn has_control(&self) -> bool {
        self.control != 0
    }

    /// Returns the room for data, in bytes.
    pub(super) fn room(&self) -> u64 {
        let add = |sum: u64, part: &(u64, u64)| sum.saturating_add(part.1);
        self.parts.iter().fold(0, add)
    }

    /// Returns the descriptors of the control messages (`SCM_RIGHTS`).
    pub(super) fn passed(&self, tid: u32) -> Vec<i32> {
        let room = usize::try_from(self.control_length).unwrap_or(usize::MAX);
        let control = read(tid, self.control, room.min(MAX_CONTROL)).unwrap_or_default();
        let mut left = &control[..];
        let mut found = Vec::new();
        while left.len() >= CMSGHDR {
            let length = usize::try_from(word(left, 0)).unwrap_or(usize::MAX);
            let kind = word(left, 1);
            let rights = [libc::SOL_SOCKET, libc::SCM_RIGHTS]
                .map(i32::to_ne_bytes)
                .concat();
            let Some(body) = left.get(CMSGHDR..length) else {
                break;
            };
            if kind.to_ne_bytes() == rights[..] {
                let fds = body.as_chunks::<4>().0.iter();
                found.extend(fds.map(|fd| i32::from_ne_bytes(*fd)));
            }
            left = left.get(length.next_multiple_of(8)..).unwrap_or_default();
        }
        found
    }

    /// Appends the data, at most `most` bytes.
    pub(super) fn gather(&self, tid: u32, most: usize, into: &mut Vec<u8>) -> Result<(), Errno> {
        into.extend(sys::read_pieces(tid, &self.data(most, Longer::Refused)?)?);
        Ok(())
    }

    /// Where the data are that are sent, at most `most` bytes.
    fn data(&self, most: usize, longer: Longer) -> Result<Vec<(u64, usize)>, Errno> {
        let mut room = most;
        let piece = |&(at, length): &(u64, u64)| {
            let fits = usize::try_from(length).unwrap_or(usize::MAX).min(room);
            if longer == Longer::Refused && fits as u64 != length {
                return Err(Errno(libc::EMSGSIZE));
            }
            room -= fits;
            Ok((at, fits))
        };
        self.parts.iter().map(piece).collect()
    }

    /// Reads what is sent: address, control messages, data; in one piece, with the length of the first two.
    pub(super) fn outgoing(&self, tid: u32, longer: Longer) -> Result<(Vec<u8>, u16, u32), Errno> {
        let name_length = match (self.name, usize::try_from(self.name_length)) {
            (0, _) => 0,
            (_, Ok(length)) if length <= MAX_ADDRESS => length,
            _ => return Err(Errno(libc::EINVAL)),
        };
        let control = usize::try_from(self.control_length).unwrap_or(usize::MAX);
        if control > MAX_CONTROL {
            return Err(Errno(libc::ENOBUFS));
        }
        let mut pieces = vec![(self.name, name_length), (self.control, control)];
        pieces.retain(|&(_, length)| length > 0);
        pieces.extend(self.data(MAX_DATA, longer)?);
        let all = sys::read_pieces(tid, &pieces)?;
        Ok((all, name_length as u16, control as u32))
    }

    /// Writes a datagram where the caller wants it. Returns the length that the call returns; `flags` are the caller's.
    pub(super) fn deliver(
        &self,
        tid: u32,
        datagram: &Datagram<'_>,
        flags: i32,
    ) -> Result<u64, Errno> {
        let mut pieces: Vec<(u64, &[u8])> = Vec::with_capacity(self.parts.len() + 5);
        let mut rest = datagram.data;
        for &(at, length) in &self.parts {
            let n = rest
                .len()
                .min(usize::try_from(length).unwrap_or(usize::MAX));
            let (now, later) = rest.split_at(n);
            if n > 0 {
                pieces.push((at, now));
            }
            rest = later;
        }
        let copied = datagram.data.len() - rest.len();
        let mut answer = datagram.flags as i32;
        if !rest.is_empty() || datagram.length as usize > datagram.data.len() {
            answer |= libc::MSG_TRUNC;
        }
        let name = datagram.from;
        if self.name != 0 {
            let room = match self.name_length_at {
                Some(at) => sys::read_array(tid, at).map(i32::from_ne_bytes),
                None => Ok(self.name_length),
            };
            let room = room.and_then(|room| usize::try_from(room).map_err(|_| Errno(libc::EINVAL)));
            let room = match room {
                Ok(room) => room,
                // The data have been written by then.
                Err(error) => {
                    sys::write_pieces(tid, &pieces)?;
                    return Err(error);
                }
            };
            let n = name.len().min(room);
            if n > 0 {
                pieces.push((self.name, &name[..n]));
            }
        }
        let name_length = (name.len() as u32).to_ne_bytes();
        if let Some(at) = self.name_length_at {
            pieces.push((at, &name_length));
        }
        let room = usize::try_from(self.control_length).unwrap_or(usize::MAX);
        let (control, is_cut) = fitting_messages(datagram.control, room);
        if is_cut {
            answer |= libc::MSG_CTRUNC;
        }
        let (control_length, answer) = ((control.len() as u64).to_ne_bytes(), answer.to_ne_bytes());
        if let Some(header) = self.header {
            if self.name != 0 {
                pieces.push((header + NAMELEN, &name_length));
            }
            pieces.push((header + FLAGS, &answer));
            let before = pieces.len();
            if !control.is_empty() {
                pieces.push((self.control, &control));
            }
            pieces.push((header + CONTROLLEN, &control_length));
            if !control.is_empty() && sys::write_pieces(tid, &pieces).is_ok() {
                pieces.clear();
            } else {
                // Control messages that cannot be written are none (`put_cmsg`).
                pieces.truncate(before);
                pieces.push((header + CONTROLLEN, &[0; 8]));
            }
        }
        sys::write_pieces(tid, &pieces)?;
        let whole = datagram.data.len().max(datagram.length as usize);
        Ok(if flags & libc::MSG_TRUNC != 0 {
            whole as u64
        } else {
            copied as u64
        })
    }
}

/// The size of a struct cmsghdr.
const CMSGHDR: usize = 16;

/// Returns the control messages for which there is room, and whether some are cut or left out. The last one is cut if there
/// is room for its header (`put_cmsg`).
fn fitting_messages(control: &[u8], room: usize) -> (Cow<'_, [u8]>, bool) {
    let mut end = 0;
    while let Some(length) = control
        .get(end..end + 8)
        .and_then(|length| length.first_chunk())
    {
        let length = usize::try_from(u64::from_ne_bytes(*length)).unwrap_or(usize::MAX);
        if length < CMSGHDR || length > control.len() - end {
            break;
        }
        let left = room.saturating_sub(end);
        if length > left {
            if left < CMSGHDR {
                return (control[..end.min(room)].into(), true);
            }
            let mut cut = control[..room].to_vec();
            cut[end..end + 8].copy_from_slice(&(left as u64).to_ne_bytes());
            return (cut.into(), true);
        }
        end = (end + length.next_multiple_of(8)).min(control.len());
    }
    (control[..end.min(room)].into(), end < control.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_message_without_room_is_cut() {
        let mut control = Vec::new();
        for length in [20u64, 24] {
            control.extend(length.to_ne_bytes());
            control.resize(control.len() + length.next_multiple_of(8) as usize - 8, 0);
        }
        assert_eq!(control.len(), 48);
        for (room, expected, length) in [
            (60, 48, 24),
            (48, 48, 24),
            (47, 47, 23),
            (40, 40, 16),
            (39, 24, 0),
            (24, 24, 0),
            (20, 20, 0),
        ] {
            let (fits, is_cut) = fitting_messages(&control, room);
            assert_eq!((fits.len(), is_cut), (expected, room < 48), "{room}");
            assert_eq!(fits[0], 20);
            let second = fits.get(24).copied().unwrap_or(0);
            assert_eq!(second, length, "{room}");
        }
        let (fits, is_cut) = fitting_messages(&control, 19);
        assert_eq!((fits.len(), fits[0], is_cut), (19, 19, true));
        assert_eq!(fitting_messages(&control, 15), ([][..].into(), true));
        assert_eq!(fitting_messages(&[], 64), ([][..].into(), false));
        assert!(fitting_messages(&[255; 32], 64).0.is_empty());
    }
}
