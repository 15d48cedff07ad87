// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of file names, link types and byte orders. Tests with whole files are in `tests/`.

use super::*;

#[test]
fn the_name_selects_the_format() {
    let of = |name| {
        let format = Format::of(name);
        (format.classic, format.gzip)
    };
    assert_eq!(of("a.pcap"), (true, false));
    assert_eq!(of("a.pcap.gz"), (true, true));
    assert_eq!(of("a.pcapng"), (false, false));
    assert_eq!(of("a.pcapng.gz"), (false, true));
    assert_eq!(of("a.cap"), (false, false));
    assert_eq!(of("-"), (false, false));
}

#[test]
fn a_refused_link_type_is_named() {
    assert_eq!(
        link::refusal(113),
        "link type 113 (LINUX_SLL) is not supported, only Ethernet is"
    );
    assert_eq!(
        link::refusal(4711),
        "link type 4711 is not supported, only Ethernet is"
    );
}

#[test]
fn words_beyond_the_end_are_zero() {
    assert_eq!(Order::Big.word(&[0, 0, 0, 1, 0, 0, 0, 2], 1), 2);
    assert_eq!(Order::Little.word(&[1, 0, 0, 0, 2, 0], 1), 0);
}
