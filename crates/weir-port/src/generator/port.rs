// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `generator` as a live port: the generator's frames arrive at their times, counted from the time at which the
//! port is attached. The port drops the frames that it is sent.
//!
//! The keys are those of the [generator](super). Unless they are given, `seed` derives from the stack's seed and the
//! device, and `eth_dst` is the device's address if the port is the cable behind it. A stack that is slower than
//! `rate` generates as fast as it can.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{Generator, NAME, Parameters, parameters};
use crate::Result;
use crate::keys::Keys;
use crate::paced::{Feed, Paced};
use crate::port::{Kind, Port, Site};

/// The kind.
pub static KIND: Kind = Kind {
    name: NAME,
    keys: parameters::KEYS,
    open,
    adopt,
    virtual_time: Some(|keys| parameters(keys).is_ok_and(|parameters| parameters.endless())),
};

fn parameters(keys: &Keys) -> Result<Parameters> {
    keys.own().parse()
}

fn open(keys: &Keys) -> Result<Vec<OwnedFd>> {
    Generator::new(parameters(keys)?)?;
    Ok(Vec::new())
}

fn adopt(keys: &Keys, _: Vec<OwnedFd>, site: &Site) -> Result<Arc<dyn Port>> {
    let mut parameters = parameters(keys)?;
    if keys.get("seed").is_none() {
        parameters.seed = site.seed;
    }
    parameters.eth_dst = parameters.eth_dst.or(site.address);
    let feed = Feed::from_zero(Box::new(Generator::new(parameters)?));
    Ok(Arc::new(Paced::new(
        NAME,
        keys.own(),
        Some(feed),
        None,
        site,
    )?))
}
