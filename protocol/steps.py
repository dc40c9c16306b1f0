"""Long work in steps, so that whoever runs it decides who has a turn in between, and where the heavy part is done.

The generator yields None so that others have their turn; a function to have it called, perhaps in another thread, and
to go on with what it returns or raises; and ``NEXT_IN_LINE``, holding little, to go on when all others who wait to do
such work have had their turn.
"""

from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, Final, TypeVar

_T = TypeVar("_T")


class Line(Enum):
    """Those who wait to do long work."""

    NEXT = "the next one"


NEXT_IN_LINE: Final = Line.NEXT

Step = Callable[[], Any] | Line | None
Steps = Generator[Step, Any, _T]


def finished(steps: Steps[_T]) -> _T:
    """Take all the steps here and now, and return what comes of them."""
    try:
        step = next(steps)
        while True:
            if callable(step):
                try:
                    result = step()
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
            else:
                step = next(steps)
    except StopIteration as stop:
        outcome: _T = stop.value
        return outcome
