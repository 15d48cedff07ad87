# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# ethtool-ioctl.py DEVICE...: sends commands of SIOCETHTOOL, as programs before netlink do, and prints the
# answers.
import ctypes
import errno
import fcntl
import socket
import struct
import sys

SIOCETHTOOL = 0x8946
control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def send(device, command, room=0):
    """Returns the answer and the result of the call, or the name of its error."""
    buffer = ctypes.create_string_buffer(command, len(command) + room)
    ifreq = struct.pack("=16sQ16x", device.encode(), ctypes.addressof(buffer))
    try:
        result = fcntl.ioctl(control, SIOCETHTOOL, bytearray(ifreq))
        return buffer.raw, result
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno)), None


def words(*values):
    return struct.pack("=%dI" % len(values), *values)


def show(device, name, command, room=0):
    answer, result = send(device, command, room)
    if result is None:
        print("%s %s: %s" % (device, name, answer))
    else:
        text = answer.hex()
        while len(text) > 8 and text.endswith("00000000"):
            text = text[:-8]
        print("%s %s: %d %s" % (device, name, result, text))


SINGLE = {
    "rxcsum": 0x14, "txcsum": 0x16, "sg": 0x18, "tso": 0x1E, "gso": 0x23, "flags": 0x25, "gro": 0x2B,
}
OTHER = {
    "GSET": 0x01, "GREGS": 0x04, "GWOL": 0x05, "GMSGLVL": 0x07, "NWAY_RST": 0x09, "GEEPROM": 0x0B,
    "GCOALESCE": 0x0E, "GRINGPARAM": 0x10, "GPAUSEPARAM": 0x12, "GRXRINGS": 0x2D, "GRXFHINDIR": 0x38,
    "GEEE": 0x44, "GFECPARAM": 0x50, "none": 0xFFFF,
}

for device in sys.argv[1:]:
    # The index of the peer and the release of the kernel differ.
    answer, result = send(device, words(0x03) + bytes(192))
    if result is None:
        print("%s GDRVINFO: %s" % (device, answer))
    else:
        driver, version = (answer[at:at + 32].rstrip(b"\0").decode() for at in (4, 36))
        version = "6.1.N" if version.startswith("6.1.") else version
        print("%s GDRVINFO: %s %s %s" % (device, driver, version, answer[68:].hex()))
    show(device, "GLINK", words(0x0A, 7))
    show(device, "GLINKSETTINGS", words(0x4C) + bytes(44), 36)
    show(device, "GLINKSETTINGS 3", words(0x4C) + bytes(11) + b"\3" + bytes(32), 36)
    show(device, "GPERMADDR", words(0x20, 32) + bytes(32))
    show(device, "GPERMADDR 5", words(0x20, 5) + bytes(32))
    show(device, "GSSET_INFO", words(0x37, 0, 0x1FFFFF, 0), 128)
    show(device, "GSTRINGS stats", words(0x1B, 1, 0), 4096)
    show(device, "GSTRINGS features", words(0x1B, 4, 0), 4096)
    show(device, "GSTRINGS ntuple", words(0x1B, 3, 0), 4096)
    answer, result = send(device, words(0x1D, 0), 4096)
    print("%s GSTATS: %s" % (device, answer if result is None else struct.unpack_from("=I", answer, 4)))
    show(device, "GFEATURES", words(0x3A, 2), 32)
    show(device, "GFEATURES 1", words(0x3A, 1), 32)
    show(device, "GFEATURES 0", words(0x3A, 0), 32)
    show(device, "GCHANNELS", words(0x3C) + bytes(32))
    show(device, "GET_TS_INFO", words(0x41) + bytes(40))
    for name, number in OTHER.items():
        show(device, name, words(number, 0), 64)
    for name, number in SINGLE.items():
        show(device, "get " + name, words(number, 9))
    show(device, "SCHANNELS same", words(0x3D, 0, 0, 0, 0, 1, 1, 0, 0))
    show(device, "SCHANNELS many", words(0x3D, 0, 0, 0, 0, 9, 1, 0, 0))
    show(device, "SCHANNELS none", words(0x3D, 0, 0, 0, 0, 0, 1, 0, 0))
    show(device, "SCHANNELS combined", words(0x3D, 0, 0, 0, 0, 1, 1, 0, 1))
    show(device, "SFEATURES tso off", words(0x3B, 2, 1 << 16, 0, 0, 0))
    show(device, "SFEATURES lockless off", words(0x3B, 2, 1 << 12, 0, 0, 0))
    show(device, "SFEATURES lro on", words(0x3B, 2, 1 << 15, 1 << 15, 0, 0))
    show(device, "SFEATURES out of valid", words(0x3B, 2, 0, 1 << 15, 0, 0))
    show(device, "SFEATURES one word", words(0x3B, 1, 1 << 16, 1 << 16))
    show(device, "SFEATURES tso on, sg off", words(0x3B, 2, 1 << 16 | 1, 1 << 16, 0, 0))
    show(device, "GFEATURES", words(0x3A, 2), 32)
    for name, number in SINGLE.items():
        if name != "flags":
            show(device, "clear " + name, words(number + 1, 0))
            show(device, "set " + name, words(number + 1, 1))
    show(device, "set flags lro", words(0x26, 1 << 15))
    show(device, "set flags unknown", words(0x26, 1))
    show(device, "set flags none", words(0x26, 0))
    show(device, "set flags vlan", words(0x26, 3 << 7))
    show(device, "GFEATURES", words(0x3A, 2), 32)
