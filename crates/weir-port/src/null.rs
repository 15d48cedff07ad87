// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `null`: takes every frame and forgets it.
//!
//! For benchmarks and for devices whose output nobody wants. It counts frames and bytes and never
//! fails. No parameters.

use crate::{Frame, Result, Sink, Summary};

/// The sink that forgets.
#[derive(Debug, Default)]
pub struct Null {
    interfaces: u32,
    summary: Summary,
}

impl Null {
    /// A sink that has taken nothing yet.
    pub fn new() -> Null {
        Null::default()
    }

    /// What it has taken until now.
    pub fn summary(&self) -> Summary {
        self.summary
    }
}

impl Sink for Null {
    fn interface(&mut self, _name: &str) -> Result<u32> {
        let number = self.interfaces;
        self.interfaces += 1;
        Ok(number)
    }

    fn write(&mut self, frame: &Frame) -> Result<()> {
        self.summary.frames += 1;
        self.summary.bytes += frame.data.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<Summary> {
        Ok(self.summary)
    }
}
