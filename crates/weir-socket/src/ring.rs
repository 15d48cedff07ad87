// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receive ring of a packet socket (`PACKET_RX_RING`, `tpacket_rcv`), in the form TPACKET_V2: frames of one size in
//! memory that the program maps. A frame belongs to the stack while its status is 0, and to the program otherwise.
//!
//! Not served: TPACKET_V3 (EINVAL, as in a kernel without it; libpcap then takes TPACKET_V2), rings in the form
//! TPACKET_V1, `PACKET_TX_RING`, `PACKET_COPY_THRESH`.

use std::sync::Arc;

use weir_netlink::errno;
use weir_packet::VlanTag;

use crate::Memory;

/// The length of `struct tpacket2_hdr` in bytes (`PACKET_HDRLEN`).
pub const HEADER: usize = 32;
/// `TPACKET2_HDRLEN`: the header, and a `sockaddr_ll` behind it.
const HEADERS: usize = HEADER + 20;
/// `TPACKET_ALIGNMENT`
const ALIGNMENT: usize = 16;
const PAGE: usize = 4096;
/// The most memory of a ring in bytes.
const LARGEST: usize = 64 << 20;
/// The least room that is kept for a link-layer header.
const LINK: usize = 16;

/// `TP_STATUS_*`
mod status {
    pub const USER: u32 = 1;
    pub const LOSING: u32 = 1 << 2;
    pub const VLAN_VALID: u32 = 1 << 4;
    pub const VLAN_TPID_VALID: u32 = 1 << 6;
    pub const TS_SOFTWARE: u32 = 1 << 29;
}

/// The sizes that a program asks for (`struct tpacket_req`), in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    block: usize,
    blocks: usize,
    frame: usize,
    frames: usize,
}

impl Request {
    /// Reads and checks a request (`packet_set_ring`). `None` takes the ring away. `reserve` is the room in front of each
    /// frame that the program has asked for (`PACKET_RESERVE`).
    ///
    /// # Errors
    /// EINVAL, ENOMEM.
    pub fn parse(value: &[u8], reserve: usize) -> Result<Option<Self>, i32> {
        let words = value.first_chunk::<16>().ok_or(errno::EINVAL)?;
        let (words, _) = words.as_chunks::<4>();
        let [block, blocks, frame, frames] = words else {
            return Err(errno::EINVAL);
        };
        let size = |bytes: &[u8; 4]| u32::from_ne_bytes(*bytes) as usize;
        let request = Self {
            block: size(block),
            blocks: size(blocks),
            frame: size(frame),
            frames: size(frames),
        };
        if request.blocks == 0 {
            return match request.frames {
                0 => Ok(None),
                _ => Err(errno::EINVAL),
            };
        }
        let per_block = request.block.checked_div(request.frame).unwrap_or(0);
        if request.block == 0
            || request.block > i32::MAX as usize
            || !request.block.is_multiple_of(PAGE)
            || request.frame < HEADERS + reserve
            || !request.frame.is_multiple_of(ALIGNMENT)
            || per_block == 0
            || per_block.checked_mul(request.blocks) != Some(request.frames)
        {
            return Err(errno::EINVAL);
        }
        if request.block.saturating_mul(request.blocks) > LARGEST {
            return Err(errno::ENOMEM);
        }
        Ok(Some(request))
    }

    /// Returns the length of the memory in bytes.
    pub fn length(&self) -> usize {
        self.block * self.blocks
    }

    /// Returns where a frame begins.
    fn place(&self, frame: usize) -> usize {
        let per_block = self.block / self.frame;
        frame / per_block * self.block + frame % per_block * self.frame
    }
}

/// A frame for a ring.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The data, cut as the filter says.
    pub data: &'a [u8],
    /// The length of all data in bytes.
    pub length: usize,
    /// The length of the link-layer header at the beginning of the data; `None` if the data begin behind it.
    pub link: Option<usize>,
    /// A `sockaddr_ll`.
    pub from: &'a [u8],
    /// The wall-clock time, ns.
    pub time: u64,
    /// The VLAN tag in the metadata.
    pub vlan: Option<VlanTag>,
    /// Whether frames have been lost.
    pub losing: bool,
}

/// A ring.
#[derive(Clone)]
pub struct Ring {
    request: Request,
    reserve: usize,
    memory: Arc<dyn Memory>,
    /// The frame that is filled next.
    next: usize,
}

impl Ring {
    /// Makes an empty ring in memory of the request's length.
    pub fn new(request: Request, reserve: usize, memory: Arc<dyn Memory>) -> Self {
        Self {
            request,
            reserve,
            memory,
            next: 0,
        }
    }

    /// Returns whether the program has a frame to read (`packet_poll`).
    pub fn is_readable(&self) -> bool {
        let last = self.next.checked_sub(1).unwrap_or(self.request.frames - 1);
        self.memory.byte(self.request.place(last)) != 0
    }

