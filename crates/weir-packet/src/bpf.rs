// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classic BPF programs, such as `tcpdump -ddd EXPR` prints them (McCanne and Jacobson, "The BSD
//! Packet Filter", 1993; `bpf_check_classic`).
//!
//! A program is checked when it is made: its jumps lead forward and stay inside, it ends with a
//! return, and it uses known instructions. Therefore a run ends after at most as many steps as the
//! program has instructions. A load beyond the frame ends the run, and the frame does not match. Metadata and headers at
//! negative offsets are read by filters of sockets only ([`Seen`]).

mod seen;

use std::fmt;

use crate::tagged::Tagged;
use seen::{METADATA, is_known};

pub use seen::Seen;

/// The maximum number of instructions (`BPF_MAXINSNS`).
pub const LONGEST: usize = 4096;
/// The number of words of scratch memory (`BPF_MEMWORDS`).
const WORDS: usize = 16;

/// An instruction (`struct sock_filter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// The number of instructions skipped if a comparison holds.
    pub jt: u8,
    /// The number of instructions skipped if it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

/// The reason why a program is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The text is not a list of instructions. Holds the line, from 1.
    Text(usize),
    /// The program has no instructions or too many.
    Length(usize),
    /// The instruction with this index, from 0, is unknown, jumps outside, divides by zero, or uses
    /// memory that does not exist.
    Instruction(usize),
    /// The last instruction is no return.
    NoReturn,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Text(line) => write!(f, "line {line} is not `CODE JT JF K`"),
            Error::Length(len) => write!(f, "{len} instructions; a program has 1 to {LONGEST}"),
            Error::Instruction(at) => write!(f, "instruction {at} is invalid"),
            Error::NoReturn => f.write_str("the program does not end with a return"),
        }
    }
}

impl std::error::Error for Error {}

/// A checked program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(Vec<Instruction>);

/// The operations, as a code composes them.
mod op {
    pub const LD: u16 = 0;
    pub const LDX: u16 = 1;
    pub const ST: u16 = 2;
    pub const STX: u16 = 3;
    pub const ALU: u16 = 4;
    pub const JMP: u16 = 5;
    pub const RET: u16 = 6;
    pub const MISC: u16 = 7;

    pub const IMM: u16 = 0x00;
    pub const ABS: u16 = 0x20;
    pub const IND: u16 = 0x40;
    pub const MEM: u16 = 0x60;
    pub const LEN: u16 = 0x80;
    pub const MSH: u16 = 0xa0;

    pub const HALF: u16 = 0x08;
    pub const BYTE: u16 = 0x10;
    /// The operand is the index register.
    pub const X: u16 = 0x08;
}

impl Program {
    /// Checks a program.
    pub fn new(instructions: Vec<Instruction>) -> Result<Self, Error> {
        let len = instructions.len();
        if len == 0 || len > LONGEST {
            return Err(Error::Length(len));
        }
        for (at, instruction) in instructions.iter().enumerate() {
            if !instruction.is_valid(len - at - 1) {
                return Err(Error::Instruction(at));
            }
        }
        match instructions.last() {
            Some(last) if last.code & 7 == op::RET => {}
            _ => return Err(Error::NoReturn),
        }
        match uninitialised(&instructions) {
            Some(at) => Err(Error::Instruction(at)),
            None => Ok(Self(instructions)),
        }
    }

