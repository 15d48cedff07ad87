// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of `SOL_TCP` (`do_tcp_setsockopt`, `do_tcp_getsockopt`).
//!
//! Not served: repair, upper-layer protocols (kTLS), zero-copy receiving.

use std::sync::Arc;

use weir_netlink::errno;
use weir_tcp::fast_open::{Keys, enable};
use weir_tcp::request::{seconds_of, timeouts_of};
use weir_tcp::time::{MS, SECOND};
use weir_tcp::{Algorithm, Config, Info, State};

use super::core::{Inner, Kind};
use crate::options::{int, of_int};

const NODELAY: i32 = 1;
const MAXSEG: i32 = 2;
const CORK: i32 = 3;
const KEEPIDLE: i32 = 4;
const KEEPINTVL: i32 = 5;
const KEEPCNT: i32 = 6;
const SYNCNT: i32 = 7;
const LINGER2: i32 = 8;
/// `TCP_FIN_TIMEOUT_MAX`, in s.
const FIN_TIMEOUT_MOST: i32 = 120;
const DEFER_ACCEPT: i32 = 9;
const WINDOW_CLAMP: i32 = 10;
/// `SOCK_MIN_RCVBUF / 2`, in bytes.
const WINDOW_CLAMP_LEAST: u32 = 1152;
pub const INFO: i32 = 11;
const QUICKACK: i32 = 12;
const CONGESTION: i32 = 13;
const REPAIR: i32 = 19;
const REPAIR_QUEUE: i32 = 20;
const QUEUE_SEQ: i32 = 21;
const REPAIR_OPTIONS: i32 = 22;
const MD5SIG: i32 = 14;
const USER_TIMEOUT: i32 = 18;
const FASTOPEN: i32 = 23;
const NOTSENT_LOWAT: i32 = 25;
const FASTOPEN_CONNECT: i32 = 30;
const MD5SIG_EXT: i32 = 32;
const FASTOPEN_KEY: i32 = 33;
const FASTOPEN_NO_COOKIE: i32 = 34;
const CC_INFO: i32 = 26;
/// The length of the name of an algorithm (`TCP_CA_NAME_MAX`).
const NAME: usize = 16;
/// `MAX_TCP_KEEPIDLE` and `MAX_TCP_KEEPINTVL`
const KEEP_MOST: i32 = 32767;
/// States of sockets without a connection.
const LISTEN: u8 = 10;
const CLOSE: u8 = 7;

/// Sets an option. The caller passes the settings on to the connection. `most_waiting` is `net.core.somaxconn`.
///
/// # Errors
/// ENOPROTOOPT, EINVAL, ENOENT for an unknown congestion control, EOPNOTSUPP for `TCP_FASTOPEN_CONNECT` where clients do
/// not take part in Fast Open.
pub fn set(
    inner: &mut Inner,
    config: &Config,
    v6: bool,
    most_waiting: u32,
    name: i32,
    value: &[u8],
) -> Result<(), i32> {
    if name == MD5SIG || name == MD5SIG_EXT {
        inner.keys.set(v6, name == MD5SIG_EXT, value)?;
        if matches!(&inner.kind, Kind::Open(_)) {
            inner.signs_to(inner.tuple.remote);
        }
        return Ok(());
    }
    if name == CONGESTION {
        let end = value
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(value.len());
        let text = value.get(..end.min(NAME - 1)).unwrap_or_default();
        let text = std::str::from_utf8(text).map_err(|_| errno::ENOENT)?;
        if value.is_empty() {
            return Err(errno::EINVAL);
        }
        Arc::make_mut(&mut inner.settings).congestion =
            Some(Algorithm::of(text).ok_or(errno::ENOENT)?);
        return Ok(());
    }
    if name == FASTOPEN_KEY {
        inner.fast_open.keys = Some(Keys::of(value).ok_or(errno::EINVAL)?);
        return Ok(());
    }
    let val = int(value)?;
    let on = val != 0;
    let within = |low: i32, high: i32| match (low..=high).contains(&val) {
        true => Ok(()),
        false => Err(errno::EINVAL),
    };
    let idle = matches!(&inner.kind, Kind::Idle)
        || matches!(&inner.kind, Kind::Open(connection) if connection.state() == State::Closed);
    let listening = matches!(&inner.kind, Kind::Listening(_));
    let settings = Arc::make_mut(&mut inner.settings);
    match name {
        FASTOPEN if val >= 0 && (idle || listening) => {
            inner.fast_open.most = (val as u32).min(most_waiting);
        }
        FASTOPEN => return Err(errno::EINVAL),
        // As for a program without CAP_NET_ADMIN.
        REPAIR | REPAIR_QUEUE | QUEUE_SEQ => return Err(errno::EPERM),
        REPAIR_OPTIONS => return Err(errno::EINVAL),
        FASTOPEN_CONNECT => {
            within(0, 1)?;
            if config.fast_open & enable::CLIENT == 0 {
                return Err(errno::EOPNOTSUPP);
            }
            if !idle {
                return Err(errno::EINVAL);
            }
            inner.fast_open.connect = on;
        }
        FASTOPEN_NO_COOKIE => {
            within(0, 1)?;
            if !idle && !listening {
                return Err(errno::EINVAL);
            }
            inner.fast_open.no_cookie = on;
        }
        NODELAY => {
            settings.nodelay = on;
            if on && let Kind::Open(connection) = &mut inner.kind {
                connection.push();
            }
        }
        CORK => settings.cork = on,
        MAXSEG => {
            if val != 0 {
                within(88, 32767)?;
            }
            settings.max_segment = val as u16;
        }
        KEEPIDLE => {
            within(1, KEEP_MOST)?;
            settings.keep_idle = Some(val as u64 * SECOND);
        }
        KEEPINTVL => {
            within(1, KEEP_MOST)?;
            settings.keep_interval = Some(val as u64 * SECOND);
        }
        KEEPCNT => {
            within(1, 127)?;
            settings.keep_count = Some(val as u8);
        }
        SYNCNT => {
            within(1, 127)?;
            settings.syn_retries = Some(val as u8);
        }
        LINGER2 => {
            settings.linger2 = match val {
                ..0 => Some(0),
                0 => None,
                val => Some(u64::from(val.min(FIN_TIMEOUT_MOST) as u32) * SECOND),
            };
        }
        DEFER_ACCEPT => inner.defer_accept = timeouts_of(val.max(0) as u32),
        WINDOW_CLAMP => {
            if val == 0 && !idle {
                return Err(errno::EINVAL);
            }
            settings.window_clamp = match val {
                0 => 0,
                val => (val as u32).max(WINDOW_CLAMP_LEAST),
            };
        }
        QUICKACK => match &mut inner.kind {
            Kind::Open(connection) => connection.set_quick_ack(on),
            _ => settings.slow_ack = !on,
        },
        USER_TIMEOUT => {
            within(0, i32::MAX)?;
            settings.user_timeout = val as u64 * MS;
        }
        NOTSENT_LOWAT => settings.notsent_low = val as u32,
        _ => return Err(errno::ENOPROTOOPT),
    }
    Ok(())
}

