"""The level of a log, which may be changed while it is written."""

from __future__ import annotations

import io

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
