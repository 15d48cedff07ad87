// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Safe wrappers around the system calls that this crate needs and std does not have.
//!
//! Everything here is a thin, total function over file descriptors, paths or the memory of a
//! client; nothing keeps state. The code that runs between `fork` and `exec` is in
//! [`crate::spawn`].
#![allow(unsafe_code)] // The system call layer: each block calls libc with checked arguments.
use crate::backend::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

mod poll;

pub(crate) use poll::{PollSet, epoll_add, epoll_create, epoll_ready, epoll_remove, poll, poll_in};

/// Returns the calling thread's errno.
pub(crate) fn errno() -> Errno {
    Errno::from(io::Error::last_os_error())
}

/// Turns a libc result of -1 into the errno.
pub(crate) fn check(result: impl Into<i64>) -> Result<i64, Errno> {
    let value = result.into();
    if value < 0 { Err(errno()) } else { Ok(value) }
}

fn owned(result: i32) -> Result<OwnedFd, Errno> {
    let fd = check(result)? as RawFd;
    // SAFETY: the system call just returned this descriptor, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Converts a path for a system call.
pub(crate) fn c_path(path: &Path) -> Result<CString, Errno> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno(libc::EINVAL))
}

/// Types that are plain bytes to the kernel: no padding that is read, any bit pattern valid.
///
/// # Safety
/// Only for `repr(C)` structures of integers that the kernel fills as a whole.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: filled by the kernel, integers only.
unsafe impl Plain for libc::stat {}
// SAFETY: filled by the kernel, integers only.
unsafe impl Plain for libc::statx {}
// SAFETY: filled by the kernel, integers only.
unsafe impl Plain for libc::statfs {}

/// Returns the bytes of a plain structure.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `Plain` types were zeroed as a whole before the kernel filled them, so every byte,
    // padding included, is initialised; the slice lives as long as the borrow.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Reads memory of a thread. Returns the number of bytes that could be read.
pub(crate) fn read_memory(tid: u32, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: buffer.len(),
    };
    // SAFETY: the local vector describes `buffer`, which the call may fill; the remote address
    // is only interpreted by the kernel, in the other process.
    let n = unsafe { libc::process_vm_readv(tid as i32, &local, 1, &remote, 1, 0) };
    Ok(check(n as i64)? as usize)
}

/// Reads exactly `N` bytes of a thread's memory.
pub(crate) fn read_array<const N: usize>(tid: u32, address: u64) -> Result<[u8; N], Errno> {
    let mut buffer = [0; N];
    if read_memory(tid, address, &mut buffer)? == N {
        Ok(buffer)
    } else {
        Err(Errno(libc::EFAULT))
    }
}

/// Checks whether memory of a process may be read at all.
pub(crate) fn may_read_memory(pid: u32) -> Result<(), Errno> {
    // No process maps the top of the address space, and the kernel checks permission first.
    match read_memory(pid, u64::MAX - 4096, &mut [0]) {
        // ESRCH: the process has ended already.
        Ok(_) | Err(Errno(libc::EFAULT | libc::ESRCH)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes memory of a thread. Fails with `EFAULT` unless all of it was written.
pub(crate) fn write_memory(tid: u32, address: u64, bytes: &[u8]) -> Result<(), Errno> {
    if bytes.is_empty() {
        return Ok(());
    }
    let local = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: bytes.len(),
    };
    // SAFETY: the local vector describes `bytes`, which the call only reads; the remote address
    // is only interpreted by the kernel, in the other process.
    let n = unsafe { libc::process_vm_writev(tid as i32, &local, 1, &remote, 1, 0) };
    if check(n as i64)? as usize == bytes.len() {
        Ok(())
    } else {
        Err(Errno(libc::EFAULT))
    }
}

/// The most pieces of memory of one call (`UIO_MAXIOV`).
const MAX_PIECES: usize = 1024;

fn remote(&(address, length): &(u64, usize)) -> libc::iovec {
    libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: length,
    }
}

/// Reads pieces of a thread's memory, given by address and length, one behind the other. Fails with `EFAULT` unless all
/// could be read.
pub(crate) fn read_pieces(tid: u32, pieces: &[(u64, usize)]) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; pieces.iter().map(|(_, length)| length).sum()];
    let mut rest = &mut bytes[..];
    for pieces in pieces.chunks(MAX_PIECES) {
        let there: Vec<libc::iovec> = pieces.iter().map(remote).collect();
        let length = pieces.iter().map(|(_, length)| length).sum();
        let (now, later) = rest.split_at_mut(length);
        rest = later;
        if length == 0 {
            continue;
        }
        let local = libc::iovec {
            iov_base: now.as_mut_ptr().cast(),
            iov_len: length,
        };
        let (at, count) = (there.as_ptr(), there.len() as libc::c_ulong);
        // SAFETY: the local vector describes `now`, which the call may fill; the remote addresses
        // are only interpreted by the kernel, in the other process.
        let n = unsafe { libc::process_vm_readv(tid as i32, &local, 1, at, count, 0) };
        if check(n as i64)? as usize != length {
            return Err(Errno(libc::EFAULT));
        }
    }
    Ok(bytes)
}

