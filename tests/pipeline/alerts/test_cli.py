"""`ottla pipeline alerts`, as far as it goes without Spark."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.pipeline import command
from ottla.testing import Broker


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-b", "BROKER", "--storm-gap", "0"], "--storm-gap"),
        (["-b", "BROKER", "--storm-gap", "soon"], "'soon' is no duration"),
        (["-b", "BROKER", "--storm-generations", "1"], "x>=2"),
        (["-b", "BROKER", "--stopped-intervals", "0"], "x>=1"),
        (["-b", "BROKER", "--only", "lag"], "'lag' is not one of 'storm', 'stopped'"),
        (["-b", "BROKER", "--to", "/no/such/folder/alerts"], "there is no folder /no/such/folder"),
        (["-b", "BROKER", "--to", "topic:"], "the name of a topic"),
        ([], "--bootstrap-server HOST:PORT"),
    ],
)
def test_what_cannot_be_is_refused_as_usage(words: list[str], said: str) -> None:
    with Broker() as broker:
        given = [broker.bootstrap_servers if word == "BROKER" else word for word in words]
        done = CliRunner().invoke(command, ["alerts", *given], env={"OTTLA_BOOTSTRAP_SERVERS": ""})
    assert (done.exit_code, said in done.output) == (2, True), done.output


def test_a_topic_needs_a_broker(tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-0").mkdir()
    done = CliRunner().invoke(command, ["alerts", "--log-dir", str(tmp_path), "--to", "topic:alerts"])
    assert done.exit_code == 2
    assert "a topic needs a broker" in done.output
