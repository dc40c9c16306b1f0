"""Who types what Kafka's tools take is told the right command."""

from __future__ import annotations

import shlex

import pytest
from click.testing import CliRunner

from ottla.cli.main import command


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("groups --list", "groups list"),
        ("groups --describe --group billing", "groups describe billing"),
        ("groups --group=billing --describe --members", "groups describe billing --members"),
        (
            "groups --bootstrap-server h:9092 --describe --all-groups",
            "groups describe --bootstrap-server h:9092 --all-groups",
        ),
        ("groups --bootstrap-server list --list", "groups list --bootstrap-server list"),
        ("groups -b h:1 list", "groups list -b h:1"),
        ("groups --bootstrap-server h:9092", "groups list --bootstrap-server h:9092"),
        ("groups --group 'a b'", "groups describe 'a b'"),
        ("groups --describe --group", "groups describe GROUP"),
        (
            "groups --reset-offsets --group g --topic t --to-earliest --execute",
            "groups reset-offsets g --topic t --to-earliest --execute",
        ),
        ("topics --create --topic orders --partitions 3", "topics create orders --partitions 3"),
        ("topics --alter --topic orders --partitions 6", "topics grow orders --partitions 6"),
    ],
)
def test_the_right_command_is_named(typed: str, right: str) -> None:
    arguments = shlex.split(typed)
    done = CliRunner().invoke(command, arguments, prog_name="ottla")
    assert done.exit_code == 2
    said = f"Error: A command comes first, not {arguments[1].partition('=')[0]}; try: ottla {right}"
    assert done.output.splitlines()[-1] == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("-b h:9092 why g", "Options go after the command; try: ottla why g -b h:9092"),
        ("--bootstrap-server=h:9092 groups list", "try: ottla groups list --bootstrap-server=h:9092"),
        ("-b h:9092", "No such option"),
        (
            "topics alter orders",
            "There is no `ottla topics alter`: `ottla topics grow` adds partitions, `ottla configs",
        ),
        ("group list", "There is no command 'group'; did you mean `ottla groups`?"),
        ("wy", "There is no command 'wy'; did you mean `ottla why`?"),
        ("topics lst", "There is no command 'lst'; did you mean `ottla topics list`?"),
        ("pipeline glod", "There is no command 'glod'; did you mean `ottla pipeline gold`?"),
        ("lake compct", "There is no command 'compct'; did you mean `ottla lake compact`?"),
        ("log xyzzy", "There is no command 'xyzzy'; `ottla log --help` lists those that exist."),
        ("why g --last x", "Invalid value for '--last': 'x': write a whole number from 1 up."),
        ("groups wait g --lag 1.5", "Invalid value for '--lag': '1.5': write a whole number from 0 up."),
        ("pipeline query lag --limit x", "'x': write a whole number from 1 to 999999."),
        ("groups reset-offsets g --shift-by x", "Invalid value for '--shift-by': 'x': write a whole number."),
        ("xy\x1bzzy", r"There is no command 'xy\x1bzzy'; `ottla --help` lists those that exist."),
    ],
)
def test_a_slip_is_told_the_right_words(typed: str, said: str) -> None:
    done = CliRunner().invoke(command, shlex.split(typed), prog_name="ottla")
    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.parametrize("arguments", [["groups", "--help"], ["groups", "-h"], ["topics", "--help"]])
def test_help_is_help(arguments: list[str]) -> None:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0
    assert "Commands:" in done.output


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("consume orders --timeout-ms 500", "There is no --timeout-ms: say --timeout, with a unit: --timeout 500ms."),
        ("log dump x --max-records 5", "There is no --max-records: say --max-messages."),
        ("log tail . --interval-ms 5", "There is no --interval-ms: say --interval, with a unit: --interval 200ms."),
        ("doctor --seconds 1", "There is no --seconds: say --disk-time, with a unit: --disk-time 1s."),
        ("lake orders --to x", "Topics are named by option here: ottla lake --topic orders --to DIR."),
        ("groups list --json", "There is no --json: say --format json."),
        ("pipeline query --format-output json", "There is no --format-output: say --format."),
        ("topics create a --json", "No such option '--json'"),  # it has no --format
        ("consume orders --timeout 30", "'30' has no unit: write 30ms, 30s or 30m"),
        ("transactions list --duration-filter 600000", "'600000' has no unit"),
        ("consume orders --timeout 9" + "9" * 400 + "s", "is too long: at most 5200w"),
        ("doctor --disk-time 0s", "'--disk-time': '0s' is not within 10ms to 60s."),
        ("doctor --disk-time 2m", "'--disk-time': '2m' is not within 10ms to 60s."),
        ("log tail . --interval 0", "'--interval': '0' is not within 1ms to 5200w."),
        ("groups watch a --interval 99ms", "'--interval': '99ms' is not within 100ms to 5200w."),
    ],
)
def test_an_option_by_another_name_is_told_its_name(typed: str, said: str) -> None:
    done = CliRunner().invoke(command, shlex.split(typed), prog_name="ottla")
    assert done.exit_code == 2
    assert said in done.output.replace("No such option: --json", "No such option '--json'")
