// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machines of a port that concern no other port: receive, periodic, transmit and churn (IEEE 802.1AX 6.4.12 to
//! 6.4.14, 6.4.17; `ad_rx_machine`, `ad_periodic_machine`, `ad_tx_machine`, `ad_churn_machine`).

use super::pdu::bits::{ACTIVITY, AGGREGATION, DEFAULTED, EXPIRED, SYNC, TIMEOUT};
use super::pdu::{self, NOBODY, Pdu};
use super::{
    Churn, LONG_TIMEOUT, PACE, Periodic, Port, Receive, SECOND, SHORT_TIMEOUT, SLOW, speed_key,
};

impl Port {
    /// Sets the key by the link's speed and duplex, or without them (`ad_update_actor_keys`).
    pub(super) fn set_key(&mut self, reset: bool) {
        let before = self.actor.key;
        let (mut speed, mut duplex) = (0, 0);
        if !reset && self.look.has_link {
            speed = speed_key(self.look.speed);
            duplex = u16::from(self.look.duplex == 1);
        }
        self.actor.key = before & !0x3f | speed << 1 | duplex;
        if before == self.actor.key {
            return;
        }
        self.lacp = duplex != 0;
        if !reset && speed != 0 && duplex != 0 && (before & 0x3e) >> 1 != speed {
            self.begin = true;
        }
    }

    pub(super) fn is_duplex(&self) -> bool {
        self.actor.key & 1 != 0
    }

    pub(super) fn set(&mut self, bits: u8, on: bool) {
        match on {
            true => self.actor.state |= bits,
            false => self.actor.state &= !bits,
        }
    }

    fn record_default(&mut self) {
        self.partner = NOBODY;
        self.set(DEFAULTED, true);
    }

    /// Returns the state that the receive machine goes to.
    fn next_receive(&mut self, heard: bool) -> Receive {
        let before = self.receive;
        if self.begin {
            self.churned = true;
            return Receive::Initialize;
        }
        if !self.enabled {
            return Receive::Disabled;
        }
        let listens = matches!(
            before,
            Receive::Expired | Receive::Defaulted | Receive::Current
        );
        if heard && listens {
            self.churned |= before != Receive::Current;
            self.receive_timer = 0;
            return Receive::Current;
        }
        if self.receive_timer > 0 {
            self.receive_timer -= 1;
            if self.receive_timer == 0 {
                return match before {
                    Receive::Expired => Receive::Defaulted,
                    Receive::Current => Receive::Expired,
                    same => same,
                };
            }
        }
        match before {
            Receive::Disabled if self.lacp => Receive::Expired,
            Receive::Disabled => Receive::NoLacp,
            same => same,
        }
    }

    /// The receive machine (`ad_rx_machine`).
    pub(super) fn receive(&mut self, pdu: Option<&Pdu>) {
        let before = self.receive;
        self.receive = self.next_receive(pdu.is_some());
        if self.receive == before && pdu.is_none() {
            return;
        }
        match self.receive {
            Receive::Initialize => {
                self.lacp = self.is_duplex();
                self.selected = false;
                self.record_default();
                self.set(EXPIRED, false);
                self.receive = Receive::Disabled;
                self.partner.state &= !SYNC;
            }
            Receive::Disabled => self.partner.state &= !SYNC,
            Receive::NoLacp => {
                self.selected = false;
                self.record_default();
                self.partner.state &= !AGGREGATION;
                self.set(EXPIRED, false);
            }
            Receive::Expired => {
                self.partner.state = self.partner.state & !SYNC | TIMEOUT;
                self.receive_timer = SHORT_TIMEOUT;
                self.set(EXPIRED, true);
                self.churned = true;
            }
            Receive::Defaulted => {
                let other = (self.partner.state ^ NOBODY.state) & AGGREGATION != 0;
                if !self.partner.is_same(&NOBODY) || other {
                    self.selected = false;
                }
                self.record_default();
                self.set(EXPIRED, false);
            }
            Receive::New => {}
            Receive::Current => {
                let Some(pdu) = pdu else { return };
                // Our own frame came back.
                if pdu.actor.system == self.actor.system {
                    return;
                }
                self.record(pdu);
            }
        }
    }

    /// Takes over what the partner says (`__update_selected`, `__update_ntt`, `__record_pdu`).
    fn record(&mut self, pdu: &Pdu) {
        let other = (pdu.actor.state ^ self.partner.state) & AGGREGATION != 0;
        if !pdu.actor.is_same(&self.partner) || other {
            self.selected = false;
        }
        let known = pdu.partner.is_same(&self.actor);
        let differs = pdu.partner.state ^ self.actor.state;
        if !known || differs & (ACTIVITY | TIMEOUT | SYNC | AGGREGATION) != 0 {
            self.due = true;
        }
        let matched = known && differs & AGGREGATION == 0 || pdu.actor.state & AGGREGATION == 0;
        self.partner = pdu.actor;
        self.set(DEFAULTED, false);
        if !matched {
            self.partner.state &= !SYNC;
        }
        self.receive_timer = match self.actor.state & TIMEOUT {
            0 => LONG_TIMEOUT,
            _ => SHORT_TIMEOUT,
        };
        self.set(EXPIRED, false);
    }

    /// The periodic machine (`ad_periodic_machine`).
    pub(super) fn periodic(&mut self) {
        let before = self.periodic;
        let silent = (self.actor.state | self.partner.state) & ACTIVITY == 0;
        let fast = self.partner.state & TIMEOUT != 0;
        if self.begin || !self.lacp || !self.enabled || silent {
            self.periodic = Periodic::No;
        } else if self.periodic_timer > 0 {
            self.periodic_timer -= 1;
            self.periodic = match before {
                _ if self.periodic_timer == 0 => Periodic::Transmit,
                Periodic::Fast if !fast => Periodic::Slow,
                Periodic::Slow if fast => {
                    self.periodic_timer = 0;
                    Periodic::Transmit
                }
                same => same,
            };
        } else {
            self.periodic = match before {
                Periodic::No => Periodic::Fast,
                Periodic::Transmit if fast => Periodic::Fast,
                Periodic::Transmit => Periodic::Slow,
                same => same,
            };
        }
        if self.periodic == before {
            return;
        }
        match self.periodic {
            Periodic::No => self.periodic_timer = 0,
            Periodic::Fast => self.periodic_timer = SECOND - 1,
            Periodic::Slow => self.periodic_timer = SLOW - 1,
            Periodic::Transmit => self.due = true,
        }
    }

    /// The transmit machine (`ad_tx_machine`). Returns the frame that leaves.
    pub(super) fn transmit(&mut self) -> Option<Vec<u8>> {
        self.transmit_timer = self.transmit_timer.saturating_sub(1);
        if self.transmit_timer > 0 {
            return None;
        }
        self.transmit_timer = PACE;
        if !self.due || !self.lacp {
            return None;
        }
        self.due = false;
        Some(self.pdu())
    }

    /// `ad_churn_machine`
    pub(super) fn churn(&mut self) {
        if std::mem::take(&mut self.churned) {
            return self.churn.iter_mut().for_each(Churn::begin);
        }
        let states = [self.actor.state, self.partner.state];
        for (churn, state) in self.churn.iter_mut().zip(states) {
            churn.step(state & SYNC != 0);
        }
    }

    /// Returns the LACPDU (`__update_lacpdu_from_port`).
    fn pdu(&self) -> Vec<u8> {
        pdu::frame(self.mac, &self.actor, &self.partner)
    }
}
