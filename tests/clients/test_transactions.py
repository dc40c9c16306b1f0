"""A transactional producer's state: what may follow what, and what each error code means at each step."""

import pytest

from ottla.clients.errors import (
    InvalidTransactionState,
    KafkaConnectionError,
    KafkaError,
    ProducerFenced,
    TransactionFailed,
    error_of,
)
from ottla.clients.transactions import Step, Transaction, TransactionState, Verdict, verdict
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
COORDINATOR_STEPS = [step for step in Step if step is not Step.PRODUCE]


@pytest.fixture
def transaction() -> Transaction:
    """One that is open, by the first protocol."""
    transaction = Transaction("id")
    transaction.ready()
    transaction.begin()
    return transaction


# what codes mean


@pytest.mark.parametrize("step", COORDINATOR_STEPS)
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NONE, Verdict.DONE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Verdict.FIND),
        (ErrorCode.NOT_COORDINATOR, Verdict.FIND),
        (ErrorCode.NETWORK_EXCEPTION, Verdict.FIND),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Verdict.AGAIN),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Verdict.AGAIN),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Verdict.AGAIN),
        (ErrorCode.PRODUCER_FENCED, Verdict.FATAL),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.FATAL),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Verdict.FATAL),
        (ErrorCode.INVALID_TXN_STATE, Verdict.FATAL),
        (ErrorCode.UNSUPPORTED_VERSION, Verdict.FATAL),
        (ErrorCode.TRANSACTION_ABORTABLE, Verdict.ABORT),
    ],
)
def test_what_a_coordinators_answer_means(step: Step, code: ErrorCode, expected: Verdict) -> None:
    assert verdict(step, code) is expected


@pytest.mark.parametrize(
    ("step", "code", "expected"),
    [
        (Step.INIT, ErrorCode.INVALID_TRANSACTION_TIMEOUT, Verdict.FATAL),
        (Step.INIT, ErrorCode.INVALID_PRODUCER_ID_MAPPING, Verdict.FATAL),
        (Step.ADD_PARTITIONS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.ABORT),
        (Step.ADD_PARTITIONS, ErrorCode.INVALID_PRODUCER_ID_MAPPING, Verdict.ABORT),
        (Step.ADD_OFFSETS, ErrorCode.GROUP_AUTHORIZATION_FAILED, Verdict.ABORT),
        (Step.ADD_OFFSETS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.FATAL),
        (Step.COMMIT_OFFSETS, ErrorCode.ILLEGAL_GENERATION, Verdict.ABORT),
        (Step.COMMIT_OFFSETS, ErrorCode.UNKNOWN_MEMBER_ID, Verdict.ABORT),
        (Step.COMMIT_OFFSETS, ErrorCode.FENCED_INSTANCE_ID, Verdict.ABORT),
        (Step.COMMIT_OFFSETS, ErrorCode.REQUEST_TIMED_OUT, Verdict.FIND),
        (Step.END, ErrorCode.REQUEST_TIMED_OUT, Verdict.AGAIN),
        (Step.END, ErrorCode.UNKNOWN_PRODUCER_ID, Verdict.ABORT),
        (Step.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE, Verdict.ABORT),
        (Step.PRODUCE, ErrorCode.REQUEST_TIMED_OUT, Verdict.ABORT),
        (Step.PRODUCE, ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.ABORT),
        (Step.PRODUCE, ErrorCode.PRODUCER_FENCED, Verdict.FATAL),
    ],
)
def test_what_differs_by_step(step: Step, code: ErrorCode, expected: Verdict) -> None:
    assert verdict(step, code) is expected


# what may follow what


