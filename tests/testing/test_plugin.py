"""The pytest plugin as its users have it: fixtures and markers. Evidence is in test_evidence.py."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.house.fences import fences
from tests.house.sources import ROOT
from tests.testing.conftest import RUNS_AS, Runner

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.e2e

# fixtures


def test_each_test_has_a_fresh_broker_and_wider_fixtures_share_one(run: Runner) -> None:
    run(
        """
        pytestmark = pytest.mark.ottla(topics=["orders"])
        seen = {"fresh": [], "module": [], "session": []}

        @pytest.mark.parametrize("n", range(2))
        def test_one(ottla_broker, ottla_module_broker, ottla_session_broker, n):
            assert ottla_broker.topics == ottla_module_broker.topics == {"orders": 1}
            assert ottla_session_broker.topics == {}
            assert ottla_broker.records("orders") == []
            assert len(ottla_module_broker.records("orders")) == n
            for broker, name in zip((ottla_broker, ottla_module_broker, ottla_session_broker), seen):
                seen[name].append(broker)
            ottla_broker.produce("orders", "one")
            ottla_module_broker.produce("orders", "one")

        def test_two():
            assert [len({id(broker) for broker in brokers}) for brokers in seen.values()] == [2, 1, 1]
        """,
        passed=3,
    )


def test_a_factory_starts_several(run: Runner) -> None:
    run(
        """
        def test_one(ottla_broker_factory):
            one, two = ottla_broker_factory(topics=["a"]), ottla_broker_factory({"group.max.size": 2}, topics=["b"])
            assert (one.topics, two.topics) == ({"a": 1}, {"b": 1})
            assert one.port != two.port
        """,
        passed=1,
    )


def test_workers_have_brokers_of_their_own(run: Runner) -> None:
    run(
        """
        @pytest.mark.parametrize("n", range(6))
        def test_one(ottla_session_broker, ottla_broker, n):
            assert ottla_session_broker.topics in ({}, {"orders": 1})
            ottla_session_broker.produce("orders", "one")
            assert ottla_broker.topics == {}
        """,
        "-n2",
        outside=True,
        passed=6,
    )


def test_any_client_in_any_kind_of_test(run: Runner) -> None:
    run(
        """
        import threading
        from aiokafka import AIOKafkaConsumer
        from confluent_kafka import Consumer as ConfluentConsumer
        from kafka import KafkaConsumer

        pytestmark = [pytest.mark.ottla(topics=["orders"]), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

        @pytest.fixture
        def broker(ottla_broker):
            ottla_broker.produce("orders", ["one", "two"])
            return ottla_broker

        async def test_aiokafka(broker):
            config = broker.client_config("aiokafka")
            async with AIOKafkaConsumer("orders", group_id="g", auto_offset_reset="earliest", **config) as client:
                seen = [await client.getone(), await client.getone()]
                await asyncio.to_thread(assert_stable, broker.group("g"), 1)
            assert_no_loss(broker.records("orders"), seen)

        def test_confluent_in_a_thread(broker):
            seen = []

            def consume():
                config = {"group.id": "g", "auto.offset.reset": "earliest"} | broker.client_config("confluent")
                client = ConfluentConsumer(config)
                client.subscribe(["orders"])
                while len(seen) < 2:
                    seen.extend(client.consume(2, timeout=0.1))
                client.close()

            thread = threading.Thread(target=consume)
            thread.start()
            thread.join()
            assert_no_loss(broker.records("orders"), seen, group=broker.group("g"))

        def test_kafka_python(broker):
            config = broker.client_config("kafka-python")
            client = KafkaConsumer("orders", group_id="g", auto_offset_reset="earliest", **config)
            seen = [next(client), next(client)]
            client.close()
            assert_no_loss(broker.records("orders"), seen)

        class TestOttla:
            async def test_ottla(self, broker):
                with assert_rebalances(broker.group("billing"), 2):  # it comes and it goes
                    async with consumer(broker) as client:
                        seen = [await client.getone(), await client.getone()]
                        assert count_rebalances(broker.group("billing")) == 1
                assert_no_loss(["one", "two"], [record.value for record in seen])
        """,
        outside=True,
        passed=4,
    )


def test_who_uses_no_broker_imports_none() -> None:
    code = "import sys, ottla.testing.plugin; print([name for name in sys.modules if name.startswith('ottla.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "['ottla.testing', 'ottla.testing.evidence', 'ottla.testing.plugin']"


# the marker ottla


def test_markers_are_documented(run: Runner, pytester: pytest.Pytester) -> None:
    shown = pytester.runpytest_inprocess("--markers").stdout.str()
    assert "@pytest.mark.ottla(topics=…, settings=…, …): the arguments of ottla.testing.Broker" in shown
    assert "@pytest.mark.ottla_fault(api, **rule): a fault of ottla_broker" in shown


def test_marks_of_module_class_and_test_add_up(run: Runner) -> None:
    run(
        """
        pytestmark = pytest.mark.ottla(topics={"orders": 3, "refunds": 2}, settings={"num.partitions": 4})

        @pytest.mark.ottla(topics=["refunds", "audit"], settings={"num.partitions": 5, "group.max.size": 2})
        class TestAll:
            @pytest.mark.ottla(settings={"group.max.size": 7}, http=True)
            def test_one(self, ottla_broker):
                assert ottla_broker.topics == {"orders": 3, "refunds": 1, "audit": 1}
                assert ottla_broker.settings.num_partitions == 5
                assert ottla_broker.settings.group_max_size == 7
                assert ottla_broker.http_url

        def test_two(ottla_broker, ottla_module_broker):
            assert ottla_broker.topics == ottla_module_broker.topics == {"orders": 3, "refunds": 2}
            assert ottla_broker.settings.num_partitions == ottla_module_broker.settings.num_partitions == 4
        """,
        passed=2,
    )


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ('ottla(["orders"])', "@pytest.mark.ottla: ['orders'] has no name: write topics=['orders'], for example"),
        (
            "ottla(topcs=[])",
            "there is no argument 'topcs'; it takes acls, data_dir, http, log, port, sasl, settings, super_users, tls, "
            "topics",
        ),
        ('ottla(topics="orders")', "@pytest.mark.ottla: topics='orders': write topics=['orders'], or topics={'orders'"),
        ("ottla(settings=3)", "@pytest.mark.ottla: settings=3: write a dict of Kafka's names"),
        (
            'ottla(settings={"group.max.siez": 3})',
            "@pytest.mark.ottla: unknown setting 'group.max.siez'; did you mean group.max.size?",
        ),
        ('ottla_fault("SyncGrup", drop="response")', "@pytest.mark.ottla_fault: there is no API 'SyncGrup'"),
        ('ottla_fault(drop="response")', "@pytest.mark.ottla_fault: "),
    ],
)
def test_a_wrong_mark_says_what_was_meant(run: Runner, marker: str, said: str) -> None:
    output = run(f"@pytest.mark.{marker}\ndef test_one(ottla_broker): assert ottla_broker", errors=1)
    assert said in output
    assert "Traceback" not in output and "During handling" not in output


@pytest.mark.parametrize("marker", ["ottla(topics=[])", 'ottla_fault("SyncGroup", drop="response")'])
def test_a_mark_without_its_fixture_fails(run: Runner, marker: str) -> None:
    output = run(f"@pytest.mark.{marker}\ndef test_one(): assert True", failed=1)
    assert "is for the fixture ottla_broker, and test_one does not use it: add it to the test's arguments" in output


# the marker ottla_fault


def test_a_fault_is_in_force_for_the_test_and_what_it_uses(run: Runner) -> None:
    run(
        """
        @pytest.fixture
        async def reader(ottla_broker):
            async with consumer(ottla_broker) as client:
                yield client

        @pytest.mark.ottla(topics=["orders"])
        @pytest.mark.ottla_fault("JoinGroup", group="billing", error="COORDINATOR_LOAD_IN_PROGRESS", times=1)
        @pytest.mark.ottla_fault("OffsetCommit", error="NOT_COORDINATOR", times=1)
        async def test_one(ottla_broker, reader):
            ottla_broker.produce("orders", "one")
            await reader.getone()
            await reader.commit()
            assert ottla_broker.group("billing").lag == 0
        """,
        passed=1,
    )


def test_a_fault_that_never_fires_fails_the_test_and_not_its_teardown(run: Runner) -> None:
    output = run(
        """
        @pytest.mark.ottla_fault("SyncGroup", group="billing", drop="response")
        def test_never(ottla_broker):
            ottla_broker.produce("orders", "one")

        @pytest.mark.ottla_fault("SyncGroup", drop="response", allow_unused=True)
        def test_allowed(ottla_broker):
            assert ottla_broker

        def test_without_a_with_block(ottla_broker):
            ottla_broker.fault("Produce", drop="response")
        """,
        failed=2,
        passed=1,
    )
    assert re.search(
        r"^_+ test_never _+\nthe fault 'SyncGroup', .* never fired: no .*\n-+ Ottla -", output, re.MULTILINE
    )
    assert "the fault 'Produce', drop='response' never fired: no Produce request came" in output


def test_a_test_that_fails_is_not_judged_by_its_faults(run: Runner) -> None:
    output = run(
        """
        @pytest.mark.ottla_fault("SyncGroup", drop="response")
        def test_fails(ottla_broker):
            ottla_broker.fault("Produce", drop="response")
            assert ottla_broker.port == 0

        @pytest.mark.ottla_fault("SyncGroup", drop="response")
        def test_skips(ottla_broker):
            pytest.skip("not here")

        @pytest.fixture
        def broken(ottla_broker):
            assert ottla_broker.port == 0

        @pytest.mark.ottla_fault("SyncGroup", drop="response")
        def test_cannot_begin(broken):
            assert broken
        """,
        failed=1,
        skipped=1,
        errors=1,
    )
    assert "Mend the rule" not in output


# the document


@pytest.mark.usefixtures("run")
def test_every_block_of_the_page_runs(pytester: pytest.Pytester) -> None:
    """What `start_my_service` stands for is a consumer in a thread, which polls and commits."""
    blocks = [one.text for one in fences(ROOT / "docs/testing-pytest.md") if one.language == "python"]
    pytester.makepyfile(**{f"test_{number}": f"{block}\n\n{SERVICE}" for number, block in enumerate(blocks)})
    pytester.runpytest_subprocess(*RUNS_AS).assert_outcomes(passed=5)


SERVICE = """
import threading
from confluent_kafka import Consumer

stopped = threading.Event()


@pytest.fixture(autouse=True)
def services(request):
    yield
    stopped.set()
    for thread in threads:
        thread.join()
    threads.clear()
    stopped.clear()


threads = []


def start_my_service(bootstrap_servers):
    seen = []

    def consume():
        client = Consumer({
            "bootstrap.servers": bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "log_level": 0,
        })
        client.subscribe(["orders"])
        while not stopped.is_set():
            message = client.poll(0.05)
            if message is not None and not message.error():
                seen.append(message)
                client.commit(message, asynchronous=False)
        client.close()

    threads.append(threading.Thread(target=consume))
    threads[-1].start()
    return seen
"""