    /// Returns the instructions.
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// Reads the output of `tcpdump -ddd`: the number of instructions, then `CODE JT JF K` in
    /// decimal, one instruction a line.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut lines = text.lines().enumerate();
        let count = lines.next().and_then(|(_, line)| line.trim().parse().ok());
        let count: usize = count.ok_or(Error::Text(1))?;
        let mut instructions = Vec::new();
        for (n, line) in lines {
            let read = || {
                let mut words = line.split_ascii_whitespace();
                let instruction = Instruction {
                    code: words.next()?.parse().ok()?,
                    jt: words.next()?.parse().ok()?,
                    jf: words.next()?.parse().ok()?,
                    k: words.next()?.parse().ok()?,
                };
                words.next().is_none().then_some(instruction)
            };
            instructions.push(read().ok_or(Error::Text(n + 1))?);
        }
        if instructions.len() != count {
            return Err(Error::Length(instructions.len()));
        }
        Self::new(instructions)
    }

    /// Returns the program as `tcpdump -ddd` prints it.
    pub fn to_text(&self) -> String {
        let lines = self.0.iter();
        let lines = lines.map(|i| format!("{} {} {} {}\n", i.code, i.jt, i.jf, i.k));
        format!("{}\n{}", self.0.len(), lines.collect::<String>())
    }

    /// Returns whether the program accepts a frame.
    pub fn matches(&self, frame: &[u8]) -> bool {
        self.execute(frame).is_some_and(|octets| octets > 0)
    }

    /// Returns whether the program, which was compiled for Ethernet, accepts a packet's frame as it looks on the wire. It
    /// accepts no frame of another link type.
    pub fn accepts(&self, frame: &Tagged<'_>) -> bool {
        frame.is_ethernet() && self.execute(frame).is_some_and(|octets| octets > 0)
    }

    /// Runs the program on a frame. Returns its result, which is the number of bytes to keep for a
    /// filter, or `None` if it loads a byte beyond the frame or divides by zero.
    pub fn run(&self, frame: &[u8]) -> Option<u32> {
        self.execute(frame)
    }

    /// As [`run`](Self::run), for the filter of a socket, which also reads metadata.
    pub fn run_on(&self, packet: &Seen<'_>) -> Option<u32> {
        self.execute(packet)
    }

    /// Does the work of [`run`](Self::run).
    fn execute<F: Frame + ?Sized>(&self, frame: &F) -> Option<u32> {
        let (mut a, mut x, mut at) = (0u32, 0u32, 0usize);
        let mut memory = [0u32; WORDS];
        while let Some(&Instruction { code, jt, jf, k }) = self.0.get(at) {
            at += 1;
            let operand = if code & op::X != 0 { x } else { k };
            match code & 7 {
                op::LD => {
                    a = match code & 0xe0 {
                        op::IMM => k,
                        op::MEM => *memory.get(k as usize)?,
                        op::LEN => frame.total() as u32,
                        op::IND => load(frame, x.checked_add(k)?, code)?,
                        _ if k >= METADATA => frame.metadata(k - METADATA)?,
                        _ => load(frame, k, code)?,
                    }
                }
                op::LDX => {
                    x = match code & 0xe0 {
                        op::IMM => k,
                        op::MEM => *memory.get(k as usize)?,
                        op::LEN => frame.total() as u32,
                        // The length of an IPv4 header.
                        _ => (load(frame, k, op::BYTE)? & 0xf) << 2,
                    }
                }
                op::ST => *memory.get_mut(k as usize)? = a,
                op::STX => *memory.get_mut(k as usize)? = x,
                op::ALU => a = compute(code, a, operand)?,
                op::JMP => {
                    let skip = match code & 0xf0 {
                        0x00 => k as usize,
                        0x10 => usize::from(if a == operand { jt } else { jf }),
                        0x20 => usize::from(if a > operand { jt } else { jf }),
                        0x30 => usize::from(if a >= operand { jt } else { jf }),
                        _ => usize::from(if a & operand != 0 { jt } else { jf }),
                    };
                    at = at.checked_add(skip)?;
                }
                op::RET => return Some(if code & 0x18 == 0x10 { a } else { k }),
                _ if code & 0xf8 == 0 => x = a,
                _ => a = x,
            }
        }
        None
    }
}

/// Returns the first instruction that reads a word of memory which was not written on every way to
/// it (`check_load_and_stores`).
fn uninitialised(instructions: &[Instruction]) -> Option<usize> {
    // The words written on every way to an instruction, by bit.
    let mut written = vec![u16::MAX; instructions.len()];
    let mut now = 0_u16;
    for (at, one) in instructions.iter().enumerate() {
        now &= written[at];
        let mut jumps = |by: usize| {
            if let Some(there) = written.get_mut((at + 1).saturating_add(by)) {
                *there &= now;
            }
        };
        match (one.code & 7, one.code & 0xe0) {
            (op::ST | op::STX, _) => now |= 1 << (one.k & 15),
            (op::LD | op::LDX, op::MEM) if now & 1 << (one.k & 15) == 0 => return Some(at),
            (op::JMP, _) => {
                if one.code & 0xf0 == 0 {
                    jumps(one.k as usize);
                } else {
                    jumps(one.jt.into());
                    jumps(one.jf.into());
                }
                now = u16::MAX;
            }
            _ => {}
        }
    }
    None
}

impl Instruction {
    /// Size in bytes of an instruction in requests and dumps.
    pub const LEN: usize = 8;

