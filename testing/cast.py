"""`Cast`: clients of a kind that play the roles of a failure, each in a process of its own.

So a client can be frozen and killed as in production: by SIGSTOP and SIGKILL. In its process it is called from one
thread alone; what it sees comes back over a pipe.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any, ClassVar, NamedTuple, TypeAlias

POLL_S = 0.02
"""A client looks so often for what it is asked to do next."""
PATIENCE_S = 20.0

Place: TypeAlias = tuple[str, int]
"""A topic and a partition."""


class Part(NamedTuple):
    """What a client needs to know to play its role.

    Attributes:
        name: of the role; it is the client id, too.
        options: of the client, under Kafka's names.
    """

    name: str
    group: str
    topics: tuple[str, ...]
    bootstrap: str
    options: dict[str, Any]


class Sight(NamedTuple):
    """Something that a client saw.

    Attributes:
        what: ``assigned``, ``revoked``, ``lost``, ``read``, ``done`` (it did what it was asked to), ``refused`` (it
            could not), ``error`` (it was told of one), ``logged``, ``closed``, ``broke`` (its program raised).
        places: the partitions; of ``read`` one for each record, with its offset in ``offsets``.
        word: what it was asked to do, of ``done`` and ``refused``.
        text: the name of the error; the line that it logged; of ``broke`` the traceback.
    """

    what: str
    places: tuple[Place, ...] = ()
    offsets: tuple[int, ...] = ()
    word: str = ""
    text: str = ""

    @property
    def rows(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of each record."""
        return [(*place, offset) for place, offset in zip(self.places, self.offsets, strict=True)]


Tell: TypeAlias = Callable[[Sight], None]


class Client(ABC):
    """A client in its own process. Everything here is called from one thread.

    Attributes:
        error: the class of the errors that it raises.
    """

    error: ClassVar[type[Exception]]

    def __init__(self, part: Part, tell: Tell) -> None:
        self.part = part
        self.tell = tell

    @abstractmethod
    def open(self) -> None:
        """Connect; a consumer subscribes."""

    @abstractmethod
    def close(self) -> None:
        """Close in order."""

    @abstractmethod
    def code(self, error: Any) -> str:
        """Kafka's name of an error that was raised."""

    def poll(self, timeout_s: float) -> int:
        """Take records, or wait for them; gives how many there were."""
        self.rest(timeout_s)
        return 0

    def rest(self, timeout_s: float) -> None:
        """Be busy with something else; what the client does in the background goes on."""
        time.sleep(timeout_s)

    @property
    @abstractmethod
    def words(self) -> Mapping[str, Callable[..., None]]:
        """What it can be asked to do, and be told of as done or refused."""

    # What subclasses tell

    def told_of(self, what: str, places: Iterable[Place]) -> None:
        """Tell of partitions that came or went, if there are any."""
        if moved := tuple(sorted(places)):
            self.tell(Sight(what, moved))

    def told_read(self, rows: Iterable[tuple[str, int, int]]) -> int:
        """Tell of records: topic, partition and offset of each; gives how many there were."""
        if found := list(rows):
            self.tell(Sight("read", tuple(row[:2] for row in found), tuple(row[2] for row in found)))
        return len(found)


class ConsumerClient(Client):
    """A consumer of a group."""

    @property
    def words(self) -> Mapping[str, Callable[..., None]]:
        return {"commit": self.commit}

    @abstractmethod
    def commit(self) -> None:
        """Commit all that was read, and wait for the answer."""


class ProducerClient(Client):
    """A producer, with transactions if it has a ``transactional.id``."""

    @property
    def words(self) -> Mapping[str, Callable[..., None]]:
        return {"begin": self.begin, "send": self.send, "end": self.end}

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def send(self, topic: str, values: list[bytes]) -> None:
        """Produce to the partitions in turn, and wait for the answers."""

    @abstractmethod
    def end(self) -> None:
        """Commit the transaction."""


