// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rtnetlink wire format: attribute reader and writer, policies, constants. The crate has no
//! state.
//!
//! It holds what either side of an rtnetlink socket needs for encoding and decoding, and no more:
//! no sockets, no I/O, no threads, no unsafe code, no dependencies. Its behaviour is that of Linux
//! 6.1, down to the errno, the extended acknowledgement sentence and the byte order of a reply.
//!
//! # Reading a request
//!
//! [`messages`] iterates over a datagram as `netlink_rcv_skb` does. A [`Message`] gives its fixed
//! header ([`Fixed`]) and its attributes, either as an iterator ([`Attrs`]) or checked against a
//! [`Policy`] and indexed by type ([`Table`]). Nothing is copied or allocated.
//!
//! ```
//! use weir_netlink::{Error, IfInfoMsg, Message, Policy, Rule, Strictness, ifla, policy};
//!
//! static LINK: Policy = policy! { max ifla::MAX;
//!     ifla::IFNAME => Rule::string(15),
//!     ifla::MTU => Rule::u32(),
//!     ifla::LINKINFO => Rule::nested_any(),
//! };
//!
//! fn new_link(request: &Message<'_>) -> Result<(), Error> {
//!     let (head, attrs) = request.parse::<IfInfoMsg>(&LINK, Strictness::Liberal)?;
//!     let name = attrs.str(ifla::IFNAME)?.unwrap_or("");
//!     if let Some(mtu) = attrs.get(ifla::MTU) {
//!         if mtu.u32()? < 68 {
//!             return Err(mtu.invalid("mtu less than device minimum"));
//!         }
//!     }
//!     println!("link {} {name}", head.index);
//!     Ok(())
//! }
//! ```
//!
//! # Refusing it
//!
//! An [`Error`] is an errno with the additions of an extended acknowledgement: a sentence, the
//! offset of the bad attribute, the rule it violated, the missing attribute. Policies create errors
//! as `lib/nlattr.c` does; [`Attr::invalid`], [`Error::msg`] and [`Error::at`] create the others.
//! [`write_ack`] turns an error into the bytes that `netlink_ack` sends, and [`write_done`] ends a
//! dump.
//!
//! # Writing
//!
//! A [`Writer`] appends messages to a buffer, with an optional size limit. A message that does not
//! fit is removed completely, so a dump continues with the same object in the next datagram.
//!
//! # Names
//!
//! [`rtm`], [`nlm`], [`ifla`], [`ifa`], [`rta`], [`nda`], [`fra`], [`tca`] and the other modules
//! hold Linux's constants without their prefixes; [`tca`] has a module for each qdisc, classifier
//! and action. [`errno`] and [`af`] are included too, so that no user needs libc for a number.
//! [`print`](mod@print) formats any message as text.
//!
//! # How conformance to Linux is tested
//!
//! - Some 270 recorded commands of `ip`, `tc` and `bridge` with the datagrams they sent
//!   (`tests/vectors`) are read, printed, and written again byte for byte.
//! - The parser and the acknowledgement reproduce byte for byte the kernel's replies to refused
//!   requests under each socket option (`tests/answers`).
//! - netlink-packet-route, an independent implementation, reads and writes the same
//!   (`tests/crosscheck.rs`).
//! - Properties hold for arbitrary bytes and trees; the fuzz target shares them (`src/fuzz.rs`).
//!
//! # Not included
//!
//! Sockets and their options, multicast, dump cursors and permissions are the server's work.
//! Generic netlink and other families, and the kernel's warnings to its own log, are not included
//! either. Padding before 64-bit values is off unless [`Writer::pad64`] turns it on, as on x86-64
//! and arm64.
#![deny(unsafe_code)]

mod ack;
mod attr;
mod consts;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod header;
mod message;
mod piece;
mod policy;
pub mod print;
mod wire;
mod writer;

pub use ack::{AckOptions, refusal, write_ack, write_done};
pub use attr::{Attr, Attrs, align, attrs};
pub use consts::*;
pub use error::{Describe, Error};
pub use header::*;
pub use message::{HEADER_LEN, Header, Message, Messages, messages};
pub use piece::{Laid, Name, Piece, lay_out};
pub use policy::{
    Check, Kind, Policy, Rule, Strictness, TABLE_SIZE, Table, index, parse, parse_at, validate,
};
pub use writer::{Full, Mark, Writer, bitfield32};