/// Writes pieces of a thread's memory, each at an address. Fails with `EFAULT` unless all of them were written.
pub(crate) fn write_pieces(tid: u32, pieces: &[(u64, &[u8])]) -> Result<(), Errno> {
    for pieces in pieces.chunks(MAX_PIECES) {
        let here: Vec<libc::iovec> = pieces
            .iter()
            .map(|(_, bytes)| libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            })
            .collect();
        let there: Vec<libc::iovec> = pieces
            .iter()
            .map(|&(address, bytes)| remote(&(address, bytes.len())))
            .collect();
        let length: usize = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
        if length == 0 {
            continue;
        }
        let count = there.len() as libc::c_ulong;
        // SAFETY: the local vectors describe the pieces, which the call only reads; the remote
        // addresses are only interpreted by the kernel, in the other process.
        let n = unsafe {
            libc::process_vm_writev(tid as i32, here.as_ptr(), count, there.as_ptr(), count, 0)
        };
        if check(n as i64)? as usize != length {
            return Err(Errno(libc::EFAULT));
        }
    }
    Ok(())
}

/// Reads a NUL-terminated string of at most `PATH_MAX` bytes, never across an unmapped page.
pub(crate) fn read_string(tid: u32, address: u64) -> Result<String, Errno> {
    const PAGE: u64 = 4096;
    const FIRST: u64 = 256; // most paths are short, so one small read suffices
    let mut text = Vec::new();
    let mut buffer = [0u8; PAGE as usize];
    while text.len() < libc::PATH_MAX as usize {
        let at = address.wrapping_add(text.len() as u64);
        let mut want = PAGE - (at & (PAGE - 1));
        if text.is_empty() {
            want = want.min(FIRST);
        }
        let n = read_memory(tid, at, &mut buffer[..want as usize])?;
        if n == 0 {
            return Err(Errno(libc::EFAULT));
        }
        if let Some(end) = buffer[..n].iter().position(|&b| b == 0) {
            text.extend_from_slice(&buffer[..end]);
            return String::from_utf8(text).map_err(|_| Errno(libc::EILSEQ));
        }
        text.extend_from_slice(&buffer[..n]);
    }
    Err(Errno(libc::ENAMETOOLONG))
}

/// Creates a connected pair of AF_UNIX sockets, close-on-exec.
pub(crate) fn socket_pair(kind: i32) -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut fds = [-1; 2];
    // SAFETY: `fds` has room for the two descriptors.
    check(unsafe {
        libc::socketpair(
            libc::AF_UNIX,
            kind | libc::SOCK_CLOEXEC,
            0,
            fds.as_mut_ptr(),
        )
    })?;
    Ok((owned(fds[0])?, owned(fds[1])?))
}

/// Binds an AF_UNIX socket to an abstract name (its first byte is the NUL).
pub(crate) fn bind_abstract(fd: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    // SAFETY: all-zero is a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sun_family = libc::AF_UNIX as u16;
    for (slot, byte) in address.sun_path.iter_mut().zip(name) {
        *slot = *byte as libc::c_char;
    }
    let length = 2 + name.len().min(address.sun_path.len());
    // SAFETY: the address is initialised and `length` is within it.
    check(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            length as u32,
        )
    })?;
    Ok(())
}

