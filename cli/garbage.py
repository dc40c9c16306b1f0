"""When a broker's process looks for garbage.

Python frees an object as soon as nothing refers to it. Only objects that refer to each other in a circle wait for the
collector, which looks at all objects of a generation and stops everything else meanwhile: 10 ms for 100,000 objects.
Left to itself it looks at *all* that there are whenever their number has grown by a quarter. A broker with 100,000
members stands still for more than a second then, in the middle of their heartbeats, and finds next to nothing: what a
request or a group leaves behind are no circles (`tests/e2e/test_cycles.py` holds the hot paths to that). So:

*During a start* nothing is collected. Whatever is loaded stays, and looking at it again and again, while it grows,
takes longer than loading it.

*From then on* the two young generations are collected as always, but seldom: after `YOUNG` objects more than before,
and after `OLDER` of these times. Requests come and go without any: it is the balance that counts. What survives is in
the old generation, which Python may not collect by itself any more.

*When groups grow* the old generation fills. `settle` looks once a second whether it was added to. If so it has the
young ones collected, and all that survives is frozen: no collection looks at it again. So each object is looked at two
or three times in its life. No pause is longer than it takes to look at `YOUNG` * (`OLDER` + 1) objects, however many
there are: a few milliseconds.

*What that costs.* Frozen objects are freed as all others when nothing refers to them. A circle among them is never
found. It must have been alive when it was frozen or when it was last looked at, which happens only after the process
has grown by so many objects; so what is lost is a small part of what the process has grown by, and nothing grows
because of requests alone.

An embedded broker leaves the collector alone: it belongs to whoever owns the process.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

YOUNG = 25_000
OLDER = 2
NEVER = 1 << 30
SETTLE_SECONDS = 1.0


def hold() -> None:
    """Collect nothing, for a start."""
    gc.disable()


def begin(call_later: Callable[[float, Callable[[], None]], object]) -> None:
    """Collect as the module says, once a broker has started.

    Args:
        call_later: calls a function after so many seconds.
    """

    def look() -> None:
        settle()
        call_later(SETTLE_SECONDS, look)

    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, NEVER)
    gc.enable()
    call_later(SETTLE_SECONDS, look)


def settle() -> None:
    """Freeze what has survived, if there is any."""
    if gc.get_count()[2]:
        gc.collect(1)
        gc.freeze()
