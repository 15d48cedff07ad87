// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Acknowledgements, errors and the end of a dump.
//!
//! Mirrors `netlink_ack` with `netlink_ack_tlv_fill`, and `netlink_dump_done`
//! (`net/netlink/af_netlink.c`).

use crate::consts::nlm;
use crate::error::Error;
use crate::message::{HEADER_LEN, Header, Message};
use crate::writer::{Full, Writer};

/// The acknowledgement options of the client's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckOptions {
    /// `NETLINK_CAP_ACK`: errors do not include the request.
    pub cap: bool,
    /// `NETLINK_EXT_ACK`: errors include the sentence, the offset and the other attributes.
    pub ext: bool,
}

/// Replies to a request with an `NLMSG_ERROR`: a success for `None`, a success with a warning for
/// error number 0, and an error otherwise. `pid` is the port id of the client.
///
/// A success is 36 bytes with `NLM_F_CAPPED`. An error includes the whole request unless
/// [`AckOptions::cap`] is set. With [`AckOptions::ext`] the attributes follow under
/// `NLM_F_ACK_TLVS`.
pub fn write_ack(
    w: &mut Writer,
    request: &Message<'_>,
    pid: u32,
    error: Option<&Error>,
    options: AckOptions,
) -> Result<(), Full> {
    let errno = error.map_or(0, |e| e.errno);
    let echo = errno != 0 && !options.cap;
    let flags = if echo { 0 } else { nlm::F_CAPPED };
    let mark = w.message(nlm::ERROR, flags, request.header.seq, pid);
    w.raw(&errno.wrapping_neg().to_ne_bytes());
    match request.bytes.get(..HEADER_LEN) {
        Some(header) if !echo => w.raw(header),
        _ => w.raw(request.bytes),
    }
    w.pad();
    if let Some(error) = error.filter(|_| options.ext) {
        let start = w.len();
        write_tlvs(w, error, request.bytes.len());
        if w.len() > start {
            w.add_flags(mark, nlm::F_ACK_TLVS);
        }
    }
    w.finish(mark)
}

/// Returns the length in bytes of what an `NLMSG_ERROR` has of the request: all of it, or its header.
pub(crate) fn echoed_len(message: &Message<'_>) -> usize {
    let header = message.payload().get(4..).and_then(<[u8]>::first_chunk);
    match header.filter(|_| !message.header.has(nlm::F_CAPPED)) {
        Some(header) => (Header::from_bytes(header).len as usize).max(HEADER_LEN),
        None => HEADER_LEN,
    }
}

/// Returns the first error among the messages of an answer, with its sentence if there is one.
pub fn refusal(answer: &[u8]) -> Option<Error> {
    crate::messages(answer).find_map(|message| {
        let code = message.payload().first_chunk();
        let errno = -i32::from_ne_bytes(*code.filter(|_| message.header.ty == nlm::ERROR)?);
        let mut error = Some(Error::new(errno)).filter(|_| errno != 0)?;
        if message.header.has(nlm::F_ACK_TLVS) {
            let mut attrs = message.attrs_after(4 + echoed_len(&message));
            let text = attrs.find(|attr| attr.ty == nlm::err::MSG);
            let text = text.map(|text| String::from_utf8_lossy(text.c_str()).into_owned());
            error.message = text.map(Into::into);
        }
        Some(error)
    })
}

/// Writes the extended acknowledgement attributes (`netlink_ack_tlv_fill`).
fn write_tlvs(w: &mut Writer, error: &Error, request_len: usize) {
    use nlm::err;
    if let Some(text) = &error.message {
        w.put_str(err::MSG, text);
    }
    if let Some(cookie) = &error.cookie {
        w.put(err::COOKIE, cookie);
    }
    if error.errno == 0 {
        return;
    }
    let inside = |at: &u32| (*at as usize) < request_len;
    if let Some(offset) = error.offset.filter(inside) {
        w.put_u32(err::OFFS, offset);
    }
    if let Some(rule) = error.policy {
        rule.describe(w, err::POLICY);
    }
    if let Some(ty) = error.miss_type {
        w.put_u32(err::MISS_TYPE, ty);
    }
    if let Some(nest) = error.miss_nest.filter(inside) {
        w.put_u32(err::MISS_NEST, nest);
    }
}

/// Ends a dump with an `NLMSG_DONE`. `flags` are added to `NLM_F_MULTI` (`NLM_F_DUMP_INTR`,
/// `NLM_F_DUMP_FILTERED`); an error ends the dump early. With `ext` the error's sentence is
/// included.
pub fn write_done(
    w: &mut Writer,
    flags: u16,
    seq: u32,
    pid: u32,
    error: Option<&Error>,
    ext: bool,
) -> Result<(), Full> {
    let mark = w.message(nlm::DONE, nlm::F_MULTI | flags, seq, pid);
    let errno = error.map_or(0, |e| e.errno);
    w.raw(&errno.wrapping_neg().to_ne_bytes());
    if let Some(text) = error.and_then(|e| e.message.as_deref()).filter(|_| ext) {
        w.add_flags(mark, nlm::F_ACK_TLVS);
        w.put_str(nlm::err::MSG, text);
    }
    w.finish(mark)
}