/// Sets an integer socket option.
pub(crate) fn set_socket_option(
    fd: BorrowedFd<'_>,
    level: i32,
    option: i32,
    value: i32,
) -> Result<(), Errno> {
    // SAFETY: the value outlives the call and its size is given.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(&value).cast(),
            size_of::<i32>() as u32,
        )
    })?;
    Ok(())
}

/// Returns the time of `SO_RCVTIMEO` or `SO_SNDTIMEO`; `None` means no limit.
pub(crate) fn time_option(fd: BorrowedFd<'_>, option: i32) -> Result<Option<Duration>, Errno> {
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let mut length = size_of::<libc::timeval>() as u32;
    // SAFETY: `time` and `length` outlive the call and `length` is its size.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_mut(&mut time).cast(),
            &mut length,
        )
    })?;
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    let time = Duration::from_secs(seconds) + Duration::from_micros(micros);
    Ok((!time.is_zero()).then_some(time))
}

/// Takes the pending error of a socket (`SO_ERROR`), which is then gone.
pub(crate) fn clear_error(fd: BorrowedFd<'_>) {
    let mut error: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as u32;
    // SAFETY: `error` and `length` outlive the call and `length` is its size.
    unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            std::ptr::from_mut(&mut error).cast(),
            &mut length,
        );
    }
}

/// Returns the peer's user id (`SO_PEERCRED`).
pub(crate) fn peer_uid(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    // SAFETY: all-zero is a valid ucred.
    let mut cred: libc::ucred = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut length = size_of::<libc::ucred>() as u32;
    // SAFETY: `cred` and `length` outlive the call and `length` is its size.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut cred).cast(),
            &mut length,
        )
    })?;
    Ok(cred.uid)
}

/// Sends a packet (or stream bytes) without ever raising `SIGPIPE`.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8], flags: i32) -> Result<usize, Errno> {
    // SAFETY: pointer and length describe `bytes`.
    let n = unsafe {
        libc::send(
            fd.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags | libc::MSG_NOSIGNAL,
        )
    };
    Ok(check(n as i64)? as usize)
}

/// Receives a packet (or stream bytes). Returns 0 at end of file.
pub(crate) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: i32) -> Result<usize, Errno> {
    // SAFETY: pointer and length describe `buffer`.
    let n = unsafe {
        libc::recv(
            fd.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            flags,
        )
    };
    Ok(check(n as i64)? as usize)
}

const MAX_FDS: usize = 64;
/// A buffer for a control message with `MAX_FDS` descriptors, aligned as a cmsghdr.
#[repr(C, align(8))]
struct ControlBuffer([u8; 320]);

/// Sends bytes together with up to 64 descriptors.
pub(crate) fn send_with_fds(
    fd: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    flags: i32,
) -> Result<usize, Errno> {
    assert!(fds.len() <= MAX_FDS, "at most 64 descriptors per message");
    let mut io = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = ControlBuffer([0; 320]);
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &mut io;
    message.msg_iovlen = 1;
    if !fds.is_empty() {
        let payload = std::mem::size_of_val(fds) as u32;
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE only computes; 64 descriptors need 272 bytes, the buffer has 320, so
        // CMSG_FIRSTHDR is inside it and CMSG_DATA has room for the copied descriptors.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(payload) as _;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(payload) as _;
            for (i, fd) in fds.iter().enumerate() {
                libc::CMSG_DATA(header)
                    .cast::<RawFd>()
                    .add(i)
                    .write_unaligned(fd.as_raw_fd());
            }
        }
    }
    // SAFETY: the message describes live buffers.
    let n = unsafe { libc::sendmsg(fd.as_raw_fd(), &message, flags | libc::MSG_NOSIGNAL) };
    Ok(check(n as i64)? as usize)
}

