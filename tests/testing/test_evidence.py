"""What the pytest plugin shows of a failed test: what became of its groups, a recording, and their timelines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing import Broker, group_look
from ottla.testing.evidence import MOST_STOPPED, Witness
from tests.testing.conftest import Runner

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.e2e


def section(output: str) -> list[str]:
    """The lines of the first section "Ottla"."""
    _, found, rest = output.partition(" Ottla ---")
    assert found, output
    return [line for line in re.split(r"^[-=_]{3,}.* [-=_]{3,}$", rest, flags=re.MULTILINE)[0].splitlines()[1:] if line]


def ottla(*arguments: str) -> str:
    """What the command prints."""
    done = subprocess.run([sys.executable, "-m", "ottla.cli", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


REBALANCING = """
    pytestmark = pytest.mark.ottla(topics={"orders": 2})

    @pytest.fixture
    async def rebalancing(ottla_broker):
        ottla_broker.produce("orders", ["one", "two"], partition=0)
        first, second = consumer(ottla_broker), consumer(ottla_broker, "billing-2")
        await first.start()
        await first.getone()
        await first.commit()
        ottla_broker.fault("JoinGroup", client_id="billing-1", hold=True, allow_unused=True)  # it does not come back
        joining = asyncio.create_task(second.start())
        await ottla_broker.group("billing").wait_async(state="PreparingRebalance")
        yield
        joining.cancel()
        await first.stop()

    def test_one(ottla_broker, rebalancing):
        assert ottla_broker.group("billing").state == "Stable", "the real failure"
