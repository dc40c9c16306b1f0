"""The words of Kafka's tools, and other slips, are answered with the right command."""

from __future__ import annotations

import shlex

import pytest

from tests.cli.commands import HERE

UNNAMED = "Name the transaction: --start-offset, or --producer-id with --producer-epoch."


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
    said = f"Error: A command comes first, not {arguments[1].partition('=')[0]}; try: ottla {right}"
    assert HERE.run(*arguments, expect=2).output.splitlines()[-1] == said


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
        # Options by another name, and values without their unit.
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
        # Unclear resets.
        ("groups reset-offsets billing --to-latest", "Say which topics"),
        ("groups reset-offsets billing --topic orders --all-topics --to-latest", "Say which topics"),
        ("groups reset-offsets billing --topic orders", "exactly one of"),
        ("groups reset-offsets billing --topic orders --to-latest --to-offset 0", "exactly one of"),
        ("groups reset-offsets billing --topic orders --to-latest --dry-run --execute", "exclude each other"),
        ("groups reset-offsets billing --topic orders --by-duration soon", "is no duration"),
        ("groups reset-offsets billing --topic orders --to-datetime soon", "is no date"),
        ("groups reset-offsets billing --topic orders:x --to-latest", "TOPIC:PARTITION"),
        # Waiting and watching.
        ("groups wait a --timeout soon", "is no duration: write e.g. 30s"),
        ("groups wait a --state Sleepy", "is not one of"),
        ("groups wait a --members -1", "is not in the range"),
        ("groups wait a b", "unexpected extra argument"),
        ("groups wait", "Name a group"),
        ("groups watch --interval x", "is no duration"),
        # Records.
        ("produce", "Name a topic"),
        ("produce orders -k a -K :", "choose one"),
        ("produce orders -H novalue", "NAME=VALUE"),
        (r"produce orders -K '\q'", "is no escape"),
        ("produce orders -D ''", "must not be empty"),
        ("produce orders /no/such/file", "/no/such/file: no such file."),
        ("consume", "Name a topic"),
        ("consume orders -o x", "earliest, latest"),
        ("consume orders -f %y", "%y in '%y' means nothing"),
        ("consume orders --from-beginning -o 0", "choose one"),
        ("consume orders -G billing -o 0", "ottla groups reset-offsets billing"),
        ("consume orders:0 -G billing", "shares out all partitions"),
        ("consume a b -p 0", "exactly one topic"),
        # Settings.
        ("configs alter orders", "Say what to change: --add-config KEY=VALUE, or --delete-config KEY."),
        ("configs alter --add-config a=1", "Name a topic"),
        ("configs alter orders --add-config a", "write KEY=VALUE"),
        ("configs alter orders --add-config a=1 --delete-config a", "a is both set and deleted: choose one."),
        ("configs describe", "Name a topic: as an argument, or with --entity-name."),
        # Topics.
        ("topics create", "Name a topic"),
        ("topics delete", "Name a topic"),
        ("topics grow --partitions 2", "Name a topic"),
        ("topics grow orders", "Missing option '--partitions'"),
        ("topics create a --config nonsense", "KEY=VALUE"),
        # Transactions.
        ("transactions describe-producers --partition 0", "Name a topic"),
        ("transactions find-hanging --partition 1", "Name a topic"),
        ("transactions abort --topic orders --partition 1", UNNAMED),
        ("transactions abort --topic orders --partition 1 --producer-id 1", UNNAMED),
        (
            "transactions abort --topic orders --partition 1 --start-offset 1 --producer-id 1 --producer-epoch 0",
            UNNAMED,
        ),
    ],
)
def test_a_slip_is_told_the_right_words(typed: str, said: str) -> None:
    output = HERE.run(*shlex.split(typed), expect=2).output
    assert said in output.replace("No such option: --json", "No such option '--json'")


@pytest.mark.parametrize("arguments", [["groups", "--help"], ["groups", "-h"], ["topics", "--help"]])
def test_help_is_help(arguments: list[str]) -> None:
    assert "Commands:" in HERE.run(*arguments).output
