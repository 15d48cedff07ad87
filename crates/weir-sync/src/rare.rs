// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State that nearly every object lacks: it costs one word until it is first changed.

/// A value that is allocated when it is first changed. Until then it stands for the default.
#[derive(Debug, Clone)]
pub struct Rare<T>(Option<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Default> Rare<T> {
    /// Returns the value, or `None` if it was never changed.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    /// Returns the value, or `None` if it was never changed, for a change that does nothing to the default.
    #[inline]
    pub fn made(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// Returns the value, to be changed.
    pub fn change(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_by_its_first_change() {
        let mut rare = Rare::<Vec<u8>>::default();
        assert_eq!(size_of_val(&rare), size_of::<usize>());
        assert!(rare.get().is_none() && rare.made().is_none());
        rare.change().push(1);
        rare.change().push(2);
        assert_eq!(rare.get(), Some(&vec![1, 2]));
        assert_eq!(rare.clone().made(), Some(&mut vec![1, 2]));
    }
}
