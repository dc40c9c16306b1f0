"""The lines of a log, and its level, which may be changed while it is written."""

from __future__ import annotations

import io
import json
import re

from ottla.broker.logger import Silent
from ottla.observe.logs import logger


def test_lines_below_the_level_are_left_out() -> None:
    out = io.StringIO()
    log = logger("json", level="warning", stream=out)
    log.info("one")
    log.warning("two")
    log.level = "debug"
    assert log.level == "debug"
    log.debug("three")
    log.level = "error"
    log.warning("four")
    text = out.getvalue()
    assert ["one" in text, "two" in text, "three" in text, "four" in text] == [False, True, True, False]


def test_silence_has_a_level_too() -> None:
    log = Silent()
    log.level = "debug"
    log.info("nothing")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(out: io.StringIO) -> str:
    """Three lines of a log, without their times."""
    log = logger(stream=out, level="debug")
    log.info("Ready", listen="127.0.0.1:9092", node_id=1, why="as asked")
    log.debug("Member m joined group g", kind="member_joined", group="g")
    log.warning("Storage failed", reason="it is full\n1. free some\n2. start again")
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", out.getvalue())


def test_lines_for_people() -> None:
    assert told(io.StringIO()) == (
        "TIME [info     ] Ready                          listen=127.0.0.1:9092 node_id=1 why='as asked'\n"
        "TIME [debug    ] Member m joined group g\n"
        "TIME [warning  ] Storage failed                 reason='it is full'\n    1. free some\n    2. start again\n"
    )


def test_a_terminal_gets_colours_and_the_same_words() -> None:
    text = told(Screen())
    assert text.startswith("\33[2mTIME\33[0m [\33[32m\33[1minfo     \33[0m] \33[1mReady")
    assert "\33[36mnode_id\33[0m=\33[35m1\33[0m" in text
    plain = [line.rstrip() for line in re.sub("\33\\[[0-9;]*m", "", text).splitlines()]
    assert plain == told(io.StringIO()).splitlines()


def test_lines_for_programs() -> None:
    out = io.StringIO()
    log = logger("json", stream=out)
    try:
        raise KeyError("here")
    except KeyError as error:
        log.error("It failed", of=error, exc_info=True)
    entry = json.loads(out.getvalue())
    assert list(entry) == ["of", "event", "level", "timestamp", "exception"]
    assert entry["of"] == "'here'" and entry["level"] == "error"
    assert entry["exception"].startswith("Traceback") and entry["exception"].endswith("KeyError: 'here'")
