"""A broker that comes back within the session timeout: its groups go on in the generation they had."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.testing import BrokerProcess
from tests.e2e.conftest import KAFKAS_DEFAULTS
from tests.support.cast import Cast, places
from tests.support.clients import confluent
from tests.support.kit import KINDS, produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

PARTITIONS = 4
AMPLE_MS = 45_000
"""A session timeout that even a busy machine keeps."""


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_groups_outlive_the_broker(how: str, tmp_path: Path, show_log: Callable[[Callable[[], str]], None]) -> None:
    """No member joins again, none loses what it has, and all go on reading and committing."""
    logs: list[str] = []
    show_log(lambda: "\n".join([*logs, broker.log_text()]))
    broker = BrokerProcess(tmp_path / "data", settings=KAFKAS_DEFAULTS, topics={"t": PARTITIONS})
    with broker:
        bootstrap = broker.bootstrap_servers
        casts = [Cast(bootstrap, kind) for kind in KINDS]
        with casts[0], casts[1], casts[2], casts[3]:
            for cast in casts:
                for _ in range(2):
                    cast.join(cast.group, ["t"], session_timeout_ms=AMPLE_MS)
            for cast in casts:
                cast.wait_shared(cast.everyone, places("t", PARTITIONS))
            first = produce(bootstrap, "t", [f"before {number}" for number in range(40)])
            assert len(first) == 40
            for cast in casts:
                cast.wait_seen_once([f"before {number}" for number in range(40)])
            changes = [list(one.changes) for cast in casts for one in cast.everyone]
            stream = confluent.Stream(bootstrap, "t", PARTITIONS, enable_idempotence=True)
            wait_for(lambda: stream.acknowledged, "the stream to begin")

            if how == "SIGTERM":
                assert broker.stop() == 0
            else:
                broker.kill()
            logs.append(broker.log_text())
            broker.restart()

            acknowledged = len(stream.acknowledged)
            wait_for(lambda: len(stream.acknowledged) > acknowledged + 20, "the stream to go on")
            for cast in casts:
                cast.wait_seen_once(stream.stop())
                for one in cast.everyone:
                    one.commit()
            # The commits were made in the old generation, or a member has joined again and this shows it.
            told = [list(one.changes) for cast in casts for one in cast.everyone]
            assert told == changes, "\n".join(cast.describe() for cast in casts)
            for cast in casts:
                for one in cast.everyone:
                    one.stop()
        for kind in KINDS:
            with Cast(bootstrap, kind) as heirs:
                heir = heirs.join(kind, ["t"])
                heirs.wait_shared([heir], places("t", PARTITIONS))
                produce(bootstrap, "t", [f"after {kind}"])
                heirs.wait_seen([f"after {kind}"])
                assert {seen.value.split()[0] for seen in heir.seen} == {"after"}, f"it goes on where {kind} was"
