// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a link kind tells `ethtool` (`struct ethtool_ops`).

/// The release that drivers without a version of their own report (`UTS_RELEASE`).
pub const RELEASE: &str = "6.1.0";

/// The operations of a driver that have no data of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Driver {
    /// Name, version and version of the firmware (`get_drvinfo`). Without them the kind and [`RELEASE`]
    /// are reported.
    pub info: Option<(&'static str, &'static str, &'static str)>,
    /// Reports whether there is a link (`get_link`).
    pub link: Link,
    /// Takes software time stamps of sent packets (`ethtool_op_get_ts_info`).
    pub stamps: bool,
    /// The numbers of queues can be read and set (`get_channels`, `set_channels`).
    pub channels: bool,
}

/// How a driver reports its link (`get_link`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Link {
    /// It does not.
    #[default]
    Unknown,
    /// There is always one.
    Always,
    /// By the carrier (`ethtool_op_get_link`).
    Carrier,
}

/// The settings of a link (`struct ethtool_link_settings`). No kind has link modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSettings {
    /// In Mbit/s; `u32::MAX` for unknown (`SPEED_UNKNOWN`).
    pub speed: u32,
    /// `DUPLEX_*`
    pub duplex: u8,
    /// `PORT_*`
    pub port: u8,
}

impl LinkSettings {
    /// A twisted pair with full duplex.
    pub const fn twisted_pair(speed: u32) -> Self {
        Self {
            speed,
            duplex: 1,
            port: 0,
        }
    }

    /// Unknown speed and duplex on some other port (`DUPLEX_UNKNOWN`, `PORT_OTHER`).
    pub const OTHER: Self = Self {
        speed: u32::MAX,
        duplex: 0xff,
        port: 0xff,
    };
}
