"""The port to the database, at the height of statements with names. Each is one transaction.

A session has one statement at a time. What became of it is told once as an `Answer`; if the session ends first, nothing
is told, and the statement may or may not have been carried out, now or later. Rows of logs are safe whatever happens:
`Append`, `Replace`, `Trim` and all that is derived from logs compare the epoch of the log under a lock, and `Claim` and
`HandOver` change it under a lock that conflicts with theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from ottla.broker.cluster.membership import Heard
from ottla.broker.cluster.plan import LogRow
from ottla.protocol.compression import Buffer


class Row(NamedTuple):
    """A record batch of a log: the head is its header with base offset and epoch in place, the body the rest."""

    log_id: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp_ms: int
    head: bytes
    body: Buffer

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.head) + len(self.body)


class Head(NamedTuple):
    """What a statement says of a log: the epoch of its leader, and where it must end."""

    log_id: int
    leader_epoch: int
    base_offset: int


class Stored(NamedTuple):
    """What a log was when its row was locked: its epoch, and where it ended before the statement.

    It ends behind its last row, but no earlier than where it begins and than it is sealed.
    """

    log_id: int
    leader_epoch: int
    end_offset: int


class Refusal(Enum):
    """The errors that say what happened; whatever else goes wrong ends the session."""

    UNIQUE_VIOLATION = "23505"
    LOCK_NOT_AVAILABLE = "55P03"


class Beat(NamedTuple):
    """One more beat of an incarnation → `Heard`."""

    node_id: int
    incarnation: int


class Identify(NamedTuple):
    """The id of the node of this name → that; a new name gets the next one after all that were ever used.

    Refused with `UNIQUE_VIOLATION` if somebody else has used the name or the id first: ask again.
    """

    name: str


class Register(NamedTuple):
    """A new incarnation of a node, of this version of Ottla → its number."""

    node_id: int
    version: str = ""


class Describe(NamedTuple):
    """Say of a node what it, its supervisor or an operator knows → whether it was so.

    Attributes:
        ended: the incarnation that was seen to end. is_leaving: it is about to end.
        intent: what the operator wants from now on.
        endpoints: host and port by the name of a listener, said by the node itself once it listens.
    """

    node_id: int
    ended: int | None = None
    intent: int | None = None
    endpoints: Mapping[str, tuple[str, int]] | None = None
    is_leaving: bool = False


class ReadLogs(NamedTuple):
    """All logs → a sequence of `LogRow`. A durable commit, as `ReadCatalog` is."""


class Append(NamedTuple):
    """Put rows behind the ends of logs → a sequence of `Stored`, one for each log that exists.

    The rows of a log are inserted if its epoch is that of the head, and if it ends where the head says. A head without
    rows is a barrier: under its lock it learns whether the epoch is still the present one. Every statement is a
    durable commit, even if it inserts nothing. Refused with `UNIQUE_VIOLATION` if the same rows came to be meanwhile.
    """

    heads: Sequence[Head]
    rows: Sequence[Row]


class Claim(NamedTuple):
    """Lead logs that have these epochs, under the next ones → pairs of log and new epoch, for those that were claimed.

    Attributes:
        wanted: pairs of log and epoch.
        last_sign: node, incarnation and beat of a leader that is presumed dead. Compared under a lock: if it has beaten
            since, nothing is claimed. So a leader whose lease holds loses nothing by somebody's presumption.
        skips: pass over logs that somebody has locked; else wait for a while, then `LOCK_NOT_AVAILABLE`.
        why: is kept with who leads a log from when.
    """

    wanted: Sequence[tuple[int, int]]
    node_id: int
    incarnation: int
    last_sign: tuple[int, int, int] | None = None
    skips: bool = True
    why: str = ""


class Evict(NamedTuple):
    """End the backends that keep a session waiting → their number."""

    waiting: int


class HandOver(NamedTuple):
    """Give logs that have these epochs to a node, under the next ones → pairs of log and new epoch."""

    led: Sequence[tuple[int, int]]
    heir_id: int
    heir_incarnation: int
    why: str = ""


class CallHome(NamedTuple):
    """Say of logs that are led away from home that they are to go there at once → the number of those.

    It holds until a log has another leader. Refused as `StoreCatalog` if somebody holds one of them.
    """

    log_ids: Sequence[int]
    why: str


class Depose(NamedTuple):
    """Let nothing count any more that a life of a node believes → pairs of log and new epoch.

    Logs are led by nobody, under later epochs; no life of a node has its number any more; counters and the version of
    the catalog go on later, too.

    Attributes:
        by: how much later: more than what may have been forgotten, where a database was restored.
    """

    by: int


class Load(NamedTuple):
    """What a new leader must know of a log → `Loaded`, None if the epoch is not this one."""

    log_id: int
    leader_epoch: int


class Outline(NamedTuple):
    """The batches of a log without their bytes, as columns: first and last offsets, sizes, largest timestamps (ms)."""

    bases: Sequence[int] = ()
    lasts: Sequence[int] = ()
    sizes: Sequence[int] = ()
    peaks: Sequence[int] = ()


class Loaded(NamedTuple):
    """A log as its leader finds it, but for the batches themselves: those are read by `Page`.

    Attributes:
        outline: of all batches that have an offset which may be read.
        epochs: where each one begins.
        snapshot: the last one, and the offset up to which it has seen the log; None if there is none.
    """

    start_offset: int
    end_offset: int
    outline: Outline
    epochs: Mapping[int, int]
    snapshot: tuple[int, object] | None


class BeginEpoch(NamedTuple):
    """Note where an epoch begins → whether it is the present one. Before the first append under it.

    Attributes:
        earlier: pairs of epoch and start, of a log that had them elsewhere.
    """

    log_id: int
    leader_epoch: int
    start_offset: int
    earlier: Sequence[tuple[int, int]] = ()


class BeginEpochs(NamedTuple):
    """Note where epochs begin, all at once → the logs whose epochs are the present ones.

    Attributes:
        begun: log, epoch and start offset of each.
    """

    begun: Sequence[tuple[int, int, int]]


class Page(NamedTuple):
    """Rows from the one that contains an offset on, or from the next one, below another → rows.

    None if the epoch is not this one, or if the log ends before the other offset: a server that others have left may
    still have the epoch, and not what was appended since.
    """

    log_id: int
    leader_epoch: int
    start_offset: int
    upto_offset: int
    max_bytes: int


class SaveSnapshot(NamedTuple):
    """Keep what the rows below an offset say of producers → whether the epoch is this one.

    One that comes late does not take the place of one with a larger offset: the rows between them may be gone.

    Attributes:
        state: what MessagePack has; tuples come back as lists.
    """

    log_id: int
    leader_epoch: int
    upto_offset: int
    state: object


class Trim(NamedTuple):
    """Let a log begin at an offset → whether the epoch is this one."""

    log_id: int
    leader_epoch: int
    start_offset: int


class Seal(NamedTuple):
    """Let nothing be put below an offset any more → whether the epoch is this one. Before rows there are replaced.

    A copy of an append may have looked at the log long ago. Once the row that it copies is gone, neither the end that
    it saw nor a key keeps it out; the seal does, as it is read under the lock.
    """

    log_id: int
    leader_epoch: int
    offset: int


class Sweep(NamedTuple):
    """Delete rows that lie below the start of their log as a whole → their number. Anybody may, at any time.

    Not all at once where there are very many: whoever wants them gone asks again until there are none.
    """

    log_id: int


class Tidy(NamedTuple):
    """Delete what is left of logs that were deleted, and old lines of the audit → how much that was, as by `Sweep`."""


class Replace(NamedTuple):
    """Put rows in the place of those between two offsets, if there are as many as expected → whether it was done.

    Only below what is sealed. So a log does not end earlier even if its last row goes.
    """

    log_id: int
    leader_epoch: int
    first_offset: int
    next_offset: int
    expected: int
    rows: Sequence[Row]


class ReadCatalog(NamedTuple):
    """The catalog → its version and document.

    Locks a row in a way that nobody minds, and so is a durable commit. What it saw is durable as well then, as the
    database writes its log in order; and a server that others have left does not answer at all.
    """


class StoreCatalog(NamedTuple):
    """Replace the catalog that has this version → the new version, None if somebody was faster.

    Whoever changes the catalog keeps all others waiting, so he does not wait long himself: `LOCK_NOT_AVAILABLE` if
    somebody holds one of the logs, as a half-sent append may for ever. He is to be evicted, as by a claim.

    Attributes:
        document: what JSON has; tuples come back as lists.
        created: logs that come with it; their leader is nobody.
        homes: pairs of log and new home. called: why they are to go there at once; empty if that has time.
        deleted: logs that go with it: their epoch rises, and nobody leads them any more.
    """

    over: int
    document: object
    created: Sequence[LogRow] = ()
    homes: Sequence[tuple[int, int]] = ()
    deleted: Sequence[int] = ()
    called: str = ""


class Take(NamedTuple):
    """Take so many numbers of a counter that nobody else gets → the first of them."""

    counter: str
    size: int


Statement = (
    Beat
    | Identify
    | Register
    | Describe
    | ReadLogs
    | Append
    | Claim
    | Evict
    | HandOver
    | Depose
    | CallHome
    | Load
    | BeginEpoch
    | BeginEpochs
    | Page
    | SaveSnapshot
    | Trim
    | Seal
    | Sweep
    | Tidy
    | Replace
    | ReadCatalog
    | StoreCatalog
    | Take
)
Result = (
    Heard
    | Loaded
    | int
    | bool
    | Sequence[LogRow]
    | Sequence[Stored]
    | Sequence[Row]
    | Sequence[tuple[int, int]]
    | Sequence[int]
    | tuple[int, object]
    | None
)


class Answer(NamedTuple):
    """What became of a statement.

    Attributes:
        refusal: why nothing was done; then there is no result.
        is_poisoned: a warning came while it ran: perhaps a wait for the standby was cancelled, so that what others see
            may still be lost. Counts as an unknown outcome wherever durability matters.
    """

    result: Result = None
    refusal: Refusal | None = None
    is_poisoned: bool = False


class Session(Protocol):
    """A connection to the database.

    Attributes:
        on_lost: told once when it has ended, but not by `abort`.
        number: by which `Evict` knows it.
        server: the life of the server at its other end: two of one life are the same object.
    """

    on_lost: Callable[[], None]

    @property
    def number(self) -> int: ...
    @property
    def server(self) -> object: ...

    def send(self, statement: Statement, answered: Callable[[Answer], None]) -> None:
        """Send a statement. The one before must have been answered."""

    def abort(self) -> None:
        """Let go of the connection at once. What was sent may still be carried out."""


class Connect(Protocol):
    """Connects to the database in one of the roles of a connection: ``H``, ``M``, ``R``, ``L``, ``F0``, ``F1``."""

    def __call__(self, role: str, connected: Callable[[Session | None], None]) -> None:
        """Connect, and tell the session; None if there is none to be had now."""
