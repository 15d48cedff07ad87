// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The buffers of a connection: rings of bytes that grow on demand and are freed when they are empty.

/// The smallest ring, in bytes.
const SMALLEST: usize = 2048;

/// Returns what fills the room of a send buffer ([`Connection::send_with`](crate::Connection::send_with)) with data.
pub fn copy_from(data: &[u8]) -> impl FnMut([&mut [u8]; 2]) -> usize {
    move |[first, second]| {
        let (start, rest) = data.split_at(data.len().min(first.len()));
        first[..start.len()].copy_from_slice(start);
        let rest = &rest[..rest.len().min(second.len())];
        second[..rest.len()].copy_from_slice(rest);
        start.len() + rest.len()
    }
}

/// A ring of bytes. Beyond the bytes that count (`len`) it may contain bytes that arrived early (`high`).
#[derive(Debug, Default, Clone)]
pub struct Ring {
    /// A power of two long, or empty.
    data: Box<[u8]>,
    head: u32,
    len: u32,
    /// The end of what was written, counted from the head: `len` or more.
    high: u32,
}

impl Ring {
    /// Returns how many bytes count.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether no byte counts.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the memory that the ring holds, in bytes.
    pub fn capacity(&self) -> usize {
        self.data.len()
    }

    /// Writes bytes at an offset from the head, without counting them.
    pub fn write(&mut self, offset: u32, bytes: &[u8]) {
        let end = offset as usize + bytes.len();
        if end > self.data.len() {
            self.grow(end);
        }
        let capacity = self.data.len();
        if capacity == 0 {
            return;
        }
        let at = (self.head as usize + offset as usize) & (capacity - 1);
        let first = bytes.len().min(capacity - at);
        self.data[at..at + first].copy_from_slice(&bytes[..first]);
        self.data[..bytes.len() - first].copy_from_slice(&bytes[first..]);
        self.high = self.high.max(end as u32);
    }

    /// Makes room for `want` bytes behind those that count, and returns it in two parts. The ring has no early bytes.
    pub fn space(&mut self, want: u32) -> [&mut [u8]; 2] {
        let end = self.len as usize + want as usize;
        if end > self.data.len() {
            self.grow(end);
        }
        let capacity = self.data.len();
        if capacity == 0 {
            return [&mut [], &mut []];
        }
        let at = (self.head as usize + self.len as usize) & (capacity - 1);
        let first = (want as usize).min(capacity - at);
        let (start, tail) = self.data.split_at_mut(at);
        [&mut tail[..first], &mut start[..want as usize - first]]
    }

    /// Counts `count` more bytes, which were written before.
    #[inline]
    pub fn advance(&mut self, count: u32) {
        self.len += count;
        self.high = self.high.max(self.len);
    }

    /// Returns `len` bytes at an offset, in two parts; fewer if there are not that many.
    #[inline]
    pub fn slices(&self, offset: u32, len: u32) -> [&[u8]; 2] {
        let offset = offset.min(self.len);
        let len = len.min(self.len - offset) as usize;
        let capacity = self.data.len();
        if len == 0 || capacity == 0 {
            return [&[], &[]];
        }
        let at = (self.head as usize + offset as usize) & (capacity - 1);
        let first = len.min(capacity - at);
        [&self.data[at..at + first], &self.data[..len - first]]
    }

    /// Removes bytes from the front.
    pub fn consume(&mut self, count: u32) {
        let count = count.min(self.len);
        self.len -= count;
        self.high -= count;
        if self.high == 0 {
            // The next bytes come where the last were: they are in the cache.
            self.head = 0;
        } else {
            self.head = (self.head + count) & (self.data.len() as u32 - 1);
        }
    }

    /// Frees the memory if no byte is in the ring.
    pub fn release(&mut self) {
        if self.high == 0 {
            self.data = Box::default();
            self.head = 0;
        }
    }

    /// Forgets bytes that arrived early.
    pub fn forget_early(&mut self) {
        self.high = self.len;
    }

    /// Empties the ring and frees its memory.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    #[cold]
    fn grow(&mut self, need: usize) {
        let mut data = vec![0; need.next_power_of_two().max(SMALLEST)].into_boxed_slice();
        let capacity = self.data.len();
        if capacity > 0 {
            let at = self.head as usize;
            let high = self.high as usize;
            let first = high.min(capacity - at);
            data[..first].copy_from_slice(&self.data[at..at + first]);
            data[first..high].copy_from_slice(&self.data[..high - first]);
        }
        self.data = data;
        self.head = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ring: &Ring) -> Vec<u8> {
        ring.slices(0, ring.len()).concat()
    }

    fn push(ring: &mut Ring, bytes: &[u8]) {
        let count = copy_from(bytes)(ring.space(bytes.len() as u32));
        assert_eq!(count, bytes.len());
        ring.advance(count as u32);
    }

    #[test]
    fn bytes_come_out_in_order_across_the_end() {
        let mut ring = Ring::default();
        let mut expected = std::collections::VecDeque::new();
        let mut next = 0u8;
        for round in 0..500 {
            let bytes: Vec<u8> = (0..(round * 7) % 900)
                .map(|_| {
                    next = next.wrapping_add(1);
                    next
                })
                .collect();
            push(&mut ring, &bytes);
            expected.extend(bytes);
            let take = (round * 13 % 1000).min(expected.len());
            ring.consume(take as u32);
            expected.drain(..take);
            assert_eq!(all(&ring), expected.iter().copied().collect::<Vec<_>>());
        }
    }

    #[test]
    fn space_is_behind_the_bytes_that_count() {
        let mut ring = Ring::default();
        assert_eq!(ring.space(0), [&mut [][..], &mut []]);
        push(&mut ring, &[1; SMALLEST - 2]);
        ring.consume(SMALLEST as u32 - 5);
        let [tail, start] = ring.space(5);
        assert_eq!((tail.len(), start.len()), (2, 3));
        tail.copy_from_slice(b"ab");
        start.copy_from_slice(b"cde");
        ring.advance(4);
        assert_eq!(all(&ring), b"\x01\x01\x01abcd");
        let [tail, start] = ring.space(3);
        assert_eq!((tail.len(), start.len()), (3, 0));
    }

    #[test]
    fn early_bytes_wait_for_the_gap() {
        let mut ring = Ring::default();
        push(&mut ring, b"ab");
        ring.write(4, b"ef");
        assert_eq!(all(&ring), b"ab");
        ring.consume(2);
        ring.write(0, b"cd");
        ring.advance(4);
        assert_eq!(all(&ring), b"cdef");
        ring.consume(4);
        ring.release();
        assert_eq!(ring.capacity(), 0);
        assert_eq!(ring.slices(0, 10), [&[][..], &[]]);
    }
}
