// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of `SOL_SOCKET` (`sk_setsockopt`, `sk_getsockopt` of `net/core/sock.c`).
//!
//! Not served: BPF programs other than classic filters, `SO_PEERCRED` and the like (of UNIX sockets), `SO_TXTIME`,
//! `SO_ZEROCOPY`, busy polling.

use weir_netlink::errno;
use weir_packet::bpf::{Instruction, LONGEST, Program};

use super::{BUFFER, Timestamp, int, of_int};
use crate::abi::so;
use crate::cpu::Cx;
use crate::socket::Socket;

/// `SOCK_MIN_SNDBUF` and `SOCK_MIN_RCVBUF` of a 64-bit machine.
const LEAST: (u32, u32) = (4608, 2304);
/// The flags of `SO_TIMESTAMPING` that Linux 6.1 knows.
const TIMESTAMPING: u32 = (1 << 16) - 1;
const TIMESTAMPING_OPT_TSTAMP: u32 = 1 << 11;

/// Reads a `struct sock_fprog` whose program follows it in place of the pointer: the number of instructions as `u16`,
/// 14 bytes of padding and pointer, then the instructions.
///
/// # Errors
/// EINVAL for a program that is malformed.
pub fn program(value: &[u8]) -> Result<Program, i32> {
    let count = value.first_chunk().ok_or(errno::EINVAL)?;
    let count = usize::from(u16::from_ne_bytes(*count));
    let code = value.get(16..).ok_or(errno::EINVAL)?;
    if count == 0 || count > LONGEST || code.len() < count * Instruction::LEN {
        return Err(errno::EINVAL);
    }
    let (chunks, _) = code.as_chunks::<{ Instruction::LEN }>();
    let instructions = chunks.iter().take(count);
    let instructions = instructions.map(|bytes| Instruction::from_bytes(*bytes));
    Program::new(instructions.collect()).map_err(|_| errno::EINVAL)
}