/// Returns an option's value.
///
/// # Errors
/// ENOPROTOOPT.
pub fn get(inner: &Inner, config: &Config, now: u64, name: i32) -> Result<Vec<u8>, i32> {
    let settings = &inner.settings;
    let seconds = |own: Option<u64>, of: u64| of_int((own.unwrap_or(of) / SECOND) as i32);
    let open = match &inner.kind {
        Kind::Open(connection) => Some(connection),
        _ => None,
    };
    Ok(match name {
        NODELAY => of_int(settings.nodelay.into()),
        CORK => of_int(settings.cork.into()),
        MAXSEG => of_int(match (open, settings.max_segment) {
            (Some(connection), _) => connection.mss().into(),
            (None, 0) => 536,
            (None, most) => most.into(),
        }),
        KEEPIDLE => seconds(settings.keep_idle, config.keepalive_time),
        KEEPINTVL => seconds(settings.keep_interval, config.keepalive_interval),
        KEEPCNT => of_int(
            settings
                .keep_count
                .unwrap_or(config.keepalive_probes)
                .into(),
        ),
        SYNCNT => of_int(settings.syn_retries.unwrap_or(config.syn_retries).into()),
        LINGER2 => match settings.linger2 {
            Some(0) => of_int(-1),
            own => seconds(own, config.fin_timeout),
        },
        DEFER_ACCEPT => of_int(seconds_of(inner.defer_accept) as i32),
        WINDOW_CLAMP => of_int(settings.window_clamp as i32),
        INFO => match (open, &inner.kind) {
            (Some(connection), _) => connection.info(now),
            (None, Kind::Listening(_)) => Info {
                state: LISTEN,
                ..Info::default()
            },
            (None, _) => Info {
                state: CLOSE,
                ..Info::default()
            },
        }
        .bytes()
        .to_vec(),
        QUICKACK => {
            let quick = open.map_or(!settings.slow_ack, |connection| connection.quick_ack());
            of_int(quick.into())
        }
        CONGESTION => {
            let algorithm = match open {
                Some(connection) => connection.congestion(),
                None => settings.congestion.unwrap_or(config.congestion),
            };
            let mut name = algorithm.name().as_bytes().to_vec();
            name.resize(NAME, 0);
            name
        }
        USER_TIMEOUT => of_int((settings.user_timeout / MS) as i32),
        CC_INFO => open
            .and_then(|connection| connection.congestion_info())
            .map_or_else(Vec::new, Vec::from),
        NOTSENT_LOWAT => of_int(settings.notsent_low as i32),
        FASTOPEN => of_int(inner.fast_open.most as i32),
        REPAIR => of_int(0),
        FASTOPEN_CONNECT => of_int(inner.fast_open.connect.into()),
        FASTOPEN_NO_COOKIE => of_int(inner.fast_open.no_cookie.into()),
        FASTOPEN_KEY => inner
            .fast_open
            .keys
            .map_or_else(Vec::new, |keys| keys.bytes()),
        _ => return Err(errno::ENOPROTOOPT),
    })
}
