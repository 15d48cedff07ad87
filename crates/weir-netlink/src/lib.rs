// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rtnetlink wire: attribute reader and writer, policies, constants. No state.
//!
//! What a control plane that speaks rtnetlink needs, from either side of the socket, and no more:
//! no sockets, no I/O, no threads, no unsafe code, no dependencies. Behaviour is that of Linux 6.1,
//! down to errno, extended acknowledgement sentence and byte order of an answer.
//!
//! # Reading a request
//!
//! [`messages`] walks a datagram as `netlink_rcv_skb` does. A [`Message`] gives its fixed header
//! ([`Fixed`]) and its attributes, either as a walk ([`Attrs`]) or checked against a [`Policy`] and
//! indexed by type ([`Table`]). Nothing is copied and nothing allocates.
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
//! An [`Error`] is an errno and what an extended acknowledgement adds: a sentence, the offset of
//! the bad attribute, the rule it broke, what is missing. Policies make theirs as `lib/nlattr.c`
//! does; [`Attr::invalid`], [`Error::msg`], [`Error::at`] make the others. [`write_ack`] turns one
//! into the bytes `netlink_ack` sends, [`write_done`] ends a dump.
//!
//! # Writing
//!
//! A [`Writer`] appends messages to a buffer, with a bound if wanted: a message that does not fit
//! is taken back as a whole, so a dump goes on from the same object in the next datagram.
//!
//! # Names
//!
//! [`rtm`], [`nlm`], [`ifla`], [`ifa`], [`rta`], [`nda`], [`fra`], [`tca`] and the rest hold Linux's
//! constants without their prefixes; [`tca`] has a module for each qdisc, classifier and action.
//! [`errno`] and [`af`] are here too, so that no user needs libc for a number. [`print`](mod@print)
//! shows any message as text.
//!
//! # What holds it to Linux
//!
//! - Some 270 recorded commands of `ip`, `tc` and `bridge` with the datagrams they sent
//!   (`tests/vectors`), read, shown, and written again byte for byte.
//! - Refused requests with the kernel's answers under each socket option (`tests/answers`), which
//!   parser and acknowledgement give byte for byte.
//! - netlink-packet-route, written by others, reads and writes the same (`tests/crosscheck.rs`).
//! - Properties over arbitrary bytes and trees, shared with the fuzz target (`src/fuzz.rs`).
//!
//! # What is not here
//!
//! Sockets and their options, multicast, dump cursors, permissions: a server's work. Generic
//! netlink and other families. The kernel's warnings to its own log. Padding before 64-bit values
//! is off unless [`Writer::pad64`] asks for it, as on x86-64 and arm64.
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
mod writer;

pub use ack::{AckOptions, write_ack, write_done};
pub use attr::{Attr, Attrs, align, attrs};
pub use consts::*;
pub use error::Error;
pub use header::*;
pub use message::{HEADER_LEN, Header, Message, Messages, messages};
pub use piece::{Name, Piece};
pub use policy::{
    Check, Kind, Policy, Rule, Strictness, TABLE_SIZE, Table, index, parse, parse_at, validate,
};
pub use writer::{Full, Mark, Writer, bitfield32};