    /// Reads an instruction as programs of the kernel have it, in the order of the machine.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let [c, d, jt, jf, k @ ..] = bytes;
        Self {
            code: u16::from_ne_bytes([c, d]),
            jt,
            jf,
            k: u32::from_ne_bytes(k),
        }
    }

    /// Writes an instruction as [`from_bytes`](Self::from_bytes) reads it.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let ([c, d], [e, f, g, h]) = (self.code.to_ne_bytes(), self.k.to_ne_bytes());
        [c, d, self.jt, self.jf, e, f, g, h]
    }

    /// Returns the offset of a load from the packet.
    pub fn load_offset(self) -> Option<u32> {
        let packet = match self.code & 7 {
            op::LD => matches!(self.code & 0xe0, op::ABS | op::IND),
            op::LDX => self.code & 0xe0 == op::MSH,
            _ => false,
        };
        packet.then_some(self.k)
    }

    /// Returns whether the instruction is known and its jumps stay among the `rest` instructions
    /// after it.
    fn is_valid(self, rest: usize) -> bool {
        let (mode, size) = (self.code & 0xe0, self.code & 0x18);
        let in_memory = (self.k as usize) < WORDS;
        match self.code & 7 {
            _ if self.code > 0xff => false,
            op::LD => match mode {
                op::ABS => size != 0x18 && is_known(self.k),
                op::IND => size != 0x18,
                op::IMM | op::LEN => size == 0,
                op::MEM => size == 0 && in_memory,
                _ => false,
            },
            op::LDX => match mode {
                op::IMM | op::LEN => size == 0,
                op::MEM => size == 0 && in_memory,
                op::MSH => size == op::BYTE,
                _ => false,
            },
            op::ST | op::STX => self.code & 0xf8 == 0 && in_memory,
            op::ALU => match self.code & 0xf0 {
                // Division and remainder.
                0x30 | 0x90 => self.code & op::X != 0 || self.k != 0,
                0x60 | 0x70 => self.code & op::X != 0 || self.k < 32,
                0x80 => self.code & op::X == 0,
                other => other <= 0xa0,
            },
            op::JMP => match self.code & 0xf0 {
                0x00 => self.code & op::X == 0 && (self.k as usize) < rest,
                0x10..=0x40 => usize::from(self.jt.max(self.jf)) < rest,
                _ => false,
            },
            op::RET => matches!(self.code, 0x06 | 0x16),
            op::MISC => matches!(self.code, 0x07 | 0x87),
            _ => false,
        }
    }
}

/// The bytes that a program reads.
trait Frame {
    /// Returns the number of bytes.
    fn total(&self) -> usize;
    /// Returns the `N` bytes at a position, or `None` if the frame ends before.
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]>;
    /// Returns a field of the packet's metadata (`SKF_AD_*`), or `None` if it is not known here.
    fn metadata(&self, _field: u32) -> Option<u32> {
        None
    }
}

impl Frame for [u8] {
    #[inline]
    fn total(&self) -> usize {
        self.len()
    }

    #[inline]
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.get(at..)?.first_chunk().copied()
    }
}

impl Frame for Tagged<'_> {
    #[inline]
    fn total(&self) -> usize {
        self.len()
    }

    #[inline]
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        Tagged::array(self, at)
    }
}

/// Loads a word, half word or byte in network order.
fn load<F: Frame + ?Sized>(frame: &F, at: u32, code: u16) -> Option<u32> {
    let at = at as usize;
    Some(match code & 0x18 {
        op::HALF => u32::from(u16::from_be_bytes(frame.array(at)?)),
        op::BYTE => frame.array(at).map(|[byte]: [u8; 1]| u32::from(byte))?,
        _ => u32::from_be_bytes(frame.array(at)?),
    })
}

