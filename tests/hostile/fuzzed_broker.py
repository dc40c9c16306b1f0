"""``ottla`` as the fuzzer runs it: with a signal that shows what it is at, and one upon which it tells its memory.

``fuzzed_broker.py FILE serve …``: after SIGUSR2 there is the ``FILE``, with the bytes that its allocators have handed
out and not got back. Unlike resident memory, that tells a leak from pages that are kept for the next burst.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import runpy
import signal
import sys
import traceback
from typing import Any

_FIELDS = (
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
)  # fmt: skip


class _Mallinfo(ctypes.Structure):
    """glibc's ``struct mallinfo2``."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def used_bytes(scratch: str) -> int:
    """What is in use of Python's arenas and of the C library's heap, once cycles are collected."""
    gc.collect()
    with open(scratch, "w+", encoding="utf-8") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            sys._debugmallocstats()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        found = re.search(r"bytes in allocated blocks += +([\d,]+)", file.read())
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Mallinfo
    of_c = library.mallinfo2()
    return (int(found[1].replace(",", "")) if found else 0) + int(of_c.uordblks) + int(of_c.hblkhd)


def main() -> None:
    """Be ``ottla``."""
    path = sys.argv.pop(1)

    def tell(number: int, frame: Any) -> None:
        with open(f"{path}.new", "w", encoding="ascii") as file:
            file.write(str(used_bytes(f"{path}.stats")))
        os.replace(f"{path}.new", path)

    signal.signal(signal.SIGUSR1, lambda number, frame: traceback.print_stack(frame))
    signal.signal(signal.SIGUSR2, tell)
    runpy.run_module("ottla.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    del sys.path[0]  # this folder
    main()
