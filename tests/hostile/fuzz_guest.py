"""A guest that holds the broker to its word: what it has sent is read as the broker has to, and every frame is due an
answer, or the end of the connection, in time.
"""

from __future__ import annotations

import struct
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any, NamedTuple

from ottla.broker.handlers import HANDLERS, handler
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode, MalformedFrame, ProtocolError
from ottla.protocol.headers import skip_tags, split_request
from tests.support.client import Client
from tests.support.peer import ConnectionClosed, decoded
from tests.wire.requests import error_codes

LATE_S = 1.0
"""How long an answer may take that nobody has a reason to wait for, while the broker has the CPU."""
FETCH_WAIT_S = 0.1
"""``fetch.max.wait.ms`` of the broker under test."""
LONGEST_FRAME = 104_857_600
_LEAVE_S = 0.02  # for so long a request is waited for that may be parked for good
_CODES = frozenset(int(code) for code in ErrorCode)
_MAY_PARK = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
_CHANGES_S = 9.0
_LINE_S = 5.0  # five other guests may each have batches of a hundred thousand records: one request's at a time
_WAITS_S: dict[ApiKey | None, float] = {ApiKey.FETCH: FETCH_WAIT_S, ApiKey.PRODUCE: _LINE_S} | dict.fromkeys(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.METADATA,
    ),
    _CHANGES_S,
)
"""What may take longer: what waits for records; batches behind those of others; what changes, or may, the catalog on
disk, behind other changes."""
_SAYS_UNKNOWN = (
    ApiKey.CREATE_ACLS,
    ApiKey.FETCH,
    ApiKey.JOIN_GROUP,
    ApiKey.OFFSET_FETCH,
    ApiKey.SYNC_GROUP,
)
"""Where Kafka itself answers UNKNOWN_SERVER_ERROR to some requests. What fails here is in the log, too."""
_WRITES_MUCH = (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS)
"""Where it does so of large requests: with a group id of 32 KB in each, the records may be more than a batch holds."""
_LARGE_BYTES = 3_000
"""A request of less cannot ask for a megabyte of records: each takes 4 bytes of it, and the group id all others."""


class Fault(Exception):
    """The broker has done what it must not; the message says what."""


class Due(NamedTuple):
    """A frame that was sent. ``key`` is None where there is no such API or version."""

    key: ApiKey | None
    version: int
    correlation_id: int
    may_park: bool
    is_silent: bool
    is_large: bool = False

    @property
    def may_fail(self) -> bool:
        """Whether Kafka itself might answer UNKNOWN_SERVER_ERROR."""
        return self.key in _SAYS_UNKNOWN or (self.is_large and self.key in _WRITES_MUCH)


class Machine:
    """How long broker and guests have waited for a CPU since they began, by time: looked at ten times a second.

    Args:
        pid: of the broker.
    """

    def __init__(self, pid: int) -> None:
        self._processes = (Path(f"/proc/{pid}/task"), Path("/proc/self/task"))
        self._seen: deque[tuple[float, float]] = deque(maxlen=1000)

    def look(self) -> None:
        """Note how it is now."""
        self._seen.append((time.monotonic(), self._starved_s()))

    def starved_s(self, since: float) -> float:
        """For how long somebody has waited since then, at least."""
        before = max((starved_s for at, starved_s in list(self._seen) if at <= since), default=None)
        return 0.0 if before is None else max(0.0, self._starved_s() - before)

    def _starved_s(self) -> float:
        waited_ns = 0
        for process in self._processes:
            for thread in process.glob("*/schedstat"):
                try:
                    waited_ns += int(thread.read_text(encoding="ascii").split()[1])
                except OSError:
                    continue  # it has ended
        return waited_ns / 1e9


