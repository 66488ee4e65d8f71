"""A filter of system calls for programs in a sandbox, as the kernel reads it.

Namespaces hide files, processes and networks. What they leave open is refused here: sockets that
belong to no network (such as those between a virtual machine and its host), keyrings that are
shared with other sandboxes, and memory that no limit counts.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple


class _Machine(NamedTuple):
    """What the kernel calls things on one kind of machine."""

    arch: int
    socket: int
    refused: Mapping[str, int]


_SOCKETS: Final = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK: each has a network namespace of its own."""
_MACHINES: Final[Mapping[str, _Machine]] = {
    "x86_64": _Machine(
        0xC000003E,
        41,
        {
            "add_key": 248,
            "bpf": 321,
            "io_uring_setup": 425,
            "keyctl": 250,
            "memfd_create": 319,
            "memfd_secret": 447,
            "perf_event_open": 298,
            "request_key": 249,
            "shmget": 29,
            "userfaultfd": 323,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7,
        198,
        {
            "add_key": 217,
            "bpf": 280,
            "io_uring_setup": 425,
            "keyctl": 219,
            "memfd_create": 279,
            "memfd_secret": 447,
            "perf_event_open": 241,
            "request_key": 218,
            "shmget": 194,
            "userfaultfd": 282,
        },
    ),
}
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
"""Where these stand in what the kernel shows to a filter."""
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000
_X32: Final = 0x40000000
"""Numbers from here on are those of another kind of program, which nobody uses."""


def filter_program(machine: str | None = None) -> bytes | None:
    """The filter for this kind of machine; None where none is written for it."""
    known = _MACHINES.get(machine or platform.machine())
    return None if known is None else b"".join(_instructions(known))


def _instructions(machine: _Machine) -> Iterator[bytes]:
    unknown = _FAIL | errno.ENOSYS
    yield _step(_LOAD, _ARCH)
    yield _step(_EQUAL, machine.arch, yes=1)
    yield _step(_RETURN, unknown)
    yield _step(_LOAD, _NUMBER)
    yield _step(_AT_LEAST, _X32, no=1)
    yield _step(_RETURN, unknown)
    for number in sorted(machine.refused.values()):
        yield _step(_EQUAL, number, no=1)
        yield _step(_RETURN, unknown)
    yield _step(_EQUAL, machine.socket, yes=1)
    yield _step(_RETURN, _ALLOW)
    yield _step(_LOAD, _FIRST_ARGUMENT)
    for family in _SOCKETS:
        yield _step(_EQUAL, family, no=1)
        yield _step(_RETURN, _ALLOW)
    yield _step(_RETURN, _FAIL | errno.EAFNOSUPPORT)


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """One instruction; `yes` and `no` are how many to leave out after a comparison."""
    return struct.pack("HBBI", code, yes, no, value)
