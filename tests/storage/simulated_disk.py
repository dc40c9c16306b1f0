"""A disk in memory that fails when told to and forgets what was not synced, for tests of recovery.

It is meaner than a real one. A crash keeps, of what was written since the last sync, any sectors in any order, and any
length that the file has had since; of the names in a directory it keeps those of any moment since the last sync.
"""

import errno
import os
import posixpath
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.protocol.compression import Buffer

_SECTOR: Final = 512


class SimulatedCrash(BaseException):
    """The process ends here. No handler of ordinary errors sees it."""


@dataclass(eq=False, slots=True)
class _File:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    # Since the last sync: ranges written, and lengths that the file has had.
    written: list[tuple[int, int]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Directory:
    entries: dict[str, "_File | _Directory"] = field(default_factory=dict)
    durable: dict[str, "_File | _Directory"] = field(default_factory=dict)
    # What the directory looked like after each change since it was last synced.
    history: list[dict[str, "_File | _Directory"]] = field(default_factory=list)

    def changed(self) -> None:
        self.history.append(dict(self.entries))


class SimulatedDisk:
    """Implements ``Files``. Absolute paths; ``/data`` exists and is durable.

    ``capacity`` bytes fit in all files together. ``before`` is called before every operation with its name and path and
    may raise ``OSError`` or ``SimulatedCrash``; ``crash_at`` ends the process at the operation of that number.
    """

    def __init__(self, *, seed: int, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.before: Callable[[str, str], None] = lambda operation, path: None
        self.crash_at: int | None = None
        self.short_writes = 0.0
        """How often a write takes only a part of what it is given."""
        self.operations = 0
        """How many operations there were so far."""
        self.syncs = 0
        self._random = random.Random(seed)
        self._root = _Directory()
        data = _Directory()
        self._root.entries["data"] = self._root.durable["data"] = data
        self._handles: dict[int, tuple[_File, str]] = {}
        self._open_directories: dict[int, tuple[_Directory, str]] = {}
        self._locked: set[str] = set()
        self._next_handle = 3
        # Renames from one directory to another: where from, where to, and what.
        self._moved: list[tuple[_Directory, str, _Directory, str, _File | _Directory]] = []
        # What dies stays dead: no operation has any effect between the crash and ``kill`` or ``lose_power``.
        self._is_dead = False

    def fail(
        self,
        *operations: str,
        within: str = "",
        besides: str | None = None,
        number: int = errno.EIO,
        times: int = 10**9,
    ) -> None:
        """The next ``times`` such operations fail on paths with ``within`` in them, and without ``besides``."""
        left = [times]

        def before(name: str, path: str) -> None:
            if name in operations and within in path and (besides is None or besides not in path) and left[0]:
                left[0] -= 1
                raise OSError(number, os.strerror(number), path)

        self.before = before

    @property
    def used(self) -> int:
        """Bytes in all files together."""
        return self._used(self._root)

    @property
    def open_handles(self) -> int:
        return len(self._handles) + len(self._open_directories)

    def path_of(self, handle: int) -> str:
        """The name under which a handle was opened."""
        return self._handles[handle][1]

    # --- behind everybody's back ---

    def content(self, path: str) -> bytes:
        """The whole of a file."""
        directory, name = self._parent(path)
        file = directory.entries.get(name)
        if not isinstance(file, _File):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return bytes(file.content)

    def put(self, path: str, data: bytes) -> None:
        """Let there be a file with this content, durably."""
        directory, name = self._parent(path)
        file = directory.entries.get(name) or _File()
        assert isinstance(file, _File)
        file.content, file.durable, file.written, file.lengths = bytearray(data), bytes(data), [], []
        for names in (directory.entries, directory.durable, *directory.history):
            names[name] = file

    # --- the ends of a process ---

    def kill(self) -> None:
        """The process dies, the machine goes on: handles and locks are gone, everything written is there."""
        self._handles.clear()
        self._open_directories.clear()
        self._locked.clear()
        self._is_dead = False
        self.crash_at = None
        self.before = lambda operation, path: None

    def lose_power(self) -> None:
        """The machine dies too: of what was not synced, chance decides."""
        self.kill()
        moved, self._moved = self._moved, []
        went = [
            name not in source.durable or target.durable.get(new_name) is entry
            for source, name, target, new_name, entry in moved
        ]
        self._settle(self._root)
        for (source, name, target, new_name, entry), has_gone in zip(moved, went, strict=True):
            self._settle_move(source, name, target, new_name, entry, has_gone=has_gone or self._random.random() < 0.5)

    def end(self, *, power: bool) -> None:
        """The process dies, and the machine too if the power fails."""
        if power:
            self.lose_power()
        else:
            self.kill()

    def _settle(self, directory: _Directory) -> None:
        # Names are journalled in order, so what survives is a moment between the last sync and now.
        survived = self._random.choice([directory.durable, *directory.history])
        directory.entries, directory.durable, directory.history = dict(survived), dict(survived), []
        for entry in directory.entries.values():
            if isinstance(entry, _Directory):
                self._settle(entry)
            else:
                self._settle_file(entry)

    def _settle_move(
        self,
        source: _Directory,
        name: str,
        target: _Directory,
        new_name: str,
        entry: _File | _Directory,
        *,
        has_gone: bool,
    ) -> None:
        """A rename is one change of both directories, as journals of file systems have it: it is there, or is not."""
        if entry not in source.entries.values() and entry not in target.entries.values():
            if isinstance(entry, _Directory):
                self._settle(entry)
            else:
                self._settle_file(entry)
        for directory, one, is_there in ((source, name, not has_gone), (target, new_name, has_gone)):
            if is_there:
                directory.entries[one] = entry
            elif directory.entries.get(one) is entry:
                del directory.entries[one]
            directory.durable = dict(directory.entries)

    def _settle_file(self, file: _File) -> None:
        if not file.written and not file.lengths:
            return
        content = bytearray(file.durable)
        length = self._random.choice([len(content), *file.lengths])
        content = content[:length] + bytes(max(0, length - len(content)))
        for begin, end in file.written:
            for sector in range(begin - begin % _SECTOR, end, _SECTOR):
                first, last = max(begin, sector), min(end, sector + _SECTOR, length, len(file.content))
                if first < last and self._random.random() < 0.6:
                    content[first:last] = file.content[first:last]
        file.content, file.durable, file.written, file.lengths = content, bytes(content), [], []

    # --- Files ---

    def open(self, path: str, *, create: bool = False) -> int:
        self._count("open", path)
        directory, name = self._parent(path)
        file = directory.entries.get(name)
        if file is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._require_room(1)
            file = directory.entries[name] = _File()
            directory.changed()
        if not isinstance(file, _File):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        self._next_handle += 1
        self._handles[self._next_handle] = (file, path)
        return self._next_handle

    def close(self, handle: int) -> None:
        self._open_directories.pop(handle, None)
        path = self._handles.pop(handle, (None, ""))[1]
        self._locked.discard(path)

    def read(self, handle: int, size: int, offset: int) -> bytes:
        file, path = self._handles[handle]
        self._count("read", path)
        return bytes(file.content[offset : offset + size])

    def write(self, handle: int, pieces: Sequence[Buffer], offset: int) -> int:
        file, path = self._handles[handle]
        data = b"".join(pieces)
        dead = self._is_dead
        try:
            self._count("write", path)
        except SimulatedCrash:
            if not dead:
                # Dying in the middle of a write leaves any beginning of it.
                self._put(file, data[: self._random.randrange(len(data) + 1)], offset)
            raise
        room = self._room()
        if room is not None:
            growth = max(0, offset + len(data) - len(file.content))
            if growth and room <= 0:
                raise OSError(errno.ENOSPC, "no space left on device", path)
            data = data[: len(data) - max(0, growth - room)]
        if len(data) > 1 and self._random.random() < self.short_writes:
            data = data[: self._random.randrange(1, len(data))]
        self._put(file, data, offset)
        return len(data)

    def truncate(self, handle: int, size: int) -> None:
        file, path = self._handles[handle]
        self._count("truncate", path)
        if size == len(file.content):
            return
        del file.content[size:]
        file.content.extend(bytes(size - len(file.content)))
        file.lengths.append(size)

    def size(self, handle: int) -> int:
        return len(self._handles[handle][0].content)

    def sync(self, handle: int) -> None:
        file, path = self._handles[handle]
        self._count("sync", path)
        self.syncs += 1
        file.durable, file.written, file.lengths = bytes(file.content), [], []

    def open_directory(self, path: str) -> int:
        self._count("open", path)
        self._next_handle += 1
        self._open_directories[self._next_handle] = (self._directory(path), path)
        return self._next_handle

    def sync_directory(self, handle: int) -> None:
        directory, path = self._open_directories[handle]
        self._count("sync_directory", path)
        self.syncs += 1
        directory.durable, directory.history = dict(directory.entries), []

    def make_directory(self, path: str) -> None:
        self._count("make_directory", path)
        directory, name = self._parent(path)
        if name in directory.entries:
            raise FileExistsError(errno.EEXIST, "file exists", path)
        self._require_room(1)
        directory.entries[name] = _Directory()
        directory.changed()

    def list(self, path: str) -> "list[str]":
        self._count("list", path)
        return list(self._directory(path).entries)

    def rename(self, old: str, new: str) -> None:
        self._count("rename", old)
        directory, name = self._parent(old)
        target, new_name = self._parent(new)
        if name not in directory.entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        entry = target.entries[new_name] = directory.entries.pop(name)
        directory.changed()
        if target is not directory:
            target.changed()
            self._moved.append((directory, name, target, new_name, entry))

    def remove(self, path: str) -> None:
        self._count("remove", path)
        directory, name = self._parent(path)
        if name not in directory.entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        del directory.entries[name]
        directory.changed()

    def remove_directory(self, path: str) -> None:
        self._count("remove_directory", path)
        if self._directory(path).entries:
            raise OSError(errno.ENOTEMPTY, "directory not empty", path)
        directory, name = self._parent(path)
        del directory.entries[name]
        directory.changed()

    def allocate(self, handle: int, size: int) -> None:
        file, path = self._handles[handle]
        self._count("allocate", path)
        self._require_room(size - len(file.content))
        self._put(file, bytes(size - len(file.content)), len(file.content))

    def free_space(self, path: str) -> tuple[int, int]:
        room = self._room()
        return (2**40, 2**41) if room is None or self.capacity is None else (max(room, 0), self.capacity)

    def lock(self, path: str) -> int:
        if path in self._locked:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", path)
        handle = self.open(path, create=True)
        self._locked.add(path)
        return handle

    # --- within ---

    def _count(self, operation: str, path: str) -> None:
        self.operations += 1
        if self._is_dead or (self.crash_at is not None and self.operations >= self.crash_at):
            self._is_dead = True
            raise SimulatedCrash(f"operation {self.operations}: {operation} {path}")
        self.before(operation, path)

    def _put(self, file: _File, data: bytes, offset: int) -> None:
        end = offset + len(data)
        grown = end > len(file.content)
        file.content.extend(bytes(max(0, offset - len(file.content))))
        file.content[offset:end] = data
        file.written.append((offset, end))
        if grown:
            file.lengths.append(end)

    def _require_room(self, size: int) -> None:
        room = self._room()
        if room is not None and room < size:
            raise OSError(errno.ENOSPC, "no space left on device")

    def _room(self) -> int | None:
        return None if self.capacity is None else self.capacity - self.used

    def _used(self, directory: _Directory) -> int:
        used = 0
        for entry in directory.entries.values():
            used += self._used(entry) if isinstance(entry, _Directory) else len(entry.content)
        return used

    def _directory(self, path: str) -> _Directory:
        directory = self._root
        for name in path.strip("/").split("/"):
            entry = directory.entries.get(name)
            if not isinstance(entry, _Directory):
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            directory = entry
        return directory

    def _parent(self, path: str) -> tuple[_Directory, str]:
        directory, name = posixpath.split(path)
        return self._directory(directory), name
