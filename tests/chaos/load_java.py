"""Load from the Java clients: this process becomes the program `ottla.interop.Chaos`."""

from __future__ import annotations

import os
from typing import NoReturn

from tests.chaos.load import MIXED, PARTITIONS, SESSION_MS, STEADY, STEADY_SESSION_MS, Role, role_of, steady
from tests.interop.java.suite import QUIET, SUITE, class_path
from tests.interop.jvm import JAVA
from tests.interop.run import place_of
from tests.interop.suite import NotAvailable


def missing() -> str:
    """Why there are no Java clients here, or ""; what is needed is made ready."""
    try:
        if not (reason := SUITE.missing()):
            SUITE.prepare(place_of("java"))
        return reason
    except NotAvailable as error:
        return str(error)


def become(role: Role, **given: object) -> NoReturn:
    """Become the program. It is given what is not false."""
    words = [f"{name}={value}" for name, value in given.items() if value is not False]
    program = [*JAVA, QUIET, "-cp", class_path(place_of("java").cache), "ottla.interop.Chaos"]
    os.execvp(program[0], [*program, f"name={role.name}", f"bootstrap={role.bootstrap}", *words])


if __name__ == "__main__":
    mine = role_of()
    members = [(MIXED, "classic", SESSION_MS, mine.topics)]
    members += [(group, protocol, STEADY_SESSION_MS, steady(mine.topics)) for group, protocol in STEADY.items()]
    words = (f"{group}:{protocol}:{session_ms}:{','.join(topics)}" for group, protocol, session_ms, topics in members)
    become(mine, pause_ms=int(mine.pause_s * 1000), partitions=PARTITIONS, members=";".join(words))
