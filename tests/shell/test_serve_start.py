"""A start pays for what a first answer needs. Its speed is measured in bench/startup.py; what it loads is held here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.protocol.apis import ApiKey
from tests.support.client import Client

SERVE = """
import atexit, sys
from ottla.cli.main import main
from ottla.observe.logs import Logger
from ottla.protocol.schema import _Unfinished

Logger.prepare = lambda self: None  # what log lines are written with comes after the first answers

def tell():
    modules = [one for name, one in sys.modules.items() if name.startswith("ottla.protocol.")]
    classes = {one for module in modules for one in vars(module).values() if hasattr(one, "__wire__")}
    finished = [one.__name__ for one in classes if not isinstance(vars(one)["__init__"], _Unfinished)]
    print(*sys.modules, file=sys.stderr)
    print(*finished, len(classes), file=sys.stderr)

atexit.register(tell)
main()
"""
HEAVY = {
    "argparse", "construct", "crc32c", "difflib", "email", "encodings.idna", "importlib.metadata", "numpy",
    "prometheus_client", "pyarrow", "pygments", "pyspark", "re2", "rich", "starlette", "structlog", "tempfile",
    "uvicorn",
}  # fmt: skip
"""Libraries that a broker needs later, seldom or never."""
OF_THE_CORE = {
    "add_offsets_to_txn", "add_partitions_to_txn", "consumer_group_describe", "consumer_group_heartbeat",
    "delete_groups", "describe_groups", "describe_transactions", "end_txn", "fetch", "heartbeat", "init_producer_id",
    "join_group", "leave_group", "list_groups", "list_transactions", "offset_commit", "offset_delete", "offset_fetch",
    "sync_group", "txn_offset_commit",
}  # fmt: skip
"""Messages that the coordinators make themselves. Their modules are there; the classes are not finished."""


class Loaded:
    """What a broker had loaded when it had given its first answers and was stopped."""

    def __init__(self, log: str) -> None:
        modules, finished = log.splitlines()[-2:]
        self.modules = set(modules.split())
        *self.finished, self.declared = finished.split()

    def under(self, package: str) -> set[str]:
        return {name.removeprefix(f"{package}.") for name in self.modules if name.startswith(f"{package}.")}


@pytest.fixture(scope="module", params=["--ephemeral", "--data-dir"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    folder: Path = tmp_path_factory.mktemp("data")
    where = [request.param, *([str(folder)] if request.param == "--data-dir" else [])]
    command = [sys.executable, "-c", SERVE, "serve", "--listen", "127.0.0.1:0", *where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with Client(int(process.stdout.readline().rpartition(":")[2])) as client:
            assert len(client.call(ApiKey.API_VERSIONS, 0).api_keys) > 40
        process.terminate()
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    yield Loaded(log)


def test_no_library_is_loaded_before_it_is_needed(loaded: Loaded) -> None:
    assert "msgspec" in loaded.modules
    assert not loaded.modules & HEAVY


def test_apis_that_nobody_asked_for_are_not_loaded(loaded: Loaded) -> None:
    assert loaded.under("ottla.broker.handlers") == {"api_versions", "services"}
    assert loaded.under("ottla.protocol.messages") <= {"api_versions"} | OF_THE_CORE


def test_only_classes_that_were_made_an_object_of_are_finished(loaded: Loaded) -> None:
    assert int(loaded.declared) > 50
    assert set(loaded.finished) == {"ApiVersion", "ApiVersionsResponse"}


def test_log_lines_are_written_without_what_would_draw_tracebacks() -> None:
    program = "import sys; from ottla.observe.logs import logger; logger().info('Hello'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "Hello" in done.stderr
    assert "structlog" in done.stdout.split()
    assert not {"rich", "pygments"} & set(done.stdout.split())
