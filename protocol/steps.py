"""Long work in steps, so that whoever runs it decides who has a turn in between, and where the heavy part is done.

The generator yields None so that others have their turn; a function to have it called, perhaps in another thread, and
to go on with what it returns or raises; a `Later` to go on when that has come; and ``NEXT_IN_LINE``, holding little, to
go on when all others who wait to do such work have had their turn.
"""

from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, Final, TypeVar

_T = TypeVar("_T")


class Line(Enum):
    """Those who wait to do long work."""

    NEXT = "the next one"


NEXT_IN_LINE: Final = Line.NEXT


class Later:
    """Something that comes by itself.

    Attributes:
        then: takes a function, which is called once when it has come: never within this call.
    """

    def __init__(self, then: Callable[[Callable[[], None]], object]) -> None:
        self.then = then


Step = Callable[[], Any] | Later | Line | None
Steps = Generator[Step, Any, _T]


def finished(steps: Steps[_T]) -> _T:
    """Take all the steps here and now, and return what comes of them.

    Raises:
        RuntimeError: a step is a `Later`.
    """
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
            elif isinstance(step, Later):
                raise RuntimeError("nothing comes while this waits for it")
            else:
                step = next(steps)
    except StopIteration as stop:
        outcome: _T = stop.value
        return outcome
