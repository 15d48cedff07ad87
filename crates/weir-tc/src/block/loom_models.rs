// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Invariants of chain references: every holder of a chain holds the one that is in the block,
//! whoever drops a reference concurrently; the last holder removes the chain; listeners get one
//! notification for each creation and deletion.

use std::sync::Mutex as Plain;

use loom::thread;

use super::*;
use crate::budget::Budget;
use crate::host::Host;
use crate::net::NetTc;
use crate::psample::Hearers;

/// A namespace without devices that records the types of the notifications sent to listeners.
struct Listeners {
    domain: Domain,
    net: NetTc,
    heard: Plain<Vec<u16>>,
}

impl Host for Listeners {
    fn device(&self, _ifindex: u32) -> Option<Arc<dyn Device>> {
        None
    }
    fn device_ref(&self, _ifindex: u32) -> Option<&dyn Device> {
        None
    }
    fn device_by_name(&self, _name: &str) -> Option<Arc<dyn Device>> {
        None
    }
    fn next_device(&self, _after: u32) -> Option<Arc<dyn Device>> {
        None
    }
    fn listening(&self, _group: u32) -> bool {
        true
    }
    fn notify(&self, _group: u32, message: &[u8], _except: Option<u32>) {
        let messages = weir_netlink::messages(message);
        let types = messages.map(|message| message.header.ty);
        self.heard.lock().unwrap().extend(types);
    }
    fn now(&self) -> u64 {
        0
    }
    fn epoch(&self) -> u64 {
        0
    }
    fn generic(&self) -> Arc<dyn Hearers> {
        unreachable!("no action samples")
    }
}

/// A block in its namespace.
#[derive(Clone)]
struct World {
    host: Arc<Listeners>,
    block: Arc<Block>,
}

impl World {
    fn new() -> Self {
        let domain = Domain::default();
        let host = Listeners {
            net: NetTc::new(&domain, &Arc::new(Budget::default()), &Arc::default()),
            heard: Plain::default(),
            domain: domain.clone(),
        };
        Self {
            host: Arc::new(host),
            block: Block::new(&domain, 1, None),
        }
    }

    fn env<R>(&self, run: impl FnOnce(&Env<'_>) -> R) -> R {
        let guard = self.host.domain.pin();
        run(&Env::new(&*self.host, &self.host.net, &guard))
    }

    fn spawn<R: 'static>(&self, run: impl FnOnce(&Self) -> R + 'static) -> thread::JoinHandle<R> {
        let world = self.clone();
        thread::spawn(move || run(&world))
    }

    fn get(&self) -> Option<Arc<Chain>> {
        self.env(|env| self.block.get_chain(1, true, env))
    }

    fn put(&self, chain: &Arc<Chain>, how: Hold) {
        self.env(|env| self.block.put(chain, how, env));
    }

    /// Returns whether packets and requests find that chain.
    fn finds(&self, chain: &Arc<Chain>) -> bool {
        let found = |env: &Env<'_>| self.block.find(1, env.guard).cloned();
        self.env(found)
            .is_some_and(|found| Arc::ptr_eq(&found, chain))
    }

    /// Asserts that the chain is gone because nobody holds it any more.
    fn assert_gone(&self) {
        assert!(self.env(|env| self.block.find(1, env.guard).is_none()));
        assert!(self.block.state().chains.is_empty());
        let heard = self.host.heard.lock().unwrap();
        let of = |ty| heard.iter().filter(|&&other| other == ty).count();
        assert_eq!(of(rtm::NEWCHAIN), of(rtm::DELCHAIN), "{heard:?}");
    }
}

#[test]
fn a_referenced_chain_is_found() {
    weir_sync::models::check(2, || {
        let world = World::new();
        let first = world.get().unwrap();
        let other = world.spawn(|world| {
            let chain = world.get().unwrap();
            assert!(world.finds(&chain));
            world.put(&chain, Hold::Plain);
        });
        world.put(&first, Hold::Plain);
        other.join().unwrap();
        world.assert_gone();
    });
}

#[test]
fn the_chain_of_an_action_outlives_its_filters() {
    weir_sync::models::check(2, || {
        let world = World::new();
        let first = world.get().unwrap();
        let action = world.spawn(|world| {
            let chain = world.block.get_chain_for_action(1).unwrap();
            assert!(world.finds(&chain));
            chain
        });
        world.put(&first, Hold::Plain);
        let chain = action.join().unwrap();
        assert!(world.finds(&chain) && chain.holds.get().actions == 1);
        assert!(world.block.get_visible(1).is_none());
        let last = world.spawn(move |world| world.put(&chain, Hold::Action));
        let again = world.get().unwrap();
        last.join().unwrap();
        assert!(world.finds(&again));
        world.put(&again, Hold::Plain);
        world.assert_gone();
    });
}

/// `tc chain del` while a filter's instance is added and removed: the explicit reference is dropped
/// only once.
#[test]
fn the_explicit_reference_is_dropped_once() {
    weir_sync::models::check(2, || {
        let world = World::new();
        let Ok(made) = world.block.create_explicit(1, true) else {
            panic!("there is none");
        };
        world.put(&made, Hold::Plain);
        // The request would send this notification; the model has no request.
        world.host.heard.lock().unwrap().push(rtm::NEWCHAIN);
        let other = world.spawn(|world| {
            let chain = world.get().unwrap();
            assert!(world.finds(&chain));
            world.put(&chain, Hold::Plain);
        });
        world.put(&made, Hold::Explicit);
        other.join().unwrap();
        world.put(&made, Hold::Explicit);
        world.assert_gone();
    });
}
