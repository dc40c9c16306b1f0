"""CRC-32C, the checksum of record batches."""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

from ottla.protocol.compression import Buffer


def _extension() -> Any:
    """The library's compiled module, without the package around it.

    The package asks for its own version when it is imported. What reads a version parses mails, and that takes longer
    than all the rest of this room.
    """
    package = find_spec("crc32c")
    places = package.submodule_search_locations if package else None
    found = PathFinder.find_spec("crc32c._crc32c", places)
    if found is None or found.loader is None:  # another build of the library
        import crc32c

        return crc32c
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


_crc32c: Callable[[Buffer, int, int], int] = _extension().crc32c

_KEEP_THE_LOCK = 0
"""The library may let other threads run meanwhile; getting their turn back takes longer than most checksums."""


def crc32c(data: Buffer, crc: int = 0) -> int:
    """The CRC-32C of ``data``, which follows what ``crc`` is of. Nothing is copied."""
    return _crc32c(data, crc, _KEEP_THE_LOCK)
