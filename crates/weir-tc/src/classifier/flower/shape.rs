// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cached encodings of the keys of filters under a mask.
//!
//! The mask and a few bytes of the key, namely the protocols and the kinds of addresses, decide
//! which of the many attributes of `fl_dump_key` appear. Keys that agree in these differ only in
//! their values. Therefore the attributes of the first such filter that is dumped are stored with
//! the mask, together with the offset of each byte of a packed key in them. The attributes of other
//! filters are made from this copy.

use std::sync::OnceLock;

use weir_netlink::Writer;

use super::dump::{self, dump};
use super::key::{Key, Mask, half};
use crate::host::Host;

/// The number of shapes stored for a mask.
const FEW: usize = 2;
/// The highest size in bytes of a packed key that has a shape; a power of two.
const OCTETS: usize = 64;

/// The bytes of a packed key, padded so that four bytes can be read from each position.
type Octets = [u8; OCTETS + 4];

/// The attributes shared by similar keys; see the module's documentation.
struct Shape {
    /// The half-words of the packed key that decided which attributes appear, the relevant bits,
    /// and their values.
    chosen: Box<[(u8, u32, u32)]>,
    /// The attributes, with the values of one key.
    attributes: Box<[u8]>,
    /// Positions in the packed key and in the attributes of runs of four bytes, of two bytes, and
    /// of single bytes.
    fours: Places,
    twos: Places,
    ones: Places,
}

type Places = Box<[(u8, u16)]>;

/// Returns the bytes of a packed key, if there are not too many.
fn octets(packed: &[u32]) -> Option<Octets> {
    let mut octets = [0; OCTETS + 4];
    let (places, _) = octets.as_chunks_mut::<4>();
    if packed.len() > OCTETS / 4 {
        return None;
    }
    for (place, half) in places.iter_mut().zip(packed) {
        *place = half.to_ne_bytes();
    }
    Some(octets)
}

impl Shape {
    /// Returns `None` if keys under the mask can differ in more than the values of fields.
    fn new(host: &dyn Host, mask: &Mask, packed: &[u32]) -> Option<Self> {
        let mut w = Writer::new();
        let written = dump::record(&mut w, host, &mask.unpack(packed), &mask.key)?;
        // Half-words without a bit in the mask have only zero bytes, which need no copying.
        let values = written.iter().flat_map(|&(start, field)| {
            let places = field.places().zip(start..);
            places.filter_map(|(at, to)| Some((mask.place_in_packed(at)? as u8, to as u16)))
        });
        let values: Vec<_> = values.collect();
        let (mut fours, mut twos, mut ones) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = &values[..];
        while let Some(&first) = rest.first() {
            let next = |n| (first.0 + n, first.1 + u16::from(n));
            let run = (0..4).zip(rest).take_while(|(n, at)| next(*n) == **at);
            let (places, width) = match run.count() {
                4 => (&mut fours, 4),
                2 | 3 => (&mut twos, 2),
                _ => (&mut ones, 1),
            };
            places.push(first);
            rest = &rest[width..];
        }
        let mut choosing = Key::default();
        for field in dump::CHOOSING {
            choosing.fill(field);
        }
        let choosing = mask.pack(&choosing);
        let chosen = (0..).zip(choosing.iter().zip(packed));
        let chosen = chosen.filter(|(_, (bits, _))| **bits != 0);
        let chosen = chosen.map(|(at, (bits, half))| (at, *bits, half & bits));
        Some(Self {
            chosen: chosen.collect(),
            fours: fours.into(),
            twos: twos.into(),
            ones: ones.into(),
            attributes: w.into_vec().into(),
        })
    }

    #[inline]
    fn fits(&self, packed: &[u32]) -> bool {
        let mut chosen = self.chosen.iter();
        chosen.all(|&(at, bits, value)| half(packed, at) & bits == value)
    }

    #[inline]
    fn write(&self, w: &mut Writer, octets: &Octets) {
        if let Some(attributes) = w.put_copied(&self.attributes) {
            copy::<4>(&self.fours, octets, attributes);
            copy::<2>(&self.twos, octets, attributes);
            copy::<1>(&self.ones, octets, attributes);
        }
    }
}

/// Copies `N` bytes between each pair of positions.
#[inline(always)]
fn copy<const N: usize>(places: &[(u8, u16)], octets: &Octets, attributes: &mut [u8]) {
    for &(from, to) in places {
        let (from, to) = (usize::from(from) % OCTETS, usize::from(to));
        if let Some(place) = attributes.get_mut(to..to + N) {
            place.copy_from_slice(&octets[from..from + N]);
        }
    }
}

