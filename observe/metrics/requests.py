"""Requests by API and error, and how long they took: measured only while somebody can ask.

Without an HTTP port nothing of this is there; see `ottla.observe.metrics.dispatcher`. With it a request costs about a
microsecond more, a heartbeat far less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from inspect import iscoroutine, isgenerator
from typing import Any

from ottla.broker.context import RequestContext
from ottla.observe.metrics.histogram import Durations
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import ArrayOf
from ottla.protocol.steps import Steps

Handle = Callable[[Any, RequestContext, Any], Any]


_NAMES = {code.value: code.name for code in ErrorCode}


class Served:
    """Counts and times of one API.

    Scrapes read this from another thread: no count may ever go down, or be made of several that change.

    Attributes:
        succeeded: how many requests were answered without an error.
        failed: how many requests were answered with each error, by code.
        repeated: by code, and without errors as well, those that repeat: counted where they are served.
    """

    __slots__ = ("api", "durations", "failed", "repeated", "succeeded")

    def __init__(self, api: str) -> None:
        self.api = api
        self.durations = Durations()
        self.failed: dict[int, int] = {}
        self.repeated: dict[int, list[int]] = {}
        self.succeeded = 0

    def answered(self, nanoseconds: int, code: int) -> None:
        """A request was answered."""
        self.durations.add(nanoseconds)
        if code:
            self.fail(code)
        else:
            self.succeeded += 1

    def fail(self, code: int) -> None:
        """A request was answered with an error."""
        self.failed[code] = self.failed.get(code, 0) + 1

    def by_error(self) -> dict[str, int]:
        """Number of requests by the error of their answers, ``NONE`` among them."""
        named = {"NONE": self.succeeded}
        failures = list(self.failed.items())
        failures += [(code, cell[0]) for code, cell in list(self.repeated.items())]
        for code, failed in failures:
            name = _NAMES.get(code, "OTHER")
            named[name] = named.get(name, 0) + failed
        return named


class Requests:
    """All APIs; what `ottla.observe.metrics.dispatcher` counts with.

    Args:
        nanoseconds: a clock.
    """

    def __init__(self, nanoseconds: Callable[[], int]) -> None:
        self.nanoseconds = nanoseconds
        self._served: dict[str, Served] = {}

    def served(self) -> Iterator[Served]:
        """Counts and times, by API."""
        for api in sorted(self._served):
            yield self._served[api]

    def wrap(self, api: str, handle: Handle, response: type) -> Handle:
        """A handler that does the same and is measured."""
        served = self._of(api)
        nanoseconds, first_error = self.nanoseconds, error_finder(response)

        def measured(request: Any, ctx: RequestContext, services: Any) -> Any:
            timed = _Timed(served, first_error, nanoseconds)
            timed.encode = ctx.watch(timed)
            answer = handle(request, ctx, services)
            if answer is None:
                if api == "Produce" and request.acks == 0:
                    timed.end(0)  # it is never answered
            elif not iscoroutine(answer) and not isgenerator(answer):
                timed.end(first_error(answer))
            return answer

        return measured

    def begun(self, api: str, response: type, began_ns: int) -> _Timed:
        """A request that is being timed; its answer is encoded by what is set as its ``encode``."""
        timed = _Timed(self._of(api), error_finder(response), self.nanoseconds)
        timed.began_ns = began_ns
        return timed

    def cell(self, api: str, code: int) -> list[int]:
        """A list of one number: how many requests that repeat were answered with this error."""
        return self._of(api).repeated.setdefault(code, [0])

    def took(self, api: str, nanoseconds: int, times: int) -> None:
        """So many requests that repeat took so long each."""
        self._of(api).durations.add(nanoseconds, times)

    def bug(self, api: str) -> None:
        """A handler failed: whoever asked hears UNKNOWN_SERVER_ERROR, or nothing."""
        self._of(api).fail(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _of(self, api: str) -> Served:
        served = self._served.get(api)
        if served is None:
            served = self._served[api] = Served(api)
        return served


class _Timed:
    """One request; it is over when its answer is encoded for the first time."""

    __slots__ = ("began_ns", "encode", "first_error", "is_over", "nanoseconds", "served")

    def __init__(self, served: Served, first_error: Callable[[Any], int], nanoseconds: Callable[[], int]) -> None:
        self.served = served
        self.first_error = first_error
        self.nanoseconds = nanoseconds
        self.encode: Callable[[Any, int], Any]
        self.is_over = False
        self.began_ns = nanoseconds()

    def __call__(self, response: Any, correlation_id: int) -> Any:
        if not self.is_over:
            self.end(self.first_error(response))
        return self.encode(response, correlation_id)

    def in_steps(self, response: Any, correlation_id: int) -> Steps[Any]:
        """The same, with turns for others."""
        if not self.is_over:
            self.end(self.first_error(response))
        if (in_steps := getattr(self.encode, "in_steps", None)) is None:
            return self.encode(response, correlation_id)
        return (yield from in_steps(response, correlation_id))

    def end(self, code: int) -> None:
        if not self.is_over:
            self.is_over = True
            self.served.answered(self.nanoseconds() - self.began_ns, code)


@cache
def error_finder(response: type) -> Callable[[Any], int]:
    """Make a function that finds the first error code of an answer, at the top or in its lists; 0 if there is none."""
    at_top, arrays = False, []
    for field in getattr(response, "__wire__", ()):
        if field.name == "error_code":
            at_top = True
        elif isinstance(field.type, ArrayOf) and hasattr(field.type.item, "__wire__"):
            finder = error_finder(field.type.item)
            if finder is not _no_error:
                arrays.append((field.name, finder))
    if not arrays:
        return _error_at_top if at_top else _no_error

    def first_error(answer: Any) -> int:
        if at_top and answer.error_code:
            return int(answer.error_code)
        for name, finder in arrays:
            for item in getattr(answer, name) or ():
                if code := finder(item):
                    return code
        return 0

    return first_error


def _error_at_top(answer: Any) -> int:
    return int(answer.error_code)


def _no_error(answer: Any) -> int:
    return 0
