// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of link types, for error messages.

/// Returns tcpdump's name of a common link type (`LINKTYPE_*` without the prefix).
pub fn link_type_name(link_type: u16) -> Option<&'static str> {
    Some(match link_type {
        0 => "NULL",
        1 => "ETHERNET",
        3 => "AX25",
        6 => "IEEE802_5",
        9 => "PPP",
        10 => "FDDI",
        50 => "PPP_HDLC",
        51 => "PPP_ETHER",
        101 => "RAW",
        104 => "C_HDLC",
        105 => "IEEE802_11",
        107 => "FRELAY",
        108 => "LOOP",
        113 => "LINUX_SLL",
        117 => "PFLOG",
        119 => "IEEE802_11_PRISM",
        122 => "IP_OVER_FC",
        127 => "IEEE802_11_RADIOTAP",
        163 => "IEEE802_11_AVS",
        187 => "BLUETOOTH_HCI_H4",
        189 => "USB_LINUX",
        192 => "PPI",
        195 => "IEEE802_15_4_WITHFCS",
        201 => "BLUETOOTH_HCI_H4_WITH_PHDR",
        220 => "USB_LINUX_MMAPPED",
        227 => "CAN_SOCKETCAN",
        228 => "IPV4",
        229 => "IPV6",
        230 => "IEEE802_15_4_NOFCS",
        239 => "NFLOG",
        242 => "INFINIBAND",
        249 => "USBPCAP",
        252 => "WIRESHARK_UPPER_PDU",
        253 => "NETLINK",
        254 => "BLUETOOTH_LINUX_MONITOR",
        271 => "VSOCK",
        276 => "LINUX_SLL2",
        _ => return None,
    })
}

/// Returns the message that refuses a link type.
pub(super) fn refusal(link_type: u16) -> String {
    match link_type_name(link_type) {
        Some(name) => format!("link type {link_type} ({name}) is not supported, only Ethernet is"),
        None => format!("link type {link_type} is not supported, only Ethernet is"),
    }
}
