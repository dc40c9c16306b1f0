"""The states of a transactional id. KIP-98, KIP-890."""

from __future__ import annotations

import enum

from ottla.protocol.transaction_log import TransactionStatus


class TransactionState(enum.StrEnum):
    """Where the transactional id is; the value is the name that Kafka's tools show."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    @property
    def status(self) -> TransactionStatus:
        """The number that stands in the log."""
        return TransactionStatus[self.name]


EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
DEAD = TransactionState.DEAD
PREPARE_EPOCH_FENCE = TransactionState.PREPARE_EPOCH_FENCE

PREPARED = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""The outcome is decided and in the log; markers are being written."""

AT_REST = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""No transaction is open; such an id may expire."""

VALID_PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    EMPTY: AT_REST,
    ONGOING: AT_REST | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: AT_REST | {ONGOING, PREPARE_EPOCH_FENCE},  # an empty transaction can be aborted since KIP-890
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    DEAD: AT_REST,
    PREPARE_EPOCH_FENCE: frozenset({ONGOING}),
}
"""From which states each state can be reached.

Nothing ever is in PrepareEpochFence: an ongoing transaction whose producer is fenced goes to PrepareAbort in the same
step. It is known because it has a name and a number.
"""

STATES = {state.value: state for state in TransactionState}
BY_STATUS = {state.status: state for state in TransactionState}
