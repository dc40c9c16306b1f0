"""The state of a transactional producer, and the meaning of error codes for it. Pure.

```
            begin            end (commit)
  NEW ─► READY ───► OPEN ───────────────► ENDING ─► READY
                     │                      │
                     │ an abortable error   │
                     ▼                      ▼
                   FAILED ── end (abort) ─► ENDING        any state ── fencing and the like ─► FATAL
```

**Two protocols.** With the first, the coordinator is told of every partition and group before anything is written
there (AddPartitionsToTxn, AddOffsetsToTxn), and the epoch moves only when something went wrong. With the second
(KIP-890, when the cluster's ``transaction.version`` is 2 or more) the brokers add what is written to, and every
EndTxn moves the epoch, so that nothing late of one transaction gets into the next.

**Errors** are of three kinds (KIP-1050): those after which the same request is made again; those after which the
transaction can only be aborted, and the next one may begin; and those after which this producer is of no use.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from ottla.clients.errors import (
    COORDINATOR_MOVED,
    InvalidTransactionState,
    KafkaError,
    ProducerFenced,
    TransactionFailed,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import TopicPartition


class TransactionState(enum.Enum):
    """The states of a transactional producer."""

    NEW = "not yet known to the coordinator"
    READY = "outside a transaction"
    OPEN = "in a transaction"
    ENDING = "ending a transaction"
    FAILED = "in a transaction that can only be aborted"
    FATAL = "of no use any more"


class Step(enum.Enum):
    """The request that an error answers."""

    INIT = "get the producer's id"
    ADD_PARTITIONS = "add partitions to the transaction"
    ADD_OFFSETS = "add a group to the transaction"
    COMMIT_OFFSETS = "commit offsets in the transaction"
    END = "end the transaction"
    PRODUCE = "produce in the transaction"


class Verdict(enum.Enum):
    """The consequence of an error code."""

    DONE = "it went well"
    AGAIN = "make the same request again"
    FIND = "look the coordinator up, and make the same request again"
    ABORT = "the transaction can only be aborted"
    FATAL = "the producer is of no use any more"


_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
"""Old coordinators say the second where newer ones say the first (KIP-588)."""
_FORGOTTEN = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
"""The producer's id has expired, or was lost: with another epoch it goes on (KIP-360)."""
_ABORT_AT: dict[Step, frozenset[ErrorCode]] = {
    Step.INIT: frozenset(),
    Step.ADD_PARTITIONS: frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED})
    | _FORGOTTEN,
    Step.ADD_OFFSETS: frozenset({ErrorCode.GROUP_AUTHORIZATION_FAILED}) | _FORGOTTEN,
    Step.COMMIT_OFFSETS: frozenset(
        {
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.STALE_MEMBER_EPOCH,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.OFFSET_METADATA_TOO_LARGE,
        }
    )
    | _FORGOTTEN,
    Step.END: _FORGOTTEN,
}
_FATAL_AT_PRODUCE = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


def verdict(step: Step, code: ErrorCode) -> Verdict:
    """The consequence of an error code at a step; at PRODUCE, of a batch that will not be tried again."""
    if code is ErrorCode.NONE:
        return Verdict.DONE
    if step is Step.PRODUCE:
        return Verdict.FATAL if code in _FATAL_AT_PRODUCE else Verdict.ABORT
    if code in COORDINATOR_MOVED or code is ErrorCode.NETWORK_EXCEPTION:
        return Verdict.FIND
    if code is ErrorCode.REQUEST_TIMED_OUT:
        return Verdict.FIND if step is Step.COMMIT_OFFSETS else Verdict.AGAIN
    if code.retriable:
        return Verdict.AGAIN
    if code is ErrorCode.TRANSACTION_ABORTABLE or code in _ABORT_AT[step]:
        return Verdict.ABORT
    return Verdict.FATAL


