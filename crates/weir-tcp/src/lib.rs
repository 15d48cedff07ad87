// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP as Linux has it, without I/O: segments and time go in, segments and events come out.
//!
//! A [`Connection`] is one end of a connection. Its owner passes it what arrives ([`Connection::segment`],
//! [`Connection::icmp_error`]), what the program does ([`Connection::send`], [`Connection::received`],
//! [`Connection::close`]), and the time ([`Connection::timeout`] at [`Connection::deadline`]); after each of these
//! [`Connection::poll`] gives the segments to send to an [`Output`], and [`Connection::take_events`] says what
//! the program should be told. Times are nanoseconds of any clock that does not run backwards. The crate reads no clock,
//! starts no thread, draws no random number, and knows neither addresses nor ports.
//!
//! The passive side is a [`Request`] (one half-open connection, `struct request_sock`), a [`listener::Listener`]
//! (the queues of half-open and of waiting connections) and [`cookie`] (SYN cookies). After the end a [`TimeWait`]
//! of a few words remains.
//!
//! | subject | where | source |
//! |---|---|---|
//! | states, checks of segments, challenge ACKs | `connection/input.rs` | RFC 9293, RFC 5961, `tcp_rcv_state_process` |
//! | acknowledgements, scoreboard | `connection/ack.rs`, `connection/sack.rs`, `sent.rs` | RFC 2018, RFC 2883, `tcp_ack` |
//! | loss recovery: RACK-TLP, PRR, F-RTO, undo | `connection/recovery.rs` | RFC 8985, RFC 6937, RFC 5682, RFC 3522 |
//! | sending: Nagle, cork, windows, TSO sizes | `connection/output.rs` | `tcp_write_xmit` |
//! | receiving: reassembly, delayed ACKs, windows, auto-tuning | `connection/receive.rs` | `tcp_data_queue`, `__tcp_select_window` |
//! | time-outs: RTO, probes, keep-alive | `connection/timer.rs`, `rtt.rs` | RFC 6298, `tcp_retransmit_timer` |
//! | Fast Open | `fast_open.rs` | RFC 7413 |
//! | MD5 signatures (made and checked by the owner, who knows the addresses) | `md5.rs` | RFC 2385 |
//! | congestion control | `congestion/` | RFC 5681, RFC 9438, draft-cardwell-iccrg-bbr-congestion-control-00 |
//!
//! Not implemented: urgent data (delivered in line),
//! path-MTU probing, AccECN.
#![forbid(unsafe_code)]

pub mod buffer;
pub mod config;
pub mod congestion;
pub mod connection;
pub mod cookie;
pub mod early;
pub mod fast_open;
pub mod header;
pub mod listener;
pub mod md5;
pub mod metrics;
pub mod options;
pub mod phase;
pub mod request;
pub mod rtt;
pub mod sent;
pub mod seq;
pub mod time;
pub mod time_wait;

pub use config::Config;
pub use congestion::Algorithm;
pub use connection::info::Info;
pub use connection::settings::{Path, Settings};
pub use connection::{Answer, Connection, Counter, Counts, Events, Opening, Part, State};
pub use header::{Header, Output, Segment};
pub use metrics::Metrics;
pub use options::Options;
pub use request::Request;
pub use time_wait::TimeWait;

/// The errors of a connection: positive errnos, as `SO_ERROR` reports them.
pub mod error {
    /// The peer has closed its end, or this end is closed for sending.
    pub const EPIPE: i32 = 32;
    /// The peer has reset the connection.
    pub const ECONNRESET: i32 = 104;
    /// The peer did not answer.
    pub const ETIMEDOUT: i32 = 110;
    /// The peer has refused the connection.
    pub const ECONNREFUSED: i32 = 111;
    /// The connection was aborted here.
    pub const ECONNABORTED: i32 = 103;
}
