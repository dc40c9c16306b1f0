"""Two other implementations of the protocol, at every version that they have.

What they write we read to the same values and write to the same bytes; what we write they read to the same values.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given

from tests.protocol import oracle_kafka_python, oracle_kio
from tests.protocol.wire_values import HEADERS, KAFKAS, at_version, examples, full, name_of, objects

ORACLES = {oracle.NAME: oracle for oracle in (oracle_kio, oracle_kafka_python)}
ALL: list[Any] = [*(cls for row in KAFKAS for cls in (row.request, row.response)), *HEADERS]

TOO_NEW = {
    oracle_kafka_python.NAME: [
        (f"ConsumerGroup{what}{kind}", version)
        for what in ("Heartbeat", "Describe")
        for kind in ("Request", "Response")
        for version in range(2)
    ]
}
"""What an oracle does not know yet."""


def agree(oracle: Any, obj: Any, version: int) -> None:
    layout = type(obj).layout(version)
    written = oracle.encode(obj, version)
    assert layout.decode(written) == obj
    assert layout.encode(obj) == written
    assert oracle.decode(type(obj), version, written) == obj


@pytest.mark.parametrize("cls", ALL, ids=name_of)
@pytest.mark.parametrize("oracle", ORACLES.values(), ids=ORACLES)
def test_agreement_at_every_version(oracle: ModuleType, cls: Any) -> None:
    versions = [version for version in cls.versions if oracle.knows(cls, version)]

    @examples(6)
    @given(objects(cls, oracle.VALUES))
    def check(drawn: Any) -> None:
        for version in versions:
            agree(oracle, at_version(drawn, version), version)

    check()
    for version in versions:
        agree(oracle, at_version(cls(), version), version)
        agree(oracle, at_version(full(cls), version), version)


def test_nothing_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Every version of every message is known to both, but for what is too old for them, or too new for one of them."""
    declared = {(cls.__name__, version) for cls in ALL for version in cls.versions}
    assert len(declared) == 2 * 239 + 3 + 2
    lines = []
    for name, oracle in ORACLES.items():
        compared = {(cls.__name__, version) for cls in ALL for version in cls.versions if oracle.knows(cls, version)}
        assert declared - compared == {("RequestHeader", 0), *TOO_NEW.get(name, ())}
        known = [row for row in KAFKAS if row.request.__name__ in {message for message, _ in compared}]
        spans = [f"{row.key.name} {_span(compared, row.request)} and {_span(compared, row.response)}" for row in known]
        spans += [f"{header.__name__} {_span(compared, header)}" for header in HEADERS]
        lines.append(f"{name}, {len(compared)} message versions: {', '.join(spans)}")
    with capsys.disabled():
        print("\nrequest and response versions compared with", *lines, sep="\n  ")


def _span(compared: set[tuple[str, int]], cls: Any) -> str:
    versions = [version for name, version in compared if name == cls.__name__]
    return f"{min(versions)}-{max(versions)}"
