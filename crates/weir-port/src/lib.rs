// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources and sinks of frames.
//!
//! A *source* yields [`Frame`]s in the order of its own clock, and a *sink* accepts them. Both work
//! on plain bytes and know nothing about namespaces, devices or traffic control. There is one file
//! per kind:
//!
//! | kind | source | sink | file |
//! |---|---|---|---|
//! | pcap, pcapng, optionally gzipped | [`pcap::Reader`] | [`pcap::Writer`] | `pcap/` |
//! | generator | [`generator::Generator`] | | `generator.rs` |
//! | null | | [`null::Null`] | `null.rs` |
//! | AF_PACKET | | [`af_packet::AfPacket`], which may be full | `af_packet.rs` |
//!
//! A live [`Port`] is both at once, in batches of packets of a pool ([`kinds::KINDS`]):
//!
//! | kind | other end | file |
//! |---|---|---|
//! | `af_packet` | a device of the host, by packet sockets | `af_packet.rs`, `af_packet/` |
//! | `af_xdp` | queues of a device of the host, by AF_XDP sockets | `af_xdp.rs`, `af_xdp/` |
//! | `generator` | none: it generates | `generator/port.rs` |
//! | `null` | none: it counts and drops | `null.rs` |
//! | `pcap` | capture files | `pcap/port.rs` |
//! | `socket` | a program, by a UNIX socket: QEMU, passt | `socket.rs` |
//! | `tap` | a TAP device of the host | `tap.rs` |
//!
//! [`ring`] passes frames to a reader in another process.
//!
//! `paced.rs` gives the frames of a source their times. `vnet.rs` does the segmentation and the checksums that the host's senders leave to a device.
//!
//! Sources and sinks read no clock, and live ports that of their stack ([`port::Clock`]). Nothing here holds
//! global state. Errors report the file, the offset of
//! the offending byte and the cause ([`Error`]).
#![deny(unsafe_code)]

pub mod af_packet;
mod af_xdp;
pub mod bpf;
pub mod error;
pub mod frame;
#[doc(hidden)]
pub mod fuzz;
pub mod generator;
pub mod keys;
pub mod kinds;
pub mod null;
mod paced;
pub mod pcap;
pub mod port;
pub mod replay;
pub mod ring;
pub mod socket;
pub mod tap;
mod uring;
mod vnet;

pub use error::{Error, Result};
pub use frame::{Direction, Frame};
pub use port::Port;

/// A source of frames.
pub trait Source: Send {
    /// Overwrites `frame` with the next frame. Returns `false` at the end; the content of `frame`
    /// is then meaningless. The buffers of `frame` are reused, so reading a long capture does not
    /// allocate per frame.
    ///
    /// An error ends the source. The frames it yielded before remain valid.
    fn read(&mut self, frame: &mut Frame) -> Result<bool>;

    /// Returns the number of frames yielded so far.
    fn frames(&self) -> u64;
}

/// A sink for frames.
pub trait Sink: Send {
    /// Announces a device and returns its number for [`Frame::interface`]. Devices may be announced
    /// between frames.
    fn interface(&mut self, name: &str) -> Result<u32>;

    /// Accepts one frame. The first call that notices a failure returns the error; later frames are
    /// counted as lost without another error.
    fn write(&mut self, frame: &Frame) -> Result<()>;

    /// Flushes all accepted frames to where a live reader sees them.
    fn flush(&mut self) -> Result<()>;

    /// Writes all remaining data. Returns an error that was not reported before.
    fn finish(&mut self) -> Result<Summary>;
}

/// A summary of the frames a [`Sink`] accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Frames accepted before any failure.
    pub frames: u64,
    /// Their captured bytes.
    pub bytes: u64,
    /// Frames that arrived after a write failed.
    pub lost: u64,
}