fn compute(code: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match code & 0xf0 {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        0x30 => a.checked_div(operand)?,
        0x40 => a | operand,
        0x50 => a & operand,
        // As in Linux, the lowest five bits count.
        0x60 => a.wrapping_shl(operand),
        0x70 => a.wrapping_shr(operand),
        0x80 => a.wrapping_neg(),
        0x90 => a.checked_rem(operand)?,
        _ => a ^ operand,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `tcpdump -y EN10MB -ddd 'udp port 53'`
    const DNS: &str = "20\n40 0 0 12\n21 0 6 34525\n48 0 0 20\n21 0 15 17\n40 0 0 54\n21 12 0 53\n\
                       40 0 0 56\n21 10 11 53\n21 0 10 2048\n48 0 0 23\n21 0 8 17\n40 0 0 20\n\
                       69 6 0 8191\n177 0 0 14\n72 0 0 14\n21 2 0 53\n72 0 0 16\n21 0 1 53\n\
                       6 0 0 262144\n6 0 0 0\n";

    fn datagram(protocol: u8, from: u16, to: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(from.to_be_bytes());
        frame.extend(to.to_be_bytes());
        frame.extend([0, 8, 0, 0]);
        frame
    }

    #[test]
    fn a_program_of_libpcap_selects_frames() {
        let program = Program::parse(DNS).unwrap();
        assert_eq!(program.to_text(), DNS);
        assert!(program.matches(&datagram(17, 53, 9)));
        assert!(program.matches(&datagram(17, 9, 53)));
        assert!(!program.matches(&datagram(17, 9, 9)));
        assert!(!program.matches(&datagram(6, 53, 53)));
        // Options move the ports.
        let mut longer = datagram(17, 53, 9);
        longer[14] = 0x46;
        longer.splice(34..34, [0, 0, 0, 0]);
        assert!(program.matches(&longer));
        // A fragment has no ports, and a short frame has no header.
        let mut fragment = datagram(17, 53, 9);
        fragment[21] = 1;
        assert!(!program.matches(&fragment));
        assert!(!program.matches(&datagram(17, 53, 9)[..20]));
    }

    #[test]
    fn invalid_programs_are_refused() {
        for (text, error) in [
            ("", Error::Text(1)),
            ("1\n", Error::Length(0)),
            ("1\n6 0 0\n", Error::Text(2)),
            ("1\n6 0 0 0 0\n", Error::Text(2)),
            ("2\n6 0 0 0\n", Error::Length(1)),
            ("1\n40 0 0 12\n", Error::NoReturn),
            // A jump behind the end, and one that leads nowhere.
            ("2\n21 0 1 0\n6 0 0 0\n", Error::Instruction(0)),
            ("2\n5 0 0 4294967295\n6 0 0 0\n", Error::Instruction(0)),
            ("2\n52 0 0 0\n6 0 0 0\n", Error::Instruction(0)),
            ("2\n2 0 0 16\n6 0 0 0\n", Error::Instruction(0)),
            ("1\n255 0 0 0\n", Error::Instruction(0)),
            // Memory that was not written, on one of two ways.
            ("2\n96 0 0 3\n22 0 0 0\n", Error::Instruction(0)),
            (
                "4\n21 0 1 0\n2 0 0 3\n96 0 0 3\n22 0 0 0\n",
                Error::Instruction(2),
            ),
        ] {
            assert_eq!(Program::parse(text), Err(error), "{text}");
        }
    }

    /// A tag in the metadata is where it is on the wire.
    #[test]
    fn a_tag_in_the_metadata_is_part_of_the_frame() {
        // `tcpdump -y EN10MB -ddd 'vlan 7 and udp port 53'`, without its jumps for IPv6.
        let text = "16\n40 0 0 12\n21 0 13 33024\n40 0 0 14\n84 0 0 4095\n21 0 10 7\n40 0 0 16\n\
                    21 0 8 2048\n48 0 0 27\n21 0 6 17\n177 0 0 18\n72 0 0 18\n21 2 0 53\n72 0 0 20\n\
                    21 0 1 53\n6 0 0 262144\n6 0 0 0\n";
        let program = Program::parse(text).unwrap();
        let pool = crate::Pool::new(crate::PoolConfig::default());
        let mut packet = pool.packet(&datagram(17, 53, 9)).unwrap();
        assert!(!program.accepts(&Tagged::of(&packet, Default::default())));
        packet.set_vlan(Some(crate::VlanTag {
            proto: 0x8100,
            tci: 0x2007,
        }));
        let tagged = Tagged::of(&packet, Default::default());
        assert!(program.accepts(&tagged));
        assert!(program.matches(&tagged.to_vec()));
        assert_eq!(tagged.to_vec()[12..16], [0x81, 0, 0x20, 7]);
        let all = Program::parse("1\n6 0 0 1\n").unwrap();
        let netlink = Tagged::of(&packet, crate::tagged::Framing::Netlink);
        assert!(all.accepts(&tagged) && !all.accepts(&netlink));
        assert_eq!(tagged.len(), packet.len() + 4);
        // The same bytes at every position, and none past the end.
        for at in 0..=tagged.len() {
            let expected = tagged
                .to_vec()
                .get(at..)
                .and_then(|rest| rest.first_chunk().copied());
            assert_eq!(tagged.array::<4>(at), expected, "{at}");
        }
    }

    fn instruction() -> impl Strategy<Value = Instruction> {
        let code = prop_oneof![0..=0xffu16, any::<u16>()];
        let k = prop_oneof![0..40u32, any::<u32>()];
        (code, 0..6u8, 0..6u8, k).prop_map(|(code, jt, jf, k)| Instruction { code, jt, jf, k })
    }

    proptest! {
        /// A program that passes the check ends without a panic.
        #[test]
        fn no_program_panics_or_loops(
            mut program in prop::collection::vec(instruction(), 0..60),
            frame in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            program.retain(|one| one.is_valid(10));
            program.extend([Instruction { code: 0x16, jt: 0, jf: 0, k: 0 }; 11]);
            if let Ok(program) = Program::new(program) {
                program.matches(&frame);
                prop_assert_eq!(&Program::parse(&program.to_text()).unwrap(), &program);
            }
        }
    }
}
