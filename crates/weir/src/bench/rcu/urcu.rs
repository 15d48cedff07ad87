// SPDX-License-Identifier: Apache-2.0 OR MIT
//! liburcu as a peer, loaded when it is there, and the unsafe part of crossbeam-epoch's.
#![allow(unsafe_code)] // functions of a C library; objects behind pointers

use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering::*};

use super::Object;

type Call = unsafe extern "C" fn();
/// `struct rcu_head`: a link and the function.
type Head = [*mut c_void; 2];
type Free = unsafe extern "C" fn(*mut Head);

/// A flavour of liburcu.
pub struct Flavour {
    register: Call,
    unregister: Call,
    lock: Call,
    unlock: Call,
    quiescent: Call,
    synchronize: Call,
    barrier: Call,
    call: unsafe extern "C" fn(*mut Head, Free),
}

impl Flavour {
    /// Loads a flavour: `memb` or `qsbr`.
    pub fn load(name: &str) -> Option<Self> {
        let file = CString::new(format!("liburcu-{name}.so.8")).ok()?;
        // SAFETY: the name ends with a zero. The library's constructors only prepare its own state.
        let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let library = NonNull::new(library)?;
        let find = |what: &str| {
            let symbol = CString::new(format!("urcu_{name}_{what}")).ok()?;
            // SAFETY: the library is open, and the name ends with a zero.
            NonNull::new(unsafe { libc::dlsym(library.as_ptr(), symbol.as_ptr()) })
        };
        let call = |what: &str| {
            // SAFETY: liburcu declares these functions without arguments and results.
            Some(unsafe { std::mem::transmute::<*mut c_void, Call>(find(what)?.as_ptr()) })
        };
        let quiescent = match name {
            "qsbr" => "quiescent_state",
            _ => "read_unlock",
        };
        Some(Self {
            register: call("register_thread")?,
            unregister: call("unregister_thread")?,
            lock: call("read_lock")?,
            unlock: call("read_unlock")?,
            quiescent: call(quiescent)?,
            synchronize: call("synchronize_rcu")?,
            barrier: call("barrier")?,
            // SAFETY: liburcu declares `call_rcu` so.
            call: unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Head, Free)>(
                    find("call_rcu")?.as_ptr(),
                )
            },
        })
    }

    /// Runs `work` on a registered reader.
    pub fn registered<R>(&self, work: impl FnOnce() -> R) -> R {
        // SAFETY: this thread is not registered, and is only until the end of this function.
        unsafe { (self.register)() };
        let done = work();
        // SAFETY: it was registered above.
        unsafe { (self.unregister)() };
        done
    }

    /// A read section. The thread is registered.
    pub fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        // SAFETY: takes nothing.
        unsafe { (self.lock)() };
        let done = work();
        // SAFETY: the section began above.
        unsafe { (self.unlock)() };
        done
    }

    /// `rcu_quiescent_state` of the flavour `qsbr`.
    pub fn quiescent(&self) {
        // SAFETY: outside of sections of `read`.
        unsafe { (self.quiescent)() };
    }

    /// `synchronize_rcu`
    pub fn synchronize(&self) {
        // SAFETY: outside of a read section.
        unsafe { (self.synchronize)() };
    }

    /// `rcu_barrier`
    pub fn barrier(&self) {
        // SAFETY: outside of a read section.
        unsafe { (self.barrier)() };
    }
}

/// An object with the head that links it while it waits.
#[repr(C)]
struct Node {
    head: Head,
    object: Object,
}

/// The place of an object.
#[derive(Default)]
pub struct Place(AtomicPtr<Node>);

impl Place {
    /// Replaces the object, and frees the old one after a grace period.
    pub fn replace(&self, flavour: &Flavour, object: Object) {
        unsafe extern "C" fn drop_node(head: *mut Head) {
            // SAFETY: the head is the first field of a node from `Box::into_raw`, which no reader sees any more.
            drop(unsafe { Box::from_raw(head.cast::<Node>()) });
        }
        let head = [std::ptr::null_mut(); 2];
        let new = Box::into_raw(Box::new(Node { head, object }));
        let old = self.0.swap(new, AcqRel);
        if !old.is_null() {
            // SAFETY: the node is unlinked, and its head is used for nothing else.
            unsafe { (flavour.call)(old.cast(), drop_node) };
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let last = *self.0.get_mut();
        if !last.is_null() {
            // SAFETY: from `Box::into_raw`, and nobody else has it.
            drop(unsafe { Box::from_raw(last) });
        }
    }
}

/// Returns the value behind a pointer (`rcu_dereference`).
pub fn value(place: &AtomicPtr<u64>) -> u64 {
    // SAFETY: the only caller has a box there that it frees after the last read.
    unsafe { *place.load(Acquire) }
}

/// Returns a value of crossbeam-epoch.
pub fn shared(value: crossbeam_epoch::Shared<'_, u64>) -> u64 {
    // SAFETY: the only caller never replaces it.
    unsafe { *value.deref() }
}

/// Frees a box.
pub fn free(value: *mut u64) {
    // SAFETY: the only caller made it by `Box::into_raw`.
    drop(unsafe { Box::from_raw(value) });
}

/// Frees an object of crossbeam-epoch after a grace period.
pub fn destroy(guard: &crossbeam_epoch::Guard, old: crossbeam_epoch::Shared<'_, Object>) {
    // SAFETY: the only caller has just unlinked it, and its place is never empty.
    unsafe { guard.defer_destroy(old) };
}