class Stopwatch:
    """Time for which a broker could have worked: what it or its guests waited for a CPU does not count."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.again()

    def again(self) -> None:
        """Begin anew."""
        self._began = time.monotonic()

    def elapsed_s(self) -> float:
        """Since it began."""
        elapsed_s = time.monotonic() - self._began
        return elapsed_s if elapsed_s < LATE_S else elapsed_s - self._machine.starved_s(self._began)


class Guest(Client):
    """One connection. `throw` sends bytes, `settle` sees to their answers.

    Attributes:
        counts: requests sent by API, shared by all guests.
        longest_s: the longest that an answer took, by nobody's fault but the broker's.
    """

    def __init__(self, port: int, watch: Stopwatch, client_id: str, counts: Counter[str]) -> None:
        super().__init__(port, client_id)
        self.socket.settimeout(LATE_S)
        self.watch = watch
        self.counts = counts
        self.longest_s = 0.0
        self.due: list[Due] = []
        self.throttled_s = 0.0
        self._unread = b""
        self._asked: ApiKey | None = None

    # Honest requests, as `Client` makes them

    def raw(self, data: bytes) -> None:
        self.counts[ApiKey(int.from_bytes(data[4:6], "big")).name] += 1
        self.watch.again()
        super().raw(data)

    def answer(self) -> Any:
        key, version, _ = self.opened[0]
        self._asked = key
        try:
            told = super().answer()
        except (AssertionError, ValueError, IndexError, MalformedFrame) as error:
            raise Fault(f"{key.name} v{version} has an answer that cannot be read: {error!r}") from error
        self._note(told)
        return told

    # Frames of any kind

    def throw(self, data: bytes) -> None:
        """Send bytes; what they ask for becomes due."""
        self._unread += data
        self.watch.again()
        while (size := self._next_size()) is not None:
            frame, self._unread = self._unread[4 : 4 + size], self._unread[4 + size :]
            self.due.append(due_of(frame))
            name = self.due[-1].key
            self.counts["none" if name is None else name.name] += 1
        try:
            self.socket.sendall(data)
        except OSError:
            raise ConnectionClosed from None  # nobody reads on who waits for a guest to read

    def _next_size(self) -> int | None:
        if len(self._unread) < 4:
            return None
        size = int(struct.unpack_from(">i", self._unread)[0])
        return size if 0 < size <= min(LONGEST_FRAME, len(self._unread) - 4) else None

    @property
    def expects_end(self) -> bool:
        """Whether the broker has been sent a length that no frame has."""
        size = struct.unpack_from(">i", self._unread)[0] if len(self._unread) >= 4 else 1
        return not 0 < size <= LONGEST_FRAME

    def settle(self) -> list[Any]:
        """Read what is due, as far as it is not parked; gives the answers.

        Raises:
            Fault: one does not come in time, or is not what it has to be.
            ConnectionClosed: the broker has closed the connection.
        """
        answers = []
        while self.due:
            if all(due.is_silent for due in self.due):
                break
            head = next(due for due in self.due if not due.is_silent)
            parks = any(due.may_park for due in self.due[: self.due.index(head) + 1])
            frame = self._await_frame(head, parks)
            if frame is None:
                break
            answers.append(self._take_answer(frame))
        if self.expects_end:
            self.await_end()
        return answers

    def await_end(self) -> None:
        """See that the broker closes the connection; answers that still come are held to the same.

        Raises:
            Fault: it does not.
            ConnectionClosed: it does.
        """
        while (frame := self._await_frame(Due(None, 0, 0, False, False), self._may_stay)) is not None:
            self._take_answer(frame)  # it may say that a quota keeps the connection for a while
            self.watch.again()

    @property
    def _may_stay(self) -> bool:
        return bool(self.throttled_s) or any(due.may_park for due in self.due)

    def _await_frame(self, head: Due, parks: bool) -> bytes | None:
        """The next frame; None if it may be parked for good."""
        asked = [head.key] if head.key is not None else [due.key for due in self.due]
        allowed = LATE_S + self.throttled_s + max((_WAITS_S.get(key, 0.0) for key in asked), default=0.0)
        size: int | None = None
        while True:
            if size is None and len(self._buffer) >= 4:
                size = struct.unpack(">i", self._take(4))[0]
            if size is not None and len(self._buffer) >= size:
                taken, self._buffer = self._buffer[:size], self._buffer[size:]
                self._timed(allowed - LATE_S)
                return taken
            self.socket.settimeout(_LEAVE_S if parks else 0.25)
            try:
                chunk = self.socket.recv(1 << 20)
            except TimeoutError:
                if parks or self.throttled_s:
                    return None
                if self.watch.elapsed_s() > allowed:
                    raise Fault(f"{_name(head)} has no answer after {self.watch.elapsed_s():.1f} s") from None
                continue
            except OSError:
                chunk = b""
            if not chunk:
                self._timed(allowed - LATE_S)
                raise ConnectionClosed
            self._buffer += chunk

    def _timed(self, excused_s: float) -> None:
        took = self.watch.elapsed_s() - excused_s
        if not any(due.may_park for due in self.due):
            self.longest_s = max(self.longest_s, took)
            if took > LATE_S:
                raise Fault(f"{_name(self.due[0]) if self.due else 'the end'} took {took:.2f} s")
        self.watch.again()

    def _take_answer(self, frame: bytes) -> Any:
        if len(frame) < 4:
            raise Fault(f"a frame of {len(frame)} bytes")
        correlation_id = struct.unpack_from(">i", frame)[0]
        while self.due and self.due[0].is_silent and self.due[0].correlation_id != correlation_id:
            self.due.pop(0)
        head = self.due.pop(0) if self.due else None
        if head is None or head.correlation_id != correlation_id:
            raise Fault(f"an answer to {correlation_id}, where {head} is due")
        if head.key is None:
            raise Fault(f"an answer to a request that is none: {frame.hex()}")
        row = api(head.key)
        served = head.version in handler(head.key).versions
        version, header = (head.version, row.response_header_version(head.version)) if served else (0, 0)
        try:
            told = decoded(row.response, version, header, frame[4:])
        except Exception as error:
            raise Fault(f"{_name(head)} has an answer that cannot be read: {error!r} {frame[:200].hex()}") from error
        for code in error_codes(told):
            if code not in _CODES or (code == ErrorCode.UNKNOWN_SERVER_ERROR and not head.may_fail):
                raise Fault(f"{_name(head)} is answered with error {code}")
        self._note(told)
        return told

    def _take(self, size: int) -> bytes:
        while True:
            try:
                return super()._take(size)
            except TimeoutError:
                if self.throttled_s:
                    raise ConnectionClosed from None
                if self.watch.elapsed_s() > LATE_S + _WAITS_S.get(self._asked, 0.0):
                    asked = self._asked.name if self._asked is not None else "a request"
                    raise Fault(f"{asked}, an honest one, has no answer after {self.watch.elapsed_s():.1f} s") from None

    def _note(self, told: Any) -> None:
        """A client that has to wait is not served meanwhile."""
        self.throttled_s = getattr(told, "throttle_time_ms", 0) / 1000


def due_of(frame: bytes) -> Due:
    """What a frame asks for, read as the broker has to."""
    try:
        number, version, correlation_id, _, position = split_request(frame)
    except ProtocolError:
        return Due(None, 0, 0, False, False)
    try:
        key = ApiKey(number)
    except ValueError:
        return Due(None, version, correlation_id, False, False)
    if version not in handler(key).versions or key not in HANDLERS or key is ApiKey.WORKBENCH:  # there is none
        is_asked = key is ApiKey.API_VERSIONS
        return Due(key if is_asked else None, version, correlation_id, False, False)
    silent = False
    if key is ApiKey.PRODUCE and version in api(key).request.versions:
        try:
            if api(key).request_header_version(version) == 2:
                position = skip_tags(frame, position)
            silent = api(key).request.layout(version).decode(frame, position).acks == 0
        except (ProtocolError, ValueError):
            pass
    return Due(key, version, correlation_id, key in _MAY_PARK, silent, len(frame) > _LARGE_BYTES)


def _name(due: Due) -> str:
    return "what is no request" if due.key is None else f"{due.key.name} v{due.version}"
