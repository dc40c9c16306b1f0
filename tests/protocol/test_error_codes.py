"""Error codes against two other implementations: names, numbers, and what may be tried again."""

from __future__ import annotations

import kafka.errors
import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from ottla.protocol.errors import ErrorCode

KIO = {code.name.upper(): code for code in KioErrorCode}


def test_no_code_is_missing() -> None:
    """kio knows no code that we do not; numbers run without a gap, so one that we know alone is a newer one."""
    assert set(KIO) <= set(ErrorCode.__members__)
    assert [int(code) for code in ErrorCode] == list(range(-1, len(ErrorCode) - 1))
    assert len(KIO) >= 130


@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_number_and_retriable(code: ErrorCode) -> None:
    if code.name in KIO:
        assert int(KIO[code.name]) == code
        assert KIO[code.name].retriable == code.retriable
    other = kafka.errors.for_code(int(code))
    if other not in kafka.errors.kafka_errors.values() or code in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR):
        return  # too new for kafka-python, or not an error of a broker there
    assert other.errno == code
    # kafka-python gives up on a corrupt batch; in Kafka, as in kio, it may be fetched or sent again.
    assert bool(other.retriable) == (code.retriable and code is not ErrorCode.CORRUPT_MESSAGE)