/// Sets an option.
///
/// # Errors
/// ENOPROTOOPT, EINVAL, ENODEV, EOPNOTSUPP for what is not served.
pub fn set(socket: &Socket, cx: &mut Cx<'_>, name: i32, value: &[u8]) -> Result<(), i32> {
    if name == so::BINDTODEVICE {
        return bind_to_device(socket, cx, value);
    }
    let val = int(value)?;
    let on = val != 0;
    if name == so::BINDTOIFINDEX {
        return match val {
            ..0 => Err(errno::EINVAL),
            index => {
                socket.bind_to_device(cx, index as u32);
                Ok(())
            }
        };
    }
    {
        let mut state = socket.state();
        let options = &mut state.options;
        match name {
            so::DEBUG => options.debug = on,
            so::REUSEADDR => options.reuse = on,
            so::REUSEPORT => options.reuseport = on,
            so::TYPE | so::PROTOCOL | so::DOMAIN | so::ERROR => return Err(errno::ENOPROTOOPT),
            so::DONTROUTE => options.dontroute = on,
            so::BROADCAST => options.broadcast = on,
            so::SNDBUF => {
                options.sndbuf = buffer(val, LEAST.0);
                options.buffers_set |= 1;
            }
            so::SNDBUFFORCE => {
                options.sndbuf = forced(val, LEAST.0);
                options.buffers_set |= 1;
            }
            so::RCVBUF => {
                options.rcvbuf = buffer(val, LEAST.1);
                options.buffers_set |= 2;
            }
            so::RCVBUFFORCE => {
                options.rcvbuf = forced(val, LEAST.1);
                options.buffers_set |= 2;
            }
            so::KEEPALIVE => options.keepalive = on,
            so::OOBINLINE => options.oobinline = on,
            so::NO_CHECK => options.no_check = on,
            so::PRIORITY => options.priority = val as u32,
            so::LINGER => {
                let seconds = value.get(4..).map_or(Err(errno::EINVAL), int)?;
                options.linger = (on, seconds);
            }
            so::BSDCOMPAT => {}
            so::PASSCRED => options.passcred = on,
            so::TIMESTAMP_OLD => options.timestamp = stamp(on, Timestamp::Micro(false)),
            so::TIMESTAMP_NEW => options.timestamp = stamp(on, Timestamp::Micro(true)),
            so::TIMESTAMPNS_OLD => options.timestamp = stamp(on, Timestamp::Nano(false)),
            so::TIMESTAMPNS_NEW => options.timestamp = stamp(on, Timestamp::Nano(true)),
            so::TIMESTAMPING_OLD | so::TIMESTAMPING_NEW => {
                if val as u32 & !TIMESTAMPING != 0 || val as u32 & TIMESTAMPING_OPT_TSTAMP != 0 {
                    return Err(errno::EINVAL);
                }
                options.timestamping = (val as u32, name == so::TIMESTAMPING_NEW);
            }
            so::RCVLOWAT => options.rcvlowat = if val < 0 { i32::MAX } else { val.max(1) },
            so::RCVTIMEO_OLD | so::RCVTIMEO_NEW => options.rcvtimeo = time(value)?,
            so::SNDTIMEO_OLD | so::SNDTIMEO_NEW => options.sndtimeo = time(value)?,
            so::MARK => options.mark = val as u32,
            so::RCVMARK => options.rcvmark = on,
            so::RXQ_OVFL => options.rxq_ovfl = on,
            // As of a socket without `set_peek_off`; datagrams are not served either.
            so::PEEK_OFF if val >= 0 => return Err(errno::EOPNOTSUPP),
            so::PEEK_OFF => options.peek_off = val,
            so::NOFCS => options.nofcs = on,
            so::SELECT_ERR_QUEUE => options.select_err_queue = on,
            so::BUSY_POLL if val < 0 => return Err(errno::EINVAL),
            so::BUSY_POLL => options.busy_poll = val,
            so::MAX_PACING_RATE => {
                options.pacing = match value.first_chunk() {
                    Some(rate) => u64::from_ne_bytes(*rate),
                    None if val == -1 => u64::MAX,
                    None => val as u32 as u64,
                };
            }
            so::INCOMING_CPU => options.incoming_cpu = val,
            so::TXREHASH => match val {
                -1 => options.txrehash = 255,
                0 | 1 => options.txrehash = val as u8,
                _ => return Err(errno::EINVAL),
            },
            so::BUF_LOCK if val & !3 != 0 => return Err(errno::EINVAL),
            so::BUF_LOCK => options.buffers_set = val as u8,
            so::LOCK_FILTER if options.lock_filter && !on => return Err(errno::EPERM),
            so::LOCK_FILTER => options.lock_filter = on,
            so::ATTACH_FILTER | so::DETACH_FILTER => {
                if options.lock_filter {
                    return Err(errno::EPERM);
                }
                let attach = name == so::ATTACH_FILTER;
                let filter = match attach {
                    true => Some(std::sync::Arc::new(program(value)?)),
                    false if state.filter.is_none() => return Err(errno::ENOENT),
                    false => None,
                };
                state.filter = filter;
            }
            _ => return Err(errno::ENOPROTOOPT),
        }
    }
    if matches!(name, so::REUSEADDR | so::REUSEPORT) {
        socket.publish(cx);
    }
    socket.options_changed();
    Ok(())
}

fn stamp(on: bool, what: Timestamp) -> Timestamp {
    if on { what } else { Timestamp::Off }
}

/// Returns the size of a buffer that a program asks for (`__sock_set_rcvbuf`).
fn buffer(val: i32, least: u32) -> u32 {
    ((val as u32).min(BUFFER) * 2).max(least)
}

fn forced(val: i32, least: u32) -> u32 {
    (val.clamp(0, i32::MAX / 2) as u32 * 2).max(least)
}

/// Reads a `struct timeval`, whose layout is the same in both forms on a 64-bit machine.
fn time(value: &[u8]) -> Result<[u8; 16], i32> {
    let bytes = *value.first_chunk::<16>().ok_or(errno::EINVAL)?;
    let micros = value.get(8..).and_then(|rest| rest.first_chunk());
    let micros = micros.map_or(0, |bytes| i64::from_ne_bytes(*bytes));
    match (0..1_000_000).contains(&micros) {
        true => Ok(bytes),
        false => Err(errno::EDOM),
    }
}

fn bind_to_device(socket: &Socket, cx: &mut Cx<'_>, value: &[u8]) -> Result<(), i32> {
    // IFNAMSIZ - 1
    let name = value.get(..15).unwrap_or(value);
    let len = name.iter().position(|byte| *byte == 0);
    let name = name.get(..len.unwrap_or(name.len())).unwrap_or_default();
    let index = match name {
        [] => 0,
        name => {
            let name = std::str::from_utf8(name).map_err(|_| errno::ENODEV)?;
            let device = socket.ns().device_by_name(name).ok_or(errno::ENODEV)?;
            device.ifindex()
        }
    };
    socket.bind_to_device(cx, index);
    Ok(())
}