/// Receives bytes and the descriptors sent with them.
pub(crate) fn receive_with_fds(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: i32,
) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut io = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut control = ControlBuffer([0; 320]);
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &mut io;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the message describes live buffers with their true sizes.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, flags | libc::MSG_CMSG_CLOEXEC) };
    let n = check(n as i64)? as usize;
    let mut fds = Vec::new();
    // SAFETY: the kernel filled msg_control up to msg_controllen; the CMSG macros stay within it,
    // and each SCM_RIGHTS entry carries (cmsg_len - header) / 4 descriptors that are now ours.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                for i in 0..bytes / size_of::<RawFd>() {
                    let raw = libc::CMSG_DATA(header)
                        .cast::<RawFd>()
                        .add(i)
                        .read_unaligned();
                    fds.push(OwnedFd::from_raw_fd(raw));
                }
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    Ok((n, fds))
}

/// Creates a packet pipe (each write is one read). Both ends are close-on-exec; the read end is
/// non-blocking.
pub(crate) fn packet_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut fds = [-1; 2];
    // SAFETY: `fds` has room for the two descriptors.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_DIRECT) })?;
    let (read, write) = (owned(fds[0])?, owned(fds[1])?);
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(read.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })?;
    Ok((read, write))
}

/// Creates a pipe whose ends do not block.
pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut fds = [-1; 2];
    // SAFETY: `fds` has room for the two descriptors.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
    Ok((owned(fds[0])?, owned(fds[1])?))
}

/// Copies what is in a pipe, at most `most` bytes, to another; it stays in the first. EAGAIN if the first is empty and may
/// get more, or the other is full.
pub(crate) fn tee(from: BorrowedFd<'_>, to: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
    let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
    // SAFETY: no pointers.
    check(unsafe { libc::tee(from, to, most, libc::SPLICE_F_NONBLOCK) } as i64).map(|n| n as usize)
}

/// Moves at most `most` bytes between a pipe and another file. EAGAIN if the pipe is empty and may get more, or is full.
pub(crate) fn splice(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    most: usize,
) -> Result<usize, Errno> {
    let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
    let (none, flags) = (std::ptr::null_mut(), libc::SPLICE_F_NONBLOCK);
    // SAFETY: no offsets.
    check(unsafe { libc::splice(from, none, to, none, most, flags) } as i64).map(|n| n as usize)
}

/// Returns whether an open file is a pipe.
pub(crate) fn is_pipe(fd: BorrowedFd<'_>) -> bool {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call fills `stat` if it succeeds, and it is read only then.
    unsafe {
        libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) == 0
            && stat.assume_init().st_mode & libc::S_IFMT == libc::S_IFIFO
    }
}

/// Returns whether the open file does not block (`O_NONBLOCK`).
pub(crate) fn is_nonblocking(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

/// Returns whether an open file may be written to.
pub(crate) fn is_writable(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    flags >= 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Makes a descriptor non-blocking.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: no pointers.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })? as i32;
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// Creates a file in memory with this content and its offset at the start.
pub(crate) fn memory_file(name: &CStr, content: &[u8]) -> Result<OwnedFd, Errno> {
    // SAFETY: the name is NUL-terminated.
    let fd = owned(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    let mut at = 0;
    while at < content.len() {
        // SAFETY: pointer and length describe the rest of `content`.
        let n = unsafe {
            libc::pwrite(
                fd.as_raw_fd(),
                content[at..].as_ptr().cast(),
                content.len() - at,
                at as i64,
            )
        };
        at += check(n as i64)? as usize;
    }
    Ok(fd)
}

/// Returns the content of a file in memory.
pub(crate) fn content_of(file: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    // SAFETY: all-zero is a valid stat.
    let mut status: libc::stat = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the kernel writes one struct stat.
    check(unsafe { libc::fstat(file.as_raw_fd(), &mut status) })?;
    let mut content = vec![0; usize::try_from(status.st_size).unwrap_or(0)];
    // SAFETY: pointer and length describe `content`.
    let n = unsafe {
        libc::pread(
            file.as_raw_fd(),
            content.as_mut_ptr().cast(),
            content.len(),
            0,
        )
    };
    content.truncate(check(n as i64)? as usize);
    Ok(content)
}

/// Opens a path, close-on-exec.
pub(crate) fn open(path: &Path, flags: i32, mode: u32) -> Result<OwnedFd, Errno> {
    let path = c_path(path)?;
    // SAFETY: the path is NUL-terminated.
    owned(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, mode) })
}

