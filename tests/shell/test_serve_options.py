"""`ottla serve` ends with exit code 2 and one clear line for options that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.serve import command


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "localhost"], "write HOST:PORT"),
        (["--listen", "localhost:99999"], "0 to 65535"),
        (["--advertise", ":9092"], "clients need a host"),
        (["--set", "num.partitions"], "write KEY=VALUE"),
        (["--set", "num.partitions=0"], "num.partitions=0: allowed are 1 to 2147483647"),
        (["--set", "listeners=SSL://:9093"], "PLAINTEXT://host:port"),
        (["--set", "listeners=PLAINTEXT://:9092,SSL://:9093"], "allowed is one PLAINTEXT://host:port"),
        (["--set", "listeners=CONTROLLER://:9093"], "allowed is one PLAINTEXT://host:port"),
        (["--set", "group.max.siz=3"], "there is no such setting; did you mean group.max.size?"),
        (["--set", "log.dirs=/a,/b"], "allowed is one directory"),
        (["--ready-file", "/no/such/place/file"], "there is no directory"),
        (["--create-topic", "t:0"], "at least one partition"),
        (["--ephemeral", "--data-dir", "somewhere"], "leave out --data-dir"),
        (["--config", "/nonexistent.properties"], "does not exist"),
    ],
)
def test_a_bad_option_says_what_is_allowed(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_a_bad_line_of_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("group.max.size=none\n")
    result = CliRunner().invoke(command, ["--config", str(file)])
    assert result.exit_code == 2
    assert "group.max.size='none'" in result.output


def warnings_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> list[dict[str, Any]]:
    """What is warned of for a properties file that a broker starts with."""

    def run(main: Coroutine[Any, Any, int]) -> int:
        main.close()
        return 0

    monkeypatch.setattr("ottla.cli.serve._run", run)
    file = tmp_path / "server.properties"
    file.write_text(text)
    result = CliRunner().invoke(command, ["--ephemeral", "--log-format", "json", "--config", str(file)])
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    return [line for line in lines if line["level"] == "warning"]


def test_the_listeners_of_controllers_are_told_to_be_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
    )
    said = warnings_of(monkeypatch, tmp_path, text)
    assert [(line["key"], line["listener"]) for line in said] == [
        ("listeners", "CONTROLLER://:9093"),
        ("advertised.listeners", "CONTROLLER://localhost:9093"),
    ]
    assert all("left out" in line["event"] for line in said)


def test_security_settings_are_told_to_protect_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = warnings_of(monkeypatch, tmp_path, "authorizer.class.name=a.b.C\nssl.keystore.location=/keys\nso.so=1\n")
    assert [line["key"] for line in said] == ["authorizer.class.name", "ssl.keystore.location", "so.so"]
    assert ["nothing is protected" in line["event"] for line in said] == [True, True, False]


def test_only_close_spellings_are_suggested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = "num.network.threads=3\nmax.connections.per.ip=9\nlog.retention.hour=1\n"
    said = warnings_of(monkeypatch, tmp_path, text)
    assert [line.get("did_you_mean") for line in said] == [None, None, "log.retention.hours"]
