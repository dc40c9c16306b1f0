"""InitProducerId for a transactional id: a producer begins, or goes on after an error. KIP-98, KIP-360, KIP-588."""

from __future__ import annotations

from ottla.broker.core.coordination.machine import Answer
from ottla.broker.core.effects import Asker
from ottla.broker.core.transactions.ending import fence
from ottla.broker.core.transactions.machine import Machine
from ottla.broker.core.transactions.state import ONGOING, PREPARED
from ottla.broker.core.transactions.transaction import LAST_GIVEN_EPOCH, Entry, Snapshot, id_bytes
from ottla.broker.core.transactions.transitions import with_new_producer_id, with_next_epoch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.transaction_log import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

FENCED_IS_KNOWN_FROM = 4
"""Clients of older versions know INVALID_PRODUCER_EPOCH only (KIP-588)."""


def init_producer_id(m: Machine, request: InitProducerIdRequest, ctx: Asker) -> InitProducerIdResponse | None:
    """The id is known to be a text that is not empty. None if parked."""
    answer: Answer[InitProducerIdResponse] = Answer(ctx)

    def refuse(error: ErrorCode) -> None:
        if error is ErrorCode.PRODUCER_FENCED and ctx.api_version < FENCED_IS_KNOWN_FROM:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        answer.give(refusal(error))

    if not 0 < request.transaction_timeout_ms <= m.settings.transaction_max_timeout_ms:
        refuse(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        return answer.taken(m)
    entry = _entry(m, request)
    if isinstance(entry, ErrorCode):
        refuse(entry)
        return answer.taken(m)
    if entry.pending is None and entry.current.state is ONGOING and _may_ask(entry.current, request):
        # The client comes again, and finds the transaction of whoever was there before aborted.
        fence(m, entry, lambda error: refuse(error or ErrorCode.CONCURRENT_TRANSACTIONS))
        return answer.taken(m)
    after = _next(m, entry, request)
    if isinstance(after, ErrorCode):
        refuse(after)
        return answer.taken(m)
    snapshot = after

    def done(error: ErrorCode) -> None:
        if error:
            refuse(error)
            return
        m.note(
            f"Initialized transactionalId {entry.transactional_id} with producerId {snapshot.producer_id} and producer "
            f"epoch {snapshot.producer_epoch} on partition __transaction_state-{entry.shard.partition}"
        )
        answer.give(InitProducerIdResponse(producer_id=snapshot.producer_id, producer_epoch=snapshot.producer_epoch))

    m.move(entry, snapshot, done)
    return answer.taken(m)


def refusal(error: int) -> InitProducerIdResponse:
    """The answer without an identity."""
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


def _entry(m: Machine, request: InitProducerIdRequest) -> Entry | ErrorCode:
    transactional_id = request.transactional_id or ""
    found = m.find(transactional_id)
    if found is not ErrorCode.INVALID_PRODUCER_ID_MAPPING:
        return found
    if not m.has_room(id_bytes(transactional_id)):
        return ErrorCode.POLICY_VIOLATION  # to give up others that rest would let producers back in that were fenced
    producer_id = m.take_producer_id()
    if producer_id is None:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # as Kafka says while it waits for the next block of ids
    shard = m.shard_of(transactional_id)
    first = Snapshot(producer_id=producer_id, timeout_ms=request.transaction_timeout_ms, update_ms=m.wall_ms)
    entry = shard.entries[transactional_id] = Entry(transactional_id, shard, first)
    m.held_bytes += entry.held_bytes
    return entry


def _expected_epoch(request: InitProducerIdRequest) -> int | None:
    return None if request.producer_epoch == NO_PRODUCER_EPOCH else request.producer_epoch


def _may_ask(tx: Snapshot, request: InitProducerIdRequest) -> bool:
    """Whether the producer that asks is not known to be an old one; its epoch is looked at later.

    The previous id is accepted with an epoch that is used up: the request for its successor was answered, and the
    answer lost.
    """
    return (
        _expected_epoch(request) is None
        or tx.producer_epoch == NO_PRODUCER_EPOCH
        or request.producer_id == tx.producer_id
        or (request.producer_id == tx.previous_producer_id and request.producer_epoch >= LAST_GIVEN_EPOCH)
    )


def _next(m: Machine, entry: Entry, request: InitProducerIdRequest) -> Snapshot | ErrorCode:
    tx = entry.current
    if entry.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if not _may_ask(tx, request):
        return ErrorCode.PRODUCER_FENCED
    if tx.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    expected = _expected_epoch(request)
    if tx.is_exhausted and expected in (None, tx.producer_epoch):
        producer_id = m.take_producer_id()
        if producer_id is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return with_new_producer_id(
            tx, producer_id, request.transaction_timeout_ms, m.wall_ms, keep_last_epoch=expected is not None
        )
    return with_next_epoch(tx, request.transaction_timeout_ms, expected, m.wall_ms)
