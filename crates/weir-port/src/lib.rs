// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where frames come from and where they go.
//!
//! A *source* yields [`Frame`]s in the order of its own clock, a *sink* takes them; both work on
//! plain bytes and know nothing of namespaces, devices or traffic control. One file a kind:
//!
//! | kind | source | sink | file |
//! |---|---|---|---|
//! | pcap, pcapng, either of them gzipped | [`pcap::Reader`] | [`pcap::Writer`] | `pcap/` |
//! | generator | [`generator::Generator`] | | `generator.rs` |
//! | null | | [`null::Null`] | `null.rs` |
//! | AF_PACKET | | [`af_packet::AfPacket`], which may have no room | `af_packet.rs` |
//!
//! Nothing here reads the wall clock or holds global state. Errors name the file, the byte where
//! it broke and what was wrong ([`Error`]).
#![deny(unsafe_code)]

pub mod af_packet;
pub mod error;
pub mod frame;
pub mod generator;
pub mod null;
pub mod pcap;

pub use error::{Error, Result};
pub use frame::{Direction, Frame};

/// Yields frames.
pub trait Source: Send {
    /// Overwrites `frame` with the next frame; `false` at the end, and then `frame` holds nothing
    /// of use. The buffers of `frame` are used again, so that a long capture allocates nothing
    /// per frame.
    ///
    /// After an error the source is at its end: what it yielded before stands.
    fn read(&mut self, frame: &mut Frame) -> Result<bool>;

    /// Frames yielded until now.
    fn frames(&self) -> u64;
}

/// Takes frames.
pub trait Sink: Send {
    /// Announces a device; its number goes into [`Frame::interface`]. Devices may be announced
    /// between frames.
    fn interface(&mut self, name: &str) -> Result<u32>;

    /// Takes one frame. What fails is reported by the first call that notices it; later frames
    /// are then counted as lost, without another error.
    fn write(&mut self, frame: &Frame) -> Result<()>;

    /// Pushes all frames taken until now to where a live reader sees them.
    fn flush(&mut self) -> Result<()>;

    /// Writes what is left. An error not reported before comes out here.
    fn finish(&mut self) -> Result<Summary>;
}

/// What became of the frames a [`Sink`] took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Frames taken while all went well.
    pub frames: u64,
    /// Their bytes, as captured.
    pub bytes: u64,
    /// Frames that came after a write failed.
    pub lost: u64,
}
