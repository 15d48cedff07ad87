// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir_fuzz::gateway` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_fuzz::gateway::run(bytes));
