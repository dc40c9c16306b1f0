"""The cause of a rebalance is read back from the words that it was logged in."""

from __future__ import annotations

import pytest

from ottla.broker.core.events.reasons import Began, Reason

FACTS = {
    "member": "c-1, c-2",
    "said": "need to re-join; client reason: (it said {so})\nand more",
    "instance": "i 1",
    "state": "Stable",
    "error": "NOT_COORDINATOR",
    "generation": "7",
    "group": "g is large",
    "members": "3",
    "most": "2",
}


@pytest.mark.parametrize("began", Began)
def test_words_are_read_back(began: Began) -> None:
    reason = Reason(began, **{name: fact for name, fact in FACTS.items() if f"{{{name}}}" in began.value})
    assert Reason.read(str(reason)) == reason


def test_other_words_are_no_reason() -> None:
    assert Reason.read("the cat walked over the keyboard") is None