class Cast(NamedTuple):
    """The clients for all roles.

    Attributes:
        name: as files of failures call it where its clients see something else than others.
    """

    name: str
    consumer: type[ConsumerClient]
    producer: type[ProducerClient]


def prepare(*casts: Cast) -> None:
    """Get ready to start processes, in the background: the first would take long. Only the first call has an effect."""
    _CONTEXT.set_forkserver_preload([kind.__module__ for cast in casts for kind in (cast.consumer, cast.producer)])
    forkserver.ensure_running()


_CONTEXT = multiprocessing.get_context("forkserver")


class Actor:
    """A client's process, as the player has it.

    Attributes:
        asked: how many things it was asked to do and has not done yet.
        is_frozen: whether it stands still; is_alive: whether it runs or stands still.
    """

    def __init__(self, kind: type[Client], part: Part) -> None:
        self.part = part
        self.asked = 0
        self.is_frozen = False
        self.is_alive = True
        self.wire, other = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_act, args=(kind, part, other), name=part.name, daemon=True)
        self._process.start()
        other.close()

    def ask(self, word: str, *given: Any) -> None:
        """Ask the client to do something; it is told of as ``done`` or ``refused``."""
        self.asked += 1
        self.wire.send((word, *given))

    def hear(self) -> list[Sight]:
        """Take in what the client saw since the last time; gives that.

        Raises:
            RuntimeError: its program broke, or its process ended by itself.
        """
        new: list[Sight] = []
        try:
            while self.wire.poll():
                new.append(self.wire.recv())
        except (EOFError, ConnectionResetError):
            if self.is_alive and not any(one.what == "broke" for one in new):
                self.kill()
                code = self._process.exitcode
                raise RuntimeError(f"the process of role {self.part.name} ended with code {code}") from None
        self.asked -= sum(one.what in ("done", "refused") for one in new)
        for one in new:
            if one.what == "broke":
                raise RuntimeError(f"the client of role {self.part.name} broke:\n{one.text}")
        return new

    def stop(self) -> None:
        """Have the client close, and wait for its end. What it sees meanwhile can be heard afterwards."""
        self.wire.send(("stop",))
        self._process.join(PATIENCE_S)
        if self._process.is_alive():
            self.kill()
            raise TimeoutError(f"the client of role {self.part.name} did not close in {PATIENCE_S:g} s")
        self.is_alive = False

    def kill(self) -> None:
        """SIGKILL: its sockets close, and it says goodbye to nobody."""
        self._process.kill()
        self._process.join()
        self.is_alive = self.is_frozen = False

    def freeze(self) -> None:
        """SIGSTOP: its sockets stay open, and nothing of it runs."""
        self._signal(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        """SIGCONT: it goes on."""
        self._signal(signal.SIGCONT)
        self.is_frozen = False

    def _signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)


def _act(kind: type[Client], part: Part, wire: Connection) -> None:
    """Play a role: the body of its process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the player ends its clients
    try:
        _loop(kind(part, wire.send), wire)
    except (EOFError, BrokenPipeError):
        pass  # the player is gone
    except BaseException:
        wire.send(Sight("broke", text=traceback.format_exc()))


def _loop(client: Client, wire: Connection) -> None:
    last = ""
    has_work = is_busy = False
    client.open()
    while True:
        try:
            if is_busy:
                client.rest(POLL_S)
            else:
                is_busy = client.poll(POLL_S) > 0 and has_work
        except client.error as error:
            if (code := client.code(error)) != last:  # some are raised again and again
                last = code
                client.tell(Sight("error", text=code))
            client.rest(POLL_S)
        while wire.poll():
            word, *given = wire.recv()
            if word == "stop":
                client.close()
                client.tell(Sight("closed"))
                return
            if word in ("poll", "work"):
                has_work, is_busy = word == "work", False
                client.tell(Sight("done", word=word))
                continue
            try:
                client.words[word](*given)
                client.tell(Sight("done", word=word))
            except client.error as error:
                client.tell(Sight("refused", word=word, text=client.code(error)))
