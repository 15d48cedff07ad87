// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `null`: takes every frame and forgets it.
//!
//! For benchmarks and for devices whose output nobody wants. It counts frames and bytes and never
//! fails. No parameters.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use weir_packet::{Batch, Cache, Packet};

use crate::keys::Keys;
use crate::port::{Counters, Facts, Kind, Port, Sieve, Site};
use crate::{Frame, Result, Sink, Summary};

/// The kind of live ports.
pub static KIND: Kind = Kind {
    name: NAME,
    keys: &[],
    open: |_| Ok(Vec::new()),
    adopt,
    virtual_time: Some(|_| false),
};

const NAME: &str = "null";

fn adopt(_: &Keys, _: Vec<OwnedFd>, _: &Site) -> Result<Arc<dyn Port>> {
    Ok(Arc::new(Discard::default()))
}

/// The live port that receives nothing and forgets what it is sent.
#[derive(Debug, Default)]
pub struct Discard(Counters);

impl Port for Discard {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn facts(&self) -> Facts {
        Facts {
            name: NAME.into(),
            ..Facts::default()
        }
    }

    fn descriptor(&self, _: u16) -> Option<BorrowedFd<'_>> {
        None
    }

    fn take(
        &self,
        _: u16,
        _: &mut Cache,
        _: &mut Batch,
        _: Option<Sieve<'_>>,
    ) -> io::Result<usize> {
        Ok(0)
    }

    fn send(&self, _: u16, frames: &[Packet]) -> io::Result<usize> {
        Ok(frames.len())
    }

    fn counters(&self) -> &Counters {
        &self.0
    }
}

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
