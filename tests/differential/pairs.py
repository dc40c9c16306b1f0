"""A trace of operations that are data, sent to both brokers at once by one event loop: many traces at a time.

An operation is a `Move`: the name of one request in `tests.differential.moves` and its arguments. What a broker makes
up (member ids, generations, producer ids, fetch sessions) stands in the arguments as a word and is looked up, for each
broker by itself, when the request is sent. So a trace stays a trace when moves are taken out of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from uuid import UUID

from ottla.protocol.apis import ApiKey
from ottla.protocol.records import decode_batch, iter_batches
from tests.differential.compare import first_difference
from tests.differential.real_kafka import TO_SASL
from tests.differential.tracing import PATIENCE_S, Trace, whole_batches
from tests.differential.wire import Sent, Wire
from tests.support.requests import request

PARKED = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""Requests that may wait for other clients; every other one is answered before the next move."""
ANSWER_S = 10.0
UNNAMED = "a frame"  # the connections of frames are for one frame each
NOW_MS = 1_750_000_000_000  # what is later is now


class Move(NamedTuple):
    """One operation: a name in ``MOVES`` and its arguments."""

    name: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.name} " + " ".join(f"{name}={value!r}" for name, value in self.fields.items())


def move(name: str, /, **fields: Any) -> Move:
    return Move(name, fields)


class Line(Wire):
    """A connection that the event loop reads."""

    def __init__(self, port: int, client_id: str | None, woken: asyncio.Event) -> None:
        super().__init__(port, client_id)
        self._woken = woken
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._receive)

    def _receive(self) -> None:
        super()._receive()
        if self.closed:
            self._loop.remove_reader(self._socket)
        if self.has_answer:
            self._woken.set()

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
        super().close()


class Open(NamedTuple):
    """A request under way."""

    label: str
    line: Wire
    key: ApiKey
    request: Any


class Half(Trace):
    """One broker's side. `call`, `do` and `start` only send: the pair waits for both sides."""

    def __init__(self, port: int, name: str, woken: asyncio.Event) -> None:
        super().__init__(port, name)
        self.open: list[Open] = []
        self.answered: set[str] = set()  # the requests that were answered in this step
        self.names_of_ids: dict[Any, str] = {}
        self.known: dict[str | None, list[Any]] = {}  # per transactional id: the producers that it was told to be
        self.sequences: dict[Any, int] = {}  # (producer, topic, partition): the next one
        self.session = (0, 0)  # of fetches: id and next epoch
        self.last: Any = None  # the answer that came last
        self.sent_raw: Any = None  # the frame that was sent last, and its connection
        self.probe = ""  # a consumer group that shows what the coordinator knows of topics
        self.is_forgotten = False  # Kafka forgot the group, which was Empty: see docs/differences.md
        self.log_end = 0  # as far as the coordinator's log was looked at for resolved regexes
        self.resolved = 0  # how many there were
        self.log_starts: dict[int, int] = {}  # where the partitions of the transaction log ended when the trace began
        self.slot = 0  # of the users of this trace: see `tests.differential.moves.own`
        self.rules: list[dict[str, Any]] = []  # that were made and are to be taken back
        self.talk: Any = None  # a connection on which nobody is known yet
        self._woken = woken
        self._came: list[tuple[Open, Sent, Any]] = []

    def line(self, port: int, who: str | None) -> Line:
        return Line(port, who, self._woken)

    def wake(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._woken.set)

    def dial(self) -> Line:
        """A new connection to the listener with SASL, on which nothing has been said."""
        line = self.line(self.port + TO_SASL, "a guest")
        self.wires.append(line)
        return line

    def call(self, who: str | None, key: ApiKey, version: int, /, _timeout_s: float = 10.0, **fields: Any) -> Any:
        line = self.wire(who)
        message = request(key, fields)
        line.send(key, version, message)
        label = self._label(who, key, version)
        self.open.append(Open(label, line, key, message))
        if key in PARKED:
            self.note(f"{label} >", None)

    do = start = call

    def raw(self, label: str, data: bytes, timeout_s: float = 0.4) -> None:
        line = self.connect(UNNAMED)
        self.wires.append(line)
        line.raw(data)
        self.sent_raw = (label, line)

    def settle(self, wait_ms: int = 0) -> dict[Wire, Any]:
        raise NotImplementedError("the pair settles")

    def collect(self) -> bool:
        """Take the answers that have come; whether there were any."""
        before = len(self._came)
        for item in list(self.open):
            sent = item.line.sent
            assert sent is not None
            if item.line.has_answer:
                self.open.remove(item)
                self._came.append((item, sent, item.line.answer(0)))
                self.answered.add(item.label)
        return len(self._came) > before

    @property
    def is_owed(self) -> bool:
        """True if an answer is missing that does not wait for other clients."""
        return any(item.key not in PARKED for item in self.open)

    def write_down(self) -> None:
        """Note the answers of this step, in the order of their requests."""
        from tests.differential.moves import learn

        for item, sent, answer in sorted(self._came, key=lambda came: came[1].correlation_id):
            self._arrived(item.label, item.line, sent.key, sent.version, answer)
            if not isinstance(answer, str):
                learn(self, item.request, answer, sent)
        self._came.clear()
        self.answered = set()

    def name_of(self, topic_id: UUID | None) -> str | None:
        return self.names_of_ids.get(topic_id)

    def tidy(self, key: ApiKey, value: Any, field: str = "") -> Any:
        if field == "topic_id" and isinstance(value, UUID) and value in self.names_of_ids:
            name = self.names_of_ids[value]
            ids = [topic_id for topic_id, other in self.names_of_ids.items() if other == name]
            return f"<id {ids.index(value) + 1} of {name.replace(self.name, '@')}>"
        if field == "session_id" and value:
            return "<session>"
        if field == "last_timestamp" and value > NOW_MS:  # of a marker
            return "now"
        if key is ApiKey.FETCH and isinstance(value, dict) and value.get("aborted_transactions"):
            # Kafka also tells of some that a reader is not shown yet, in another order: see docs/differences.md.
            told = [row for row in value["aborted_transactions"] if row["first_offset"] < value["last_stable_offset"]]
            value = value | {"aborted_transactions": sorted(told, key=lambda row: int(row["first_offset"]))}
        if field == "records" and key is ApiKey.FETCH and isinstance(value, bytes):
            return tidy_batches(whole_batches(value), lambda found: self._name("producer", found))
        return super().tidy(key, value, field)

    async def ask(self, key: ApiKey, version: int, /, _who: str = "maker", **fields: Any) -> Any:
        """Send and wait, without a note."""
        line = self.wire(_who)
        line.send(key, version, request(key, fields))
        await self.until(lambda: line.has_answer)
        return line.answer(0)

    async def until(self, check: Callable[[], bool], timeout_s: float = ANSWER_S) -> bool:
        """Wait for something that only comes with an answer; whether it came in time."""
        deadline = time.monotonic() + timeout_s
        while not check():
            self._woken.clear()
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            try:
                await asyncio.wait_for(self._woken.wait(), left)
            except TimeoutError:
                return check()
        return True