/// Reads from a descriptor. Returns 0 at end of file.
pub(crate) fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: pointer and length describe `buffer`.
    let n = unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    Ok(check(n as i64)? as usize)
}

/// Calls `fstatat` as the client would have.
pub(crate) fn stat(path: &Path, flags: i32) -> Result<libc::stat, Errno> {
    let path = c_path(path)?;
    // SAFETY: all-zero is a valid stat.
    let mut out: libc::stat = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the path is NUL-terminated and `out` has room.
    check(unsafe { libc::fstatat(libc::AT_FDCWD, path.as_ptr(), &mut out, flags) })?;
    Ok(out)
}

/// Calls `statx` as the client would have.
pub(crate) fn statx(path: &Path, flags: i32, mask: u32) -> Result<libc::statx, Errno> {
    let path = c_path(path)?;
    // SAFETY: all-zero is a valid statx.
    let mut out: libc::statx = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the path is NUL-terminated and `out` has room.
    check(unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, mask, &mut out) })?;
    Ok(out)
}

/// Calls `statfs`.
pub(crate) fn statfs(path: &Path) -> Result<libc::statfs, Errno> {
    let path = c_path(path)?;
    // SAFETY: all-zero is a valid statfs.
    let mut out: libc::statfs = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the path is NUL-terminated and `out` has room.
    check(unsafe { libc::statfs(path.as_ptr(), &mut out) })?;
    Ok(out)
}

/// Returns the size of a memory page, bytes.
pub(crate) fn page_size() -> usize {
    // SAFETY: no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Calls `access`.
pub(crate) fn access(path: &Path, mode: i32) -> Result<(), Errno> {
    let path = c_path(path)?;
    // SAFETY: the path is NUL-terminated.
    check(unsafe { libc::access(path.as_ptr(), mode) })?;
    Ok(())
}

/// Calls `inotify_add_watch`.
pub(crate) fn inotify_add_watch(fd: BorrowedFd<'_>, path: &Path, mask: u32) -> Result<i64, Errno> {
    let path = c_path(path)?;
    // SAFETY: the path is NUL-terminated.
    check(unsafe { libc::inotify_add_watch(fd.as_raw_fd(), path.as_ptr(), mask) })
}

/// Opens a descriptor for a process, which is readable once the process has ended.
pub(crate) fn pidfd_open(pid: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid as i32, 0) } as i32)
}

/// Opens a descriptor for a thread (`PIDFD_THREAD`, Linux 6.9), or else for the process whose first thread it is.
///
/// # Errors
/// EINVAL, and ENOENT of newer kernels, for another thread where the kernel is older.
pub(crate) fn pidfd_open_thread(tid: u32) -> Result<OwnedFd, Errno> {
    for flags in [libc::O_EXCL, 0] {
        // SAFETY: no pointers.
        match owned(unsafe { libc::syscall(libc::SYS_pidfd_open, tid as i32, flags) } as i32) {
            Err(Errno(libc::EINVAL)) if flags != 0 => {}
            other => return other,
        }
    }
    Err(Errno(libc::EINVAL))
}

/// Returns the device and the inode of an open file.
pub(crate) fn identity(fd: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    // SAFETY: a stat of zeroes is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes one stat.
    check(unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) })?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Duplicates a descriptor of another process.
pub(crate) fn pidfd_getfd(process: BorrowedFd<'_>, fd: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) } as i32)
}

/// Returns the memory in bytes of what the other end of a socket has not read (`SIOCOUTQ`); 0 if the kernel does not say.
pub(crate) fn unread(fd: BorrowedFd<'_>) -> usize {
    let mut length: libc::c_int = 0;
    // SAFETY: the call writes one int.
    unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &mut length) };
    usize::try_from(length).unwrap_or(0)
}

/// Returns how many bytes can be read from a socket (`FIONREAD`).
pub(crate) fn to_read(fd: BorrowedFd<'_>) -> usize {
    let mut length: libc::c_int = 0;
    // SAFETY: the call writes one int.
    unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &mut length) };
    usize::try_from(length).unwrap_or(0)
}