"""


def test_a_failed_test_shows_what_became_of_its_groups(run: Runner) -> None:
    output = run(REBALANCING, failed=1)
    assert "AssertionError: the real failure" in output
    lines = section(output)
    assert re.match(
        r"billing: PreparingRebalance in generation 1 with 2 members, has waited \d+ ms for billing-1, "
        r"1 record left to read, rebalanced 2 times",
        lines[0],
    )
    assert re.match(
        r"  billing-2 joined; (a fault .*; )?the rebalance has been running for .* and waits for billing-1", lines[1]
    )
    assert any(re.match("  Before, at .*: billing-1 started the group; generation 1 was Stable", one) for one in lines)
    assert "  orders-0: committed up to 1, 1 record left before its end at 2" in lines

    html, recording, command = lines[-3:]
    page = Path(html.removeprefix("Timeline of billing: "))
    assert page.name == "billing.html" and "billing · Ottla timeline" in page.read_text(encoding="utf-8")
    file = recording.removeprefix("Recording: ")
    assert Path(file).is_relative_to(page.parent)
    assert command == f"  ottla why billing --file {file} --last 2"
    assert "billing-2 joined; the rebalance " in ottla(*command.split()[1:])
    assert "Same: " in ottla("replay", file)


def test_a_broker_that_stopped_in_the_test_is_evidence_too(run: Runner) -> None:
    output = run(
        """
        async def test_one():
            with Broker(topics=["orders"]) as broker, Broker() as other:
                async with consumer(broker) as client:
                    await broker.group("billing").wait_async(members=1)
                    raise ValueError("the real failure")

        async def test_two():
            with Broker(topics=["orders"]) as broker:
                broker.produce("orders", "one")
                async with consumer(broker, "audit-1", "audit") as client:
                    await broker.group("audit").wait_async(members=1)
            assert not client, "the real failure"
        """,
        failed=2,
    )
    first, second = (section(" Ottla ---" + part) for part in output.split(" Ottla ---")[1:])
    assert re.fullmatch(r"Broker 127.0.0.1:\d+", first[0])  # the other one has nothing to say
    assert re.match("billing: (Stable in generation 1 with 1 member|Empty in generation 2 with 0 members)", first[1])
    assert second[0] == "audit: Empty in generation 2 with 0 members"
    assert first[-2].startswith("Recording: ") and Path(first[-2].removeprefix("Recording: ")).stat().st_size > 1000


def test_only_what_happened_in_the_test_is_evidence(run: Runner) -> None:
    output = run(
        """
        async def test_one(ottla_session_broker):
            ottla_session_broker.produce("orders", "one")
            async with consumer(ottla_session_broker, group="earlier") as client:
                await client.getone()

        async def test_two(ottla_session_broker):
            async with consumer(ottla_session_broker) as client:
                await client.getone()
            assert ottla_session_broker.port == 0

        def test_three(ottla_session_broker):
            assert ottla_session_broker.port == 0
        """,
        passed=1,
        failed=2,
    )
    assert output.count(" Ottla ---") == 1
    assert section(output)[0] == "billing: Empty in generation 2 with 0 members"
    assert "earlier" not in "".join(section(output))


def test_who_used_no_group_is_told_so_and_others_nothing(run: Runner) -> None:
    output = run(
        """
        def test_one(ottla_broker):
            assert ottla_broker.port == 0

        def test_two():
            assert not "the real failure"
        """,
        failed=2,
    )
    assert output.count(" Ottla ---") == 1
    assert section(output) == ["No client has used a consumer group."]


def test_what_faults_did_is_told(run: Runner) -> None:
    output = run(
        """
        @pytest.mark.ottla(topics=["orders"])
        @pytest.mark.ottla_fault("SyncGroup", error="REBALANCE_IN_PROGRESS", times=2)
        async def test_one(ottla_broker):
            async with consumer(ottla_broker):
                await ottla_broker.group("billing").wait_async(members=1)
            assert ottla_broker.port == 0
        """,
        failed=1,
    )
    (line,) = (one for one in section(output) if one.startswith("Fault: "))
    assert re.fullmatch("Fault: answered REBALANCE_IN_PROGRESS.*: SyncGroup of billing-1, 2 times", line)


def test_a_fixture_that_fails_has_evidence(run: Runner) -> None:
    output = run(
        """
        @pytest.fixture
        async def service(ottla_broker):
            ottla_broker.produce("orders", "one")
            async with consumer(ottla_broker) as client:
                await client.getone()
                assert ottla_broker.port == 0
                yield

        def test_one(service):
            assert service
        """,
        errors=1,
    )
    assert section(output)[0] == "billing: Empty in generation 2 with 0 members"


def test_evidence_hides_no_failure(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the evidence is lost")

    monkeypatch.setattr(group_look, "accounts", fail)
    output = run("def test_one(ottla_broker): assert ottla_broker.port == 0, 'the real failure'", failed=1)
    assert "AssertionError: the real failure" in output
    (line,) = section(output)
    assert re.fullmatch(r"Broker 127.0.0.1:\d+: no evidence, because of RuntimeError: the evidence is lost", line)


def test_a_broker_stops_though_its_evidence_is_lost(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the evidence is lost")

    monkeypatch.setattr(group_look, "look", fail)
    output = run(
        """
        async def test_one():
            with Broker(topics=["orders"]) as broker:
                async with consumer(broker):
                    await broker.group("billing").wait_async(members=1)
            assert broker.is_running, "the real failure"
        """,
        failed=1,
    )
    assert "AssertionError: the real failure" in output
    assert "no evidence, because of RuntimeError: the evidence is lost" in section(output)[0]


def test_evidence_without_a_folder_is_a_text(run: Runner) -> None:
    output = run(REBALANCING, "-p", "no:tmpdir", failed=1)
    assert section(output)[0].startswith("billing: PreparingRebalance")
    assert "Recording:" not in output


def test_few_brokers_that_stopped_are_remembered() -> None:
    witness = Witness()
    with Broker() as running:
        witness.started(running)
        for _ in range(MOST_STOPPED + 2):
            with Broker() as broker:
                witness.started(broker)
                witness.stopping(broker)
        assert [one.broker for one in witness.ran].count(running) == 1
        assert len(witness.ran) == MOST_STOPPED + 1
        witness.test_begins()
        assert [one.broker for one in witness.ran] == [running]


def test_a_wait_in_vain_shows_the_group_as_it_was_then(run: Runner) -> None:
    """Its client leaves in order before the report is made."""
    output = run(
        """
        @pytest.mark.ottla(topics=["orders"])
        async def test_one(ottla_broker):
            with ottla_broker.fault("SyncGroup", hold="request"):
                joining = asyncio.create_task(consumer(ottla_broker).start())
                try:
                    await ottla_broker.group("billing").wait_async(members=1, timeout=0.5)
                finally:
                    joining.cancel()
        """,
        failed=1,
    )
    lines = section(output)
    assert lines[0].startswith("billing: CompletingRebalance in generation 1 with 1 member, has waited ")
    assert "a fault held the SyncGroup of billing-1" in lines[1]


def test_a_mistyped_fault_is_told_with_another_failure(run: Runner) -> None:
    output = run(
        """
        @pytest.mark.ottla(topics=["orders"])
        @pytest.mark.ottla_fault("SyncGroup", group="biling", drop="response")
        async def test_one(ottla_broker):
            async with consumer(ottla_broker):
                await ottla_broker.group("billing").wait_async(members=1)
            assert False, "the real failure"
        """,
        failed=1,
    )
    told = "The fault 'SyncGroup', group='biling', drop='response' never fired: 1 SyncGroup request came; "
    assert any(line.startswith(told) for line in section(output))