class Transaction:
    """The state of one transactional producer.

    Attributes:
        state: its state.
        error: why, in FAILED and FATAL.
        v2: the brokers add partitions and groups themselves, and EndTxn moves the epoch.
        added: partitions to which records may go.
        groups: groups whose offsets may be committed.
        asked: the coordinator may know of the transaction, though it did not say so.
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.NEW
        self.error: KafkaError | None = None
        self.v2 = False
        self.added: set[TopicPartition] = set()
        self.groups: set[str] = set()
        self.asked = False
        self.committing: bool | None = None
        self._wanted: set[TopicPartition] = set()

    @property
    def known(self) -> bool:
        """The coordinator has confirmed something of this transaction, or with v2 will have learned of it."""
        return bool(self.added or self.groups)

    def ready(self) -> None:
        """The producer has its id, and no transaction is open."""
        self.state = TransactionState.READY
        self.error = None
        self.committing = None
        self.asked = False
        self.added.clear()
        self.groups.clear()
        self._wanted.clear()

    def begin(self) -> None:
        """Begin a transaction. Raises the reason if that is not possible now."""
        self.check_usable()
        if self.state is not TransactionState.READY:
            raise InvalidTransactionState(f"begin_transaction() while {self.state.value}")
        self.state = TransactionState.OPEN

    def check_open(self, what: str) -> None:
        """Raises unless a transaction is open and can still be committed."""
        self.check_usable()
        if self.state is TransactionState.FAILED:
            raise self.failure()
        if self.state is not TransactionState.OPEN:
            raise InvalidTransactionState(f"{what} while {self.state.value}: call begin_transaction() first")

    def begin_end(self, commit: bool) -> None:
        """End the transaction. An end that was not finished may be called again in the same way."""
        self.check_usable()
        name = "commit_transaction()" if commit else "abort_transaction()"
        if self.state is TransactionState.ENDING:
            if self.committing is not commit:
                raise InvalidTransactionState(f"{name} while the other is under way")
            return
        if self.state is TransactionState.FAILED and commit:
            raise self.failure()
        if self.state not in (TransactionState.OPEN, TransactionState.FAILED):
            raise InvalidTransactionState(f"{name} while {self.state.value}: call begin_transaction() first")
        self.state = TransactionState.ENDING
        self.committing = commit

    def failure(self) -> TransactionFailed:
        """The error that tells the user to abort."""
        assert self.error is not None
        return TransactionFailed(f"the transaction can only be aborted: {self.error}", self.error.code)

    def check_usable(self) -> None:
        """Raises the error that made the producer useless, if there was one."""
        if self.state is TransactionState.FATAL:
            assert self.error is not None
            raise self.error

    # partitions

    def want(self, tp: TopicPartition) -> bool:
        """A record will go to a partition. True: the coordinator must be told of it first."""
        if tp in self.added:
            return False
        if self.v2:
            self.added.add(tp)
            return False
        self._wanted.add(tp)
        return True

    def to_add(self) -> list[TopicPartition]:
        """Partitions of which the coordinator must be told."""
        return sorted(self._wanted) if self.may_commit else []

    def partitions_added(self, tps: Iterable[TopicPartition]) -> None:
        self._wanted.difference_update(tps)
        self.added.update(tps)

    def may_send(self, tp: TopicPartition) -> bool:
        """Tell whether batches of a partition may be sent now."""
        return self.may_commit and tp in self.added

    # errors

    @property
    def may_commit(self) -> bool:
        """The transaction is neither failed nor being aborted: records may go out, and an error of theirs is news."""
        return self.state is TransactionState.OPEN or (self.state is TransactionState.ENDING and bool(self.committing))

    def failed(self, error: KafkaError, found: Verdict) -> KafkaError:
        """Note an error that ends the transaction, or the producer. Returns the error to raise."""
        if self.state is TransactionState.FATAL:
            assert self.error is not None
            return self.error
        if found is Verdict.FATAL:
            self.error = self._fatal(error)
            self.state = TransactionState.FATAL
            return self.error
        if self.state is TransactionState.ENDING and not self.committing:
            return error  # it is being aborted already
        self.error = self.error or error
        self.state = TransactionState.FAILED
        self.committing = None
        return self.failure()

    def _fatal(self, error: KafkaError) -> KafkaError:
        if error.code in _FENCED:
            return ProducerFenced(
                f"another producer with transactional_id={self.transactional_id!r} was started, or the transaction "
                f"took longer than transaction_timeout_ms: {error}"
            )
        return error
