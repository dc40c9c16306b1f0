"""`ottla serve` ends with exit code 2 and one clear line for options that cannot be used."""

from __future__ import annotations

from pathlib import Path

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
        (["--set", "listeners=PLAINTEXT://:9092,CONTROLLER://:9093"], "allowed is one PLAINTEXT://host:port"),
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
