"""A database server in virtual time: versions of rows, snapshots, row locks, and commits that show once replicated.

It promises what PostgreSQL promises under read committed, and no more: a statement sees what was committed when it
began; a row that it locks it reads anew; who holds a lock holds it until the commit is on the standby; only then others
see what was written. What PostgreSQL lets overtake each other overtakes here, too.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Key = tuple[Any, ...]
"""The name of a table, and the key of a row in it."""
Writes = Mapping[Key, Any]
"""New values by key; None deletes."""

SHARE, UPDATE = "share", "update"


class Store:
    """Rows with their versions. ``now`` counts the commits that show."""

    def __init__(self) -> None:
        self.now = 0
        self._versions: dict[Key, list[tuple[int, Any]]] = {}
        self._keys: dict[str, list[Key]] = {}
        self._bases: dict[int, list[int]] = {}

    def publish(self, writes: Writes) -> None:
        """Let others see a commit."""
        self.now += 1
        for key, value in writes.items():
            versions = self._versions.get(key)
            if versions is None:
                versions = self._versions[key] = []
                if key[0] == "row":
                    insort(self._bases.setdefault(key[1], []), key[2])
                else:
                    insort(self._keys.setdefault(key[0], []), key)
            versions.append((self.now, value))

    def get(self, key: Key, snapshot: int | None = None) -> Any:
        """A row as a snapshot has it, or as it is now."""
        versions = self._versions.get(key)
        if versions is None:
            return None
        if snapshot is None:
            return versions[-1][1]
        for at, value in reversed(versions):
            if at <= snapshot:
                return value
        return None

    def scan(self, table: str, snapshot: int) -> Iterator[tuple[Key, Any]]:
        """The rows of a table but ``row``, by key."""
        for key in self._keys.get(table, ()):
            value = self.get(key, snapshot)
            if value is not None:
                yield key, value

    def rows(self, log_id: int, snapshot: int, low: int = 0) -> Iterator[Any]:
        """The batches of a log, from the one with the largest base not above an offset on."""
        bases = self._bases.get(log_id, [])
        first = bisect_left(bases, low)
        if first == len(bases) or bases[first] != low:
            while first > 0:
                first -= 1
                if self.get(("row", log_id, bases[first]), snapshot) is not None:
                    break
        for base in bases[first:]:
            row = self.get(("row", log_id, base), snapshot)
            if row is not None:
                yield row

    def last(self, log_id: int, snapshot: int) -> Any:
        """The batch with the largest base; None if there is none."""
        for base in reversed(self._bases.get(log_id, [])):
            row = self.get(("row", log_id, base), snapshot)
            if row is not None:
                return row
        return None


@dataclass(eq=False, slots=True)
class Transaction:
    """One statement under way. ``state``: running, committing (it waits for the standby), or over."""

    server: Server
    backend: int
    name: Any
    snapshot: int = 0
    writes: dict[Key, Any] = field(default_factory=dict)
    locks: list[Key] = field(default_factory=list)
    state: str = "running"
    lsn: int = 0
    waits_for: Key | None = None
    published: Callable[[], None] | None = None

    def read(self, *key: Any) -> Any:
        """A row as the statement's snapshot has it."""
        return self.server.store.get(key, self.snapshot)

    def fresh(self, *key: Any) -> Any:
        """A row that is locked, as it is now."""
        return self.writes[key] if key in self.writes else self.server.store.get(key)

    def write(self, value: Any, *key: Any) -> None:
        """Write a row that is locked."""
        self.writes[key] = value


@dataclass(slots=True)
class _Lock:
    holders: dict[Transaction, str] = field(default_factory=dict)
    queue: deque[tuple[Transaction, str, Callable[[], None]]] = field(default_factory=deque)

    def admits(self, transaction: Transaction, mode: str) -> bool:
        if not self.holders:
            return True
        return all(one is transaction or mode == held == SHARE for one, held in self.holders.items())