/// The shapes of a mask.
#[derive(Default)]
pub struct Shapes([OnceLock<Option<Shape>>; FEW]);

impl Shapes {
    /// Encodes the key of a filter under the mask, as [`dump`] does.
    pub fn dump(&self, w: &mut Writer, host: &dyn Host, mask: &Mask, packed: &[u32]) {
        if let Some(octets) = octets(packed) {
            for shape in &self.0 {
                match shape.get_or_init(|| Shape::new(host, mask, packed)) {
                    Some(shape) if shape.fits(packed) => return shape.write(w, &octets),
                    Some(_) => {}
                    None => break,
                }
            }
        }
        dump(w, host, &mask.unpack(packed), &mask.key);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weir_packet::FlowKeys;

    use super::super::key::field;
    use super::*;
    use crate::testing::Stack;

    /// Returns a key with these words and with the given protocols and kinds of addresses.
    fn key(words: &[(usize, u64)], protocols: (u16, u8, u8, u8)) -> Key {
        let mut key = Key::default();
        for &(at, word) in words {
            key.flow.words_mut()[at % FlowKeys::WORDS] = word;
        }
        let (n_proto, ip_proto, addr_type, enc_addr_type) = protocols;
        key.set(field::N_PROTO, &n_proto.to_be_bytes());
        key.set(field::IP_PROTO, &[ip_proto]);
        key.set(field::ADDR_TYPE, &[addr_type]);
        key.set(field::ENC_ADDR_TYPE, &[enc_addr_type]);
        key
    }

    fn any_key() -> impl Strategy<Value = Key> {
        let kind = || prop_oneof![Just(0_u8), Just(4), Just(6)];
        let n_proto = prop_oneof![Just(0x0800_u16), Just(0x86dd), Just(0x0806)];
        let ip_proto = prop_oneof![Just(6_u8), Just(17), Just(1), Just(58), Just(115)];
        let all = (0..FlowKeys::WORDS).map(|at| any::<u64>().prop_map(move |word| (at, word)));
        (all.collect::<Vec<_>>(), (n_proto, ip_proto, kind(), kind()))
            .prop_map(|(words, protocols)| key(&words, protocols))
    }

    fn any_mask() -> impl Strategy<Value = Key> {
        let word = || prop_oneof![Just(u64::MAX), Just(0xff), any::<u64>()];
        let octet = || prop_oneof![Just(0_u8), Just(0xff)];
        let n_proto = prop_oneof![Just(0_u16), Just(0xffff), Just(0xff00)];
        let words = vec((1..FlowKeys::WORDS, word()), 0..7);
        (words, (n_proto, octet(), octet(), octet()))
            .prop_map(|(words, protocols)| key(&words, protocols))
    }

    proptest! {
        #[test]
        fn keys_equal_those_encoded_one_by_one(mask in any_mask(), keys in vec(any_key(), 1..8)) {
            let (stack, shapes, mask) = (Stack::default(), Shapes::default(), Mask::new(mask));
            for key in keys {
                let (mut shaped, mut plain) = (Writer::new(), Writer::new());
                let packed = mask.pack(&key);
                shapes.dump(&mut shaped, &stack, &mask, &packed);
                dump(&mut plain, &stack, &mask.unpack(&packed), &mask.key);
                prop_assert_eq!(shaped.bytes(), plain.bytes());
            }
        }
    }

    #[test]
    fn a_mask_has_few_shapes() {
        let stack = Stack::default();
        let (shapes, mask) = (Shapes::default(), key(&[], (0xffff, 0xff, 0, 0)));
        let mask = Mask::new(mask);
        for ip_proto in [6, 17, 6, 1] {
            let packed = mask.pack(&key(&[], (0x0800, ip_proto, 0, 0)));
            shapes.dump(&mut Writer::new(), &stack, &mask, &packed);
        }
        let made: Vec<_> = shapes.0.iter().flat_map(OnceLock::get).flatten().collect();
        let attributes: Vec<_> = made.iter().map(|shape| shape.attributes.len()).collect();
        // Ethertype and protocol.
        assert_eq!(attributes, [16, 16]);
        let places = |shape: &Shape| [&shape.fours, &shape.twos, &shape.ones].map(|p| p.len());
        assert_eq!(
            places(made[0]),
            [0, 0, 3],
            "the key has an ethertype in host order"
        );
        // An address of six bytes is copied in two steps.
        let mut mask = Key::default();
        mask.set(field::ETH_DST, &[0xff; 6]);
        let mask = Mask::new(mask);
        let shape = Shape::new(&stack, &mask, &mask.pack(&Key::default())).unwrap();
        assert_eq!(places(&shape), [1, 1, 0]);
    }
}