/// Sends a signal to a process; 0 only checks that it is there.
pub(crate) fn send_signal(process: u32, signal: i32) -> Result<(), Errno> {
    // SAFETY: no pointers.
    check(unsafe { libc::kill(process as i32, signal) }).map(drop)
}

/// Sends a signal to a thread of a process.
pub(crate) fn signal_thread(process: u32, tid: u32, signal: i32) -> Result<(), Errno> {
    // SAFETY: no pointers.
    check(unsafe { libc::syscall(libc::SYS_tgkill, process, tid, signal) }).map(drop)
}

/// Returns whether a process's descriptor is the same open file as one of ours (`kcmp`).
pub(crate) fn is_same_file(process: u32, fd: i32, own: BorrowedFd<'_>) -> bool {
    const KCMP_FILE: i32 = 0;
    let me = std::process::id();
    // SAFETY: no pointers.
    let order =
        unsafe { libc::syscall(libc::SYS_kcmp, process, me, KCMP_FILE, fd, own.as_raw_fd()) };
    // A kernel that does not compare them says nothing against it.
    order == 0 || order < 0 && matches!(errno(), Errno(libc::ENOSYS | libc::EPERM))
}

fn set_timer(fd: BorrowedFd<'_>, nanoseconds: i64) -> Result<(), Errno> {
    let none = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let time = libc::itimerspec {
        it_interval: none,
        it_value: libc::timespec {
            tv_nsec: nanoseconds,
            ..none
        },
    };
    // SAFETY: `time` outlives the call.
    check(unsafe { libc::timerfd_settime(fd.as_raw_fd(), 0, &time, std::ptr::null_mut()) })
        .map(drop)
}

/// Disarms the timer behind a descriptor.
pub(crate) fn disarm_timer(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    set_timer(fd, 0)
}

/// Makes the timer behind a descriptor expire, and waits until it has.
pub(crate) fn expire_timer(fd: BorrowedFd<'_>) {
    const PATIENCE_MS: i32 = 100;
    if set_timer(fd, 1).is_ok() {
        // The program may have read it before this thread sees it.
        let _ = poll_in(&[fd], Some(PATIENCE_MS));
    }
}