class Server:
    """One life of a server. ``wal`` has what was committed, in order; ``replicated`` counts what the standby has."""

    def __init__(self, timeline: int, started: int, wal: list[Any], replicated: int) -> None:
        self.timeline = timeline
        self.started = started
        self.wal = wal
        self.replicated = replicated
        self.store = Store()
        self.is_up = True
        self.is_stalled = False
        """The standby does not answer, or there is none any more."""
        self.held: list[int] = []
        """The nodes whose first connection is open here."""
        self.transactions: dict[int, Transaction] = {}
        """Under way, by backend."""
        self._locks: dict[Key, _Lock] = {}
        self._unpublished: deque[Transaction] = deque()
        for commit in wal:
            self.store.publish(commit.writes)

    # Locks

    def lock(self, transaction: Transaction, key: Key, mode: str, granted: Callable[[], None]) -> bool:
        """Lock a row: at once if nobody who has it minds, whoever waits. Else ``granted`` is called some time."""
        lock = self._locks.setdefault(key, _Lock())
        if lock.admits(transaction, mode):
            self._grant(lock, transaction, key, mode)
            return True
        transaction.waits_for = key
        lock.queue.append((transaction, mode, granted))
        return False

    def is_locked(self, transaction: Transaction, key: Key, mode: str) -> bool:
        """Whether the lock would have to be waited for."""
        lock = self._locks.get(key)
        return lock is not None and not lock.admits(transaction, mode)

    def blockers(self, backend: int) -> list[int]:
        """The backends for which one waits."""
        waiting = self.transactions.get(backend)
        if waiting is None or waiting.waits_for is None:
            return []
        return [one.backend for one in self._locks[waiting.waits_for].holders if one is not waiting]

    def _grant(self, lock: _Lock, transaction: Transaction, key: Key, mode: str) -> None:
        if lock.holders.get(transaction) != UPDATE:
            lock.holders[transaction] = mode
        if key not in transaction.locks:
            transaction.locks.append(key)

    def _release(self, transaction: Transaction) -> None:
        if transaction.waits_for is not None:
            lock = self._locks[transaction.waits_for]
            lock.queue = deque(one for one in lock.queue if one[0] is not transaction)
            transaction.waits_for = None
        for key in transaction.locks:
            lock = self._locks[key]
            del lock.holders[transaction]
            for waiting in list(lock.queue):
                if lock.admits(waiting[0], waiting[1]):
                    lock.queue.remove(waiting)
                    waiting[0].waits_for = None
                    self._grant(lock, waiting[0], key, waiting[1])
                    waiting[2]()
            if not lock.holders and not lock.queue:
                del self._locks[key]

    # Transactions

    def begin(self, backend: int, name: Any) -> Transaction:
        """A statement begins: its snapshot is taken."""
        transaction = Transaction(self, backend, name, self.store.now)
        self.transactions[backend] = transaction
        return transaction

    def rollback(self, transaction: Transaction) -> None:
        """Undo a transaction that does not wait for the standby yet."""
        self._end(transaction)

    def commit(self, transaction: Transaction, published: Callable[[], None]) -> bool:
        """Write the commit. True if it is over at once, as nothing was written or locked."""
        if not transaction.locks:
            self._end(transaction)
            return True
        transaction.state = "committing"
        transaction.published = published
        self.wal.append(transaction)
        transaction.lsn = len(self.wal)
        self._unpublished.append(transaction)
        return False

    def replicate(self, lsn: int) -> None:
        """The standby has everything up to here; who waited for that is over."""
        if self.is_up and not self.is_stalled and lsn > self.replicated:
            self.replicated = lsn
            while self._unpublished and self._unpublished[0].lsn <= lsn:
                self.publish(self._unpublished.popleft())

    def publish(self, transaction: Transaction) -> None:
        """Show a commit, replicated or not, and let go of its locks."""
        if transaction.state == "committing":
            self.store.publish(transaction.writes)
            self._end(transaction)
            assert transaction.published is not None
            transaction.published()

    def _end(self, transaction: Transaction) -> None:
        transaction.state = "over"
        if self.transactions.get(transaction.backend) is transaction:
            del self.transactions[transaction.backend]
        self._release(transaction)