    /// Fills the next frame. Returns false if the program still has it (`tpacket_rcv`).
    pub fn put(&mut self, entry: &Entry<'_>) -> bool {
        let at = self.request.place(self.next);
        if self.memory.byte(at) != 0 {
            return false;
        }
        let (network, link) = match entry.link {
            // For SOCK_DGRAM.
            None => {
                let network = HEADERS.next_multiple_of(ALIGNMENT) + LINK + self.reserve;
                (network, network)
            }
            Some(link) => {
                let network = (HEADERS + link.max(LINK)).next_multiple_of(ALIGNMENT) + self.reserve;
                (network, network - link)
            }
        };
        let (Ok(network16), Ok(link16)) = (u16::try_from(network), u16::try_from(link)) else {
            return false;
        };
        let room = self.request.frame.saturating_sub(link);
        let data = entry.data.get(..room).unwrap_or(entry.data);
        let mut bits = status::USER | status::TS_SOFTWARE;
        if entry.losing {
            bits |= status::LOSING;
        }
        if entry.vlan.is_some() {
            bits |= status::VLAN_VALID | status::VLAN_TPID_VALID;
        }
        let tag = entry.vlan.unwrap_or(VlanTag { proto: 0, tci: 0 });
        let bits = bits.to_ne_bytes();
        let mut head = [0; HEADERS];
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = head.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        put(4, &(entry.length as u32).to_ne_bytes());
        put(8, &(data.len() as u32).to_ne_bytes());
        put(12, &link16.to_ne_bytes());
        put(14, &network16.to_ne_bytes());
        put(16, &((entry.time / 1_000_000_000) as u32).to_ne_bytes());
        put(20, &((entry.time % 1_000_000_000) as u32).to_ne_bytes());
        put(24, &tag.tci.to_ne_bytes());
        put(26, &tag.proto.to_ne_bytes());
        put(HEADER, entry.from);
        // The program sees the frame when the byte with TP_STATUS_USER is written, which comes last.
        let first = if cfg!(target_endian = "little") { 0 } else { 3 };
        put(0, &bits);
        let (own, seen) = (first, bits[first]);
        put(own, &[0]);
        self.memory.write(at + link, data);
        self.memory.write(at, &head);
        self.memory.write(at + own, &[seen]);
        self.next = (self.next + 1) % self.request.frames;
        true
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("Ring");
        f.field("request", &self.request).field("next", &self.next);
        f.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    struct Plain(Mutex<Vec<u8>>);

    impl Memory for Plain {
        fn byte(&self, at: usize) -> u8 {
            self.0.lock().unwrap()[at]
        }
        fn write(&self, at: usize, bytes: &[u8]) {
            self.0.lock().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn request(sizes: [u32; 4], reserve: usize) -> Result<Option<Request>, i32> {
        let bytes = sizes.map(u32::to_ne_bytes).concat();
        Request::parse(&bytes, reserve)
    }

    #[test]
    fn requests_are_checked_as_in_linux() {
        assert_eq!(request([0; 4], 0), Ok(None));
        for wrong in [
            [4096, 1, 2048, 1],
            [4095, 1, 2048, 1],
            [0, 1, 2048, 2],
            [4096, 1, 48, 85],
            [4096, 1, 2040, 2],
            [4096, 1, 8192, 0],
            [4096, 0, 2048, 2],
        ] {
            assert_eq!(request(wrong, 0), Err(errno::EINVAL), "{wrong:?}");
        }
        assert_eq!(request([4096, 1, 64, 64], 16), Err(errno::EINVAL));
        assert_eq!(Request::parse(&[0; 15], 0), Err(errno::EINVAL));
        assert_eq!(request([1 << 20, 128, 2048, 65536], 0), Err(errno::ENOMEM));
        let ring = request([8192, 2, 2048, 8], 4).unwrap().unwrap();
        assert_eq!(ring.length(), 16384);
    }

    #[test]
    fn frames_pass_to_the_program_and_back() {
        let sizes = request([4096, 2, 2048, 4], 4).unwrap().unwrap();
        let memory = Arc::new(Plain(Mutex::new(vec![0; sizes.length()])));
        let mut ring = Ring::new(sizes, 4, memory.clone());
        let data: Vec<u8> = (0..100).collect();
        let entry = Entry {
            data: &data,
            length: 1500,
            link: Some(14),
            from: &[7; 20],
            time: 3_000_000_005,
            vlan: Some(VlanTag {
                proto: 0x8100,
                tci: 9,
            }),
            losing: false,
        };
        assert!(!ring.is_readable());
        for _ in 0..4 {
            assert!(ring.put(&entry));
        }
        assert!(ring.is_readable() && !ring.put(&entry));
        let word = |at: usize| {
            let memory = memory.0.lock().unwrap();
            u32::from_ne_bytes(memory[at..at + 4].try_into().unwrap())
        };
        let half = |at: usize| {
            let memory = memory.0.lock().unwrap();
            u16::from_ne_bytes(memory[at..at + 2].try_into().unwrap())
        };
        // TP_STATUS_USER, VLAN_VALID, VLAN_TPID_VALID, TS_SOFTWARE; lengths; offsets; time; tag.
        assert_eq!(word(2048), 1 | 0x10 | 0x40 | 1 << 29);
        assert_eq!((word(2052), word(2056)), (1500, 100));
        // (52 + 16) up to 80, and 4 reserved; 14 before it.
        assert_eq!((half(2060), half(2062)), (70, 84));
        assert_eq!((word(2064), word(2068)), (3, 5));
        assert_eq!((half(2072), half(2074)), (9, 0x8100));
        assert_eq!(memory.0.lock().unwrap()[2048 + 32..][..20], [7; 20]);
        assert_eq!(memory.0.lock().unwrap()[2048 + 70..][..100], data);
        // The program gives the first one back.
        memory.write(0, &[0; 4]);
        assert!(ring.is_readable());
        let cooked = Entry {
            link: None,
            data: &[1; 4000],
            ..entry
        };
        assert!(ring.put(&cooked) && !ring.put(&cooked));
        // 52 up to 64, 16, 4; what is longer than a frame is cut.
        assert_eq!((half(12), half(14), word(8)), (84, 84, 2048 - 84));
        for frame in 0..4 {
            memory.write(frame * 2048, &[0; 4]);
        }
        assert!(!ring.is_readable());
    }
}
