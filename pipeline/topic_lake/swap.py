"""Two folders change places in one step: whoever looks sees the one or the other, never none and never both."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_RENAME_SWAP = 2
# Of the system call, for C libraries without a function for it.
_NUMBERS = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347}


class CannotSwap(OSError):
    """The system, or the file system, has no such step; the message says which."""


def swap(one: Path, other: Path) -> None:
    """Exchange what two names stand for. Both must be there, and on the same file system.

    Source: renameat2(2), RENAME_EXCHANGE; on macOS renamex_np(2), RENAME_SWAP.

    Raises:
        CannotSwap: see there.
        OSError: it failed for another reason.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        failed = libc.renamex_np(first, second, _RENAME_SWAP)
    elif hasattr(libc, "renameat2"):
        failed = libc.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE)
    elif sys.platform == "linux" and platform.machine() in _NUMBERS:
        failed = libc.syscall(_NUMBERS[platform.machine()], _AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE)
    else:
        raise CannotSwap(errno.ENOSYS, f"{sys.platform} cannot exchange two folders in one step", str(other))
    if failed:
        number = ctypes.get_errno()
        if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV):
            said = "this file system cannot exchange two folders in one step"
            raise CannotSwap(number, said, str(other))
        raise OSError(number, os.strerror(number), str(one), None, str(other))