def test_the_way_of_a_transaction(transaction: Transaction) -> None:
    assert transaction.want(T0), "the coordinator must be told first"
    assert not transaction.may_send(T0)
    assert transaction.to_add() == [T0]
    transaction.partitions_added([T0])
    assert not transaction.want(T0)
    assert (transaction.may_send(T0), transaction.may_send(T1), transaction.to_add()) == (True, False, [])
    transaction.begin_end(True)
    assert transaction.may_send(T0), "what is queued belongs to it"
    transaction.ready()
    assert (transaction.known, transaction.may_send(T0)) == (False, False), "the next one begins with nothing"
    transaction.begin()


def test_with_the_second_protocol_nobody_is_told(transaction: Transaction) -> None:
    transaction.v2 = True
    assert not transaction.want(T0)
    assert (transaction.may_send(T0), transaction.to_add(), transaction.known) == (True, [], True)


def test_nothing_goes_out_once_it_is_aborted(transaction: Transaction) -> None:
    transaction.want(T0)
    transaction.want(T1)
    transaction.partitions_added([T0])
    transaction.begin_end(False)
    assert (transaction.may_send(T0), transaction.to_add()) == (False, [])


def test_calls_out_of_order() -> None:
    transaction = Transaction("id")
    with pytest.raises(InvalidTransactionState, match="not yet known"):
        transaction.begin()
    transaction.ready()
    for call in (lambda: transaction.check_open("send()"), lambda: transaction.begin_end(True)):
        with pytest.raises(InvalidTransactionState, match="outside a transaction"):
            call()
    transaction.begin()
    with pytest.raises(InvalidTransactionState, match="in a transaction"):
        transaction.begin()
    transaction.begin_end(True)
    transaction.begin_end(True)  # again, after a timeout
    with pytest.raises(InvalidTransactionState, match="the other is under way"):
        transaction.begin_end(False)
    with pytest.raises(InvalidTransactionState, match="ending"):
        transaction.check_open("send()")


def test_a_failed_transaction_can_only_be_aborted(transaction: Transaction) -> None:
    raised = transaction.failed(error_of(ErrorCode.MESSAGE_TOO_LARGE, "produce"), Verdict.ABORT)
    assert isinstance(raised, TransactionFailed)
    assert raised.code is ErrorCode.MESSAGE_TOO_LARGE
    assert transaction.state is TransactionState.FAILED
    for call in (lambda: transaction.check_open("send()"), lambda: transaction.begin_end(True)):
        with pytest.raises(TransactionFailed, match=r"can only be aborted: produce: message too large"):
            call()
    with pytest.raises(InvalidTransactionState):
        transaction.begin()
    transaction.begin_end(False)
    transaction.ready()
    transaction.begin()
    assert transaction.error is None


def test_the_first_error_is_the_one_that_is_told(transaction: Transaction) -> None:
    transaction.failed(KafkaError("first"), Verdict.ABORT)
    assert "first" in str(transaction.failed(KafkaError("second"), Verdict.ABORT))


def test_a_commit_that_fails_leaves_it_to_be_aborted(transaction: Transaction) -> None:
    transaction.begin_end(True)
    transaction.failed(KafkaConnectionError("gone"), Verdict.ABORT)
    with pytest.raises(TransactionFailed):
        transaction.begin_end(True)
    transaction.begin_end(False)


def test_what_fails_while_it_is_aborted_is_no_news(transaction: Transaction) -> None:
    transaction.begin_end(False)
    assert not transaction.may_commit
    error = KafkaError("late")
    assert transaction.failed(error, Verdict.ABORT) is error
    assert transaction.state is TransactionState.ENDING


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_is_of_no_use(transaction: Transaction, code: ErrorCode) -> None:
    raised = transaction.failed(error_of(code, "end"), Verdict.FATAL)
    assert isinstance(raised, ProducerFenced)
    assert transaction.failed(KafkaError("more"), Verdict.ABORT) is raised
    for call in (
        lambda: transaction.begin(),
        lambda: transaction.check_open("send()"),
        lambda: transaction.begin_end(False),
        lambda: transaction.check_usable(),
    ):
        with pytest.raises(ProducerFenced, match="transactional_id='id'"):
            call()
