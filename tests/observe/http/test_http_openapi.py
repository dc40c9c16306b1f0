"""The OpenAPI document tells the truth: schemathesis looks for where it does not."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import Broker
from tests.observe.http.conftest import Ask, commit

pytestmark = pytest.mark.e2e

GROUPS = ["billing", "with/slash", "grüße"]
FUZZED = ["--phases=examples,coverage,fuzzing", "--max-examples=10"]
QUICK = ["--phases=examples,coverage"]
KNOWN = {"group": "with/slash", "topic": "orders"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a few groups."""
    with Broker(http=True, topics={"orders": 3}) as running:
        for name in GROUPS:
            commit(running, name)
        yield running


@pytest.mark.parametrize(
    ("names", "how"),
    [
        pytest.param(KNOWN, QUICK, id="quick"),
        pytest.param(None, FUZZED, id="any", marks=pytest.mark.slow),
        pytest.param(KNOWN, FUZZED, id="known", marks=pytest.mark.slow),
    ],
)
def test_schemathesis_finds_nothing(
    broker: Broker, tmp_path: Path, names: dict[str, str] | None, how: list[str]
) -> None:
    """With names that nobody has most of the time, and with some that are there.

    What changes something is tried in test_workbench_http.py.
    """
    config = tmp_path / "schemathesis.toml"
    lines = [f'"path.{name}" = "{value}"' for name, value in (names or {}).items()]
    config.write_text("\n".join(["[parameters]", *lines]), encoding="utf-8")
    command = [sys.executable, "-m", "schemathesis.cli", f"--config-file={config}", "run"]
    command += [f"{broker.http_url}/v1/openapi.json", "--checks=all", "--seed=1"]
    command += [*how, "--generation-database=none", "--exclude-path-regex=^/v1/workbench/"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    tried = re.search(r"(\d+) generated, .* passed", done.stdout)
    assert tried is not None and int(tried[1]) > 150, done.stdout[-2000:]


TOKEN = "open-for-somebody"


@pytest.mark.slow
def test_schemathesis_finds_nothing_behind_a_token(tmp_path: Path) -> None:
    """Among others it leaves the token out, and sends wrong ones."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with Broker({"ottla.http.token.file": str(token)}, http=True, topics={"orders": 1}) as broker:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{broker.http_url}/v1/openapi.json"]
        command += ["--checks=all", "--phases=coverage", "--seed=1", f"--header=Authorization: Bearer {TOKEN}"]
        command += ["--generation-database=none", "--include-path=/v1/cluster"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


def test_the_document_has_every_endpoint_with_what_it_answers(get: Ask) -> None:
    document = get("/v1/openapi.json").json
    paths = document["paths"]
    assert {"/v1/cluster", "/v1/topics/{topic}", "/v1/groups/{group}/events", "/healthz"} <= set(paths)
    answer = paths["/v1/groups/{group}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/GroupState"}
    assert "members" in document["components"]["schemas"]["GroupState"]["required"]