/// Returns the time of a clock of the machine, ns.
pub(crate) fn clock_time(clock: i32) -> Result<u64, Errno> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` has room.
    check(unsafe { libc::clock_gettime(clock, &mut time) })?;
    Ok((time.tv_sec as u64).saturating_mul(1_000_000_000) + time.tv_nsec as u64)
}

/// Resets an event descriptor.
pub(crate) fn take_wake(fd: BorrowedFd<'_>) {
    // An event descriptor that was not signalled needs no reset.
    let _ = read(fd, &mut [0; 8]);
}

/// Creates an event descriptor that wakes a poll loop.
pub(crate) fn event_fd() -> Result<OwnedFd, Errno> {
    // SAFETY: no pointers.
    owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Wakes the threads that poll this event descriptor.
pub(crate) fn wake(fd: BorrowedFd<'_>) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight readable bytes.
    unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// Takes the exclusive lock (`flock`) of a file. Fails with `EAGAIN` if it is taken.
pub(crate) fn try_lock(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: no pointers.
    check(unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })?;
    Ok(())
}

/// Returns the effective user id.
pub(crate) fn effective_uid() -> u32 {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns the real user and group id.
pub(crate) fn user_and_group() -> (u32, u32) {
    // SAFETY: cannot fail.
    unsafe { (libc::getuid(), libc::getgid()) }
}

/// Creates a directory with a unique name `prefixXXXXXX`, mode 0700.
pub(crate) fn make_unique_directory(prefix: &Path) -> Result<PathBuf, Errno> {
    use std::os::unix::ffi::OsStringExt;
    let mut template = c_path(prefix)?.into_bytes();
    template.extend_from_slice(b"XXXXXX\0");
    // SAFETY: the template is NUL-terminated, writable and ends in XXXXXX.
    if unsafe { libc::mkdtemp(template.as_mut_ptr().cast()) }.is_null() {
        return Err(errno());
    }
    template.pop();
    Ok(PathBuf::from(std::ffi::OsString::from_vec(template)))
}

/// A resource whose use a process may limit (`RLIMIT_*`).
pub(crate) type Resource = libc::__rlimit_resource_t;

/// Returns a soft limit of a process.
pub(crate) fn soft_limit(pid: u32, resource: Resource) -> Option<u64> {
    let limit = limits(pid, resource, None).ok()?;
    Some(limit.rlim_cur)
}

/// Sets a soft limit of a process, at most to its hard limit.
pub(crate) fn set_soft_limit(pid: u32, resource: Resource, soft: u64) -> Result<(), Errno> {
    let mut limit = limits(pid, resource, None)?;
    limit.rlim_cur = soft;
    limits(pid, resource, Some(limit)).map(drop)
}

/// Reads a limit of a process, and sets it if `new` is given.
fn limits(
    pid: u32,
    resource: Resource,
    new: Option<libc::rlimit64>,
) -> Result<libc::rlimit64, Errno> {
    // SAFETY: all-zero is a valid rlimit64.
    let mut old: libc::rlimit64 = unsafe { MaybeUninit::zeroed().assume_init() };
    let new = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `new` is null or points to a live limit, `old` has room.
    check(unsafe { libc::prlimit64(pid as i32, resource, new, &mut old) })?;
    Ok(old)
}

/// A set of CPUs that a thread may run on.
#[derive(Clone, Copy)]
pub(crate) struct CpuSet(libc::cpu_set_t);

impl CpuSet {
    /// Returns the CPUs that thread `tid` may run on (0: the caller).
    pub(crate) fn of(tid: u32) -> Result<CpuSet, Errno> {
        // SAFETY: all-zero is a valid set.
        let mut set: libc::cpu_set_t = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: `set` has the given size.
        check(unsafe {
            libc::sched_getaffinity(tid as i32, size_of::<libc::cpu_set_t>(), &mut set)
        })?;
        Ok(CpuSet(set))
    }

    /// Returns the set with one CPU.
    pub(crate) fn one(cpu: usize) -> CpuSet {
        // SAFETY: all-zero is a valid set.
        let mut set: libc::cpu_set_t = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: CPU_SET ignores numbers beyond the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
        CpuSet(set)
    }

    /// Returns whether the set has this CPU and another one.
    pub(crate) fn has_more_than(&self, cpu: usize) -> bool {
        let possible = cpu < libc::CPU_SETSIZE as usize;
        // SAFETY: the number is below CPU_SETSIZE.
        possible && unsafe { libc::CPU_ISSET(cpu, &self.0) && libc::CPU_COUNT(&self.0) > 1 }
    }

    /// Returns the CPUs of the set, ascending.
    pub(crate) fn cpus(&self) -> Vec<usize> {
        (0..libc::CPU_SETSIZE as usize)
            // SAFETY: the number is below CPU_SETSIZE.
            .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &self.0) })
            .collect()
    }

    /// Restricts thread `tid` (0: the caller) to the set.
    pub(crate) fn apply(&self, tid: u32) -> Result<(), Errno> {
        // SAFETY: the set has the given size.
        check(unsafe {
            libc::sched_setaffinity(tid as i32, size_of::<libc::cpu_set_t>(), &self.0)
        })?;
        Ok(())
    }
}

/// Returns the CPU that the caller runs on.
pub(crate) fn current_cpu() -> usize {
    // SAFETY: no pointers.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Returns the thread id of the caller.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: cannot fail.
    (unsafe { libc::gettid() }) as u32
}

/// Waits for a child and returns its wait status.
pub(crate) fn wait_for(pid: u32) -> Result<i32, Errno> {
    let mut status = 0;
    loop {
        // SAFETY: `status` has room.
        match check(unsafe { libc::waitpid(pid as i32, &mut status, 0) }) {
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(status),
        }
    }
}

/// Duplicates standard error, to be passed on.
pub(crate) fn standard_error() -> Result<OwnedFd, Errno> {
    Ok(io::stderr().as_fd().try_clone_to_owned()?)
}

/// Returns random bytes from the kernel. They name sockets and never affect a stack's behaviour.
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: eight writable bytes.
    let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if n == 8 {
        u64::from_ne_bytes(bytes)
    } else {
        u64::from(thread_id()) << 32 | u64::from(std::process::id())
    }
}
