"""Every command that is given a mistyped group or topic names the one that was meant."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.common import missing, near

GROUPS = (
    "groups describe biling",
    "groups delete biling",
    "groups delete-offsets biling --topic orders",
    "groups evict biling member-1",
    "groups reset-offsets biling --topic orders --to-latest --execute",
    "groups wait biling --timeout 0",
    "why biling",
    "timeline biling",
)
TOPICS = (
    "topics describe order",
    "topics delete order",
    "topics grow order --partitions 9",
    "groups reset-offsets billing --topic order --to-latest",
    "consume order",
    "configs describe order",
    "configs alter order --delete-config retention.ms",
    "transactions describe-producers order --partition 0",
    "transactions find-hanging order",
    "transactions abort order --partition 0 --start-offset 1",
)


def test_the_right_name_is_told(ottla: Any) -> None:
    ottla.make_group("billing")
    for typed in GROUPS:
        said = ottla.run(*typed.split(), expect=1).stderr
        assert "There is no group 'biling'" in said and "Did you mean 'billing'?" in said, typed
    for typed in TOPICS:
        said = ottla.run(*typed.split(), expect=1).stderr
        assert said == "Error: There is no topic 'order'.\n  Did you mean 'orders'?\n", typed
    assert "did you mean 'billing'?" in ottla.run("offsets", "decode", "-G", "biling").stderr


def test_a_name_that_is_shown_with_escapes_is_spelled_for_the_shell(ottla: Any) -> None:
    ottla.make_group("red\x1b[31m")
    assert "To name it in bash or zsh, write $'red\\u001b[31m'" in ottla.run("groups", "list").stderr
    said = ottla.run("groups", "describe", "red\\x1b[31m", expect=1).stderr
    assert said.endswith("In bash and zsh it is written $'red\\u001b[31m'\n")


@pytest.mark.parametrize(
    ("name", "meant"), [("biling", "billing"), ("BILL", "billing"), ("us", "eu-us-1"), ("x", ""), ("billing", "bling")]
)
def test_what_was_meant(name: str, meant: str) -> None:
    assert near(name, ["billing", "eu-us-1", "bling"]) == meant


def test_without_a_likely_name_it_says_where_to_look() -> None:
    assert missing("topic", "it's", ["a"]).lines[1:] == (
        "`ottla topics list` shows those that exist.",
        "`ottla topics create 'it'\"'\"'s'` makes it.",
    )


def test_a_topic_that_the_broker_makes_is_told(ottla: Any) -> None:
    said = ottla.send("order", b"a\n").stderr
    assert "There is no topic 'order' yet: the broker makes it. Did you mean 'orders'?" in said
    assert "There is no topic" not in ottla.send("order", b"b\n").stderr