/// Returns an option's value.
///
/// # Errors
/// ENOPROTOOPT, EINVAL.
pub fn get(socket: &Socket, name: i32, room: &[u8]) -> Result<Vec<u8>, i32> {
    if name == so::ERROR {
        return Ok(of_int(socket.take_error()));
    }
    let device = socket.state().device;
    if name == so::BINDTODEVICE {
        if device == 0 {
            return Ok(Vec::new());
        }
        if room.len() < 16 {
            return Err(errno::EINVAL);
        }
        let guard = socket.domain().pin();
        let found = socket.ns().device(device, &guard).ok_or(errno::ENODEV)?;
        let mut name = found.name().into_bytes();
        name.push(0);
        return Ok(name);
    }
    let state = socket.state();
    let options = &state.options;
    let flag = |on: bool| of_int(i32::from(on));
    let is = |what| flag(options.timestamp == what);
    Ok(match name {
        so::DEBUG => flag(options.debug),
        so::REUSEADDR => flag(options.reuse),
        so::REUSEPORT => flag(options.reuseport),
        so::TYPE => of_int(socket.kind()),
        so::PROTOCOL => of_int(socket.protocol()),
        so::DOMAIN => of_int(socket.family()),
        so::DONTROUTE => flag(options.dontroute),
        so::BROADCAST => flag(options.broadcast),
        so::SNDBUF => of_int(options.sndbuf as i32),
        so::RCVBUF => of_int(options.rcvbuf as i32),
        so::KEEPALIVE => flag(options.keepalive),
        so::OOBINLINE => flag(options.oobinline),
        so::NO_CHECK => flag(options.no_check),
        so::PRIORITY => of_int(options.priority as i32),
        so::LINGER => [of_int(options.linger.0.into()), of_int(options.linger.1)].concat(),
        so::BSDCOMPAT => flag(false),
        so::PASSCRED => flag(options.passcred),
        // No peer of a UNIX socket: `struct ucred` of nobody.
        so::PEERCRED => [of_int(0), of_int(-1), of_int(-1)].concat(),
        so::ACCEPTCONN => flag(socket.is_listening()),
        so::TIMESTAMP_OLD => is(Timestamp::Micro(false)),
        so::TIMESTAMP_NEW => is(Timestamp::Micro(true)),
        so::TIMESTAMPNS_OLD => is(Timestamp::Nano(false)),
        so::TIMESTAMPNS_NEW => is(Timestamp::Nano(true)),
        so::TIMESTAMPING_OLD => of_int(options.timestamping.0 as i32),
        so::RCVLOWAT => of_int(options.rcvlowat),
        so::SNDLOWAT => of_int(1),
        so::RCVTIMEO_OLD | so::RCVTIMEO_NEW => options.rcvtimeo.to_vec(),
        so::SNDTIMEO_OLD | so::SNDTIMEO_NEW => options.sndtimeo.to_vec(),
        so::MARK => of_int(options.mark as i32),
        so::RCVMARK => flag(options.rcvmark),
        so::RXQ_OVFL => flag(options.rxq_ovfl),
        so::PEEK_OFF => of_int(options.peek_off),
        so::NOFCS => flag(options.nofcs),
        so::SELECT_ERR_QUEUE => flag(options.select_err_queue),
        so::BUSY_POLL => of_int(options.busy_poll),
        so::MAX_PACING_RATE if room.len() >= 8 => options.pacing.to_ne_bytes().to_vec(),
        so::MAX_PACING_RATE => of_int(options.pacing.min(u32::MAX.into()) as i32),
        so::INCOMING_CPU => of_int(options.incoming_cpu),
        so::INCOMING_NAPI_ID => of_int(0),
        so::BPF_EXTENSIONS => of_int(64),
        so::TXREHASH => of_int(i32::from(options.txrehash as i8)),
        so::BUF_LOCK => of_int(options.buffers_set.into()),
        so::LOCK_FILTER => flag(options.lock_filter),
        so::BINDTOIFINDEX => of_int(device as i32),
        so::COOKIE if room.len() < 8 => return Err(errno::EINVAL),
        so::COOKIE => socket.cookie().to_ne_bytes().to_vec(),
        so::NETNS_COOKIE if room.len() != 8 => return Err(errno::EINVAL),
        so::NETNS_COOKIE => socket.ns().id.0.to_ne_bytes().to_vec(),
        so::MEMINFO => {
            let words = [
                0,
                options.rcvbuf,
                0,
                options.sndbuf,
                0,
                0,
                0,
                0,
                state.drops,
            ];
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        }
        _ => return Err(errno::ENOPROTOOPT),
    })
}
