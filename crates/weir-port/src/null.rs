// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `null`: accepts every frame and discards it.
//!
//! For benchmarks and for devices whose output is not needed. It counts frames and bytes and never
//! fails. It has no parameters.

use crate::{Frame, Result, Sink, Summary};

/// A sink that discards all frames.
#[derive(Debug, Default)]
pub struct Null {
    interfaces: u32,
    summary: Summary,
}

impl Null {
    /// Creates a sink that has accepted nothing yet.
    pub fn new() -> Null {
        Null::default()
    }

    /// Returns what it has accepted so far.
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
