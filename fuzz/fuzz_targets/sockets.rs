// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir_fuzz::sockets` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_fuzz::sockets::run(bytes));
