"""The process of a `ProcessMember`: one member, told about line by line on standard output.

It reads ``start``, ``commit`` and ``stop`` from standard input, and stops when that ends.
"""

import json
import sys
import threading
from collections.abc import Iterable
from typing import Any

from tests.support.members import Role, Seen, member

_writing = threading.Lock()


def tell(what: str, **fields: Any) -> None:
    with _writing:
        print(json.dumps({"what": what, **fields}), flush=True)


def main(text: str) -> None:
    fields = json.loads(text)
    one = member(Role(**{**fields, "topics": tuple(fields["topics"])}))

    # The member notes everything itself; what it notes is passed on as well.
    note_change, note_trouble = one.changed, one.trouble

    def changed(kind: str, places: Iterable[tuple[str, int]]) -> None:
        moved = sorted(places)
        note_change(kind, moved)
        tell("changed", kind=kind, places=moved)

    def trouble(what: object) -> None:
        note_trouble(what)
        tell("trouble", text=one.troubles[-1])

    def saw(topic: str, partition: int, offset: int, value: bytes | None) -> None:
        type(one).saw(one, topic, partition, offset, value)
        seen: Seen = one.seen[-1]
        tell("saw", seen=list(seen))

    one.changed, one.trouble, one.saw = changed, trouble, saw  # type: ignore[method-assign]
    tell("ready")
    for word in map(str.strip, sys.stdin):
        if word == "start":
            one.start()
        elif word == "commit":
            one.commit()
            tell("committed")
        elif word == "stop":
            break
    one.stop()


if __name__ == "__main__":
    main(sys.argv[1])