def tidy_batches(records: bytes, name: Callable[[int], str]) -> Any:
    """Batches, with producers by name and without the times of now; those of nobody in particular as they are."""
    found: list[Any] = []
    for header, batch in iter_batches(records):
        if header.producer_id < 0 and header.max_timestamp < NOW_MS:
            found.append(bytes(batch))
            continue
        rows = [
            (row.offset, row.timestamp_ms if row.timestamp_ms < NOW_MS else "now", row.key, row.value)
            for row in decode_batch(batch)
        ]
        who = name(header.producer_id), header.producer_epoch, header.base_sequence
        found.append(
            (header.base_offset, header.last_offset, header.partition_leader_epoch, header.attributes, who, rows)
        )
    return found


class Pair:
    """The same trace on both brokers. ``patience`` grows when it is run again."""

    def __init__(self, ports: tuple[int, int], name: str, patience: int = 0, slot: int = 0) -> None:
        self.woken = asyncio.Event()
        self.theirs, self.ours = (Half(port, name, self.woken) for port in ports)
        self.halves = (self.theirs, self.ours)
        self.theirs.peer, self.ours.peer = self.ours, self.theirs
        self.theirs.slot = self.ours.slot = slot
        self.quiet_s = 0.015 * (1 << (2 * patience))
        self.at: int | None = None  # the first difference
        self._checked = 0

    async def both(self, aside: Callable[[Half], Awaitable[None]]) -> None:
        await asyncio.gather(aside(self.theirs), aside(self.ours))

    def differs(self) -> bool:
        """Compare what was noted since the last time."""
        if self.at is None:
            self.at = first_difference(self.ours.transcript, self.theirs.transcript, self._checked)
            self._checked = min(len(self.ours.transcript), len(self.theirs.transcript))
        return self.at is not None

    async def settle(self) -> None:
        """Until both have answered what they owe, and nothing more comes of what is parked."""
        await self._collect(lambda: not any(half.is_owed for half in self.halves), ANSWER_S)
        if any(half.open for half in self.halves):
            await self.both(Half.barrier)
            for half in self.halves:
                half.collect()
        if any(half.open for half in self.halves):
            await asyncio.sleep(0.005)  # a join phase without a delay ends by a timer
            await self.both(Half.barrier)
            await self._quiet()
        for half in self.halves:
            half.write_down()

    async def _collect(self, check: Callable[[], bool], timeout_s: float) -> None:
        def done() -> bool:
            for half in self.halves:
                half.collect()
            return check()

        await self.theirs.until(done, timeout_s)

    async def _quiet(self) -> None:
        """Until nothing is open, or it has been quiet and both have answered the same requests."""
        since = time.monotonic()
        while True:
            if sum(half.collect() for half in self.halves):
                since = time.monotonic()
            if not any(half.open for half in self.halves):
                return
            agreed = self.theirs.answered == self.ours.answered
            left = since + (self.quiet_s if agreed else PATIENCE_S) - time.monotonic()
            if left <= 0:
                return
            self.woken.clear()
            try:
                await asyncio.wait_for(self.woken.wait(), left)
            except TimeoutError:
                continue

    def close(self) -> None:
        for half in self.halves:
            half.close()
