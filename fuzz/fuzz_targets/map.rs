// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir_fuzz::map` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_fuzz::map::run(bytes));
