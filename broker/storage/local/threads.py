"""Executors of operations, and the lanes to them: in a thread of its own, or on the event loop for simulations."""

import queue
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.broker.engine import EngineError, Unavailable, Unknown
from ottla.broker.storage.local.files import SyncFailed
from ottla.broker.storage.local.operations import Close, Operation

Report = Callable[[Sequence[Operation], EngineError | None], None]
"""Told of operations that are over and, once, of the error that ended everything."""


class Executor(ABC):
    """Executes operations in their order. Whoever calls ``run`` and ``idle`` is the one thread that does."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.failure: EngineError | None = None

    def run(self, operations: Sequence[Operation]) -> None:
        """Execute operations and report them."""
        fatal: EngineError | None = None
        if self.failure is None:
            try:
                self.execute(operations)
            except SyncFailed as error:
                fatal = self.give_up(operations, str(error))
            except Exception as error:
                fatal = self.give_up(operations, f"unexpected: {error!r}")
                fatal.__cause__ = error
        else:
            self._refuse(operations, self.failure)
        self.report(operations, fatal)

    def idle(self) -> float | None:
        """Do what is due by itself; return how many seconds the next has to wait, None if there is nothing."""
        return None

    def fail(self, error: EngineError) -> None:
        """Do nothing any more: something else has found that nothing can be made durable."""
        self.failure = error

    def give_up(self, operations: Sequence[Operation], reason: str) -> EngineError:
        """Acknowledge nothing that is not certain, and nothing ever after."""
        error = Unknown(reason)
        self.failure = Unavailable(f"storage has failed: {reason}")
        self._refuse(operations, error)
        return error

    def _refuse(self, operations: Sequence[Operation], error: EngineError) -> None:
        for operation in operations:
            operation.fail(error)
            if isinstance(operation, Close):
                self.let_go()

    @abstractmethod
    def execute(self, operations: Sequence[Operation]) -> None:
        """Execute operations. Raises ``SyncFailed``."""

    @abstractmethod
    def let_go(self) -> None:
        """Close all files."""


class Lane(Protocol):
    """A way to an executor. Operations arrive in their order; a ``Close`` is the last one."""

    def submit(self, operation: Operation) -> None: ...
    def join(self) -> None:
        """Wait for the end after a ``Close``."""


class ThreadLane:
    """An executor in a thread of its own."""

    def __init__(self, name: str, executor: Executor) -> None:
        self._executor = executor
        self._queue: deque[Operation] = deque()
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._sleeps = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, operation: Operation) -> None:
        self._queue.append(operation)
        if self._sleeps:
            self._sleeps = False
            self._wake.put(None)

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        operations: Sequence[Operation] = ()
        timeout: float | None = None
        take = self._queue.popleft
        while not any(isinstance(operation, Close) for operation in operations[-1:]):
            if not self._queue:
                self._sleeps = True
                # Whoever queued something before that was said has woken nobody.
                if not self._queue:
                    self._sleep(timeout)
                self._sleeps = False
            operations = [take() for _ in range(len(self._queue))]
            if operations:
                self._executor.run(operations)
            timeout = self._executor.idle()

    def _sleep(self, timeout: float | None) -> None:
        try:
            self._wake.get(timeout=timeout)
        except queue.Empty:
            return


class InlineLane:
    """An executor on the event loop: it runs when the loop turns, with all that was queued until then."""

    def __init__(self, executor: Executor, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._executor = executor
        self._call_soon = call_soon
        self._queue: list[Operation] = []

    def submit(self, operation: Operation) -> None:
        self._queue.append(operation)
        if len(self._queue) == 1:
            self._call_soon(self._run)

    def join(self) -> None:
        """There is nothing to wait for."""

    def _run(self) -> None:
        operations, self._queue = self._queue, []
        self._executor.run(operations)
        self._executor.idle()


class Gate:
    """Holds the committer back while more waits to be brought to segments than memory should hold.

    ``held_bytes`` is set by the event loop and read by the committer.
    """

    def __init__(self, most_bytes: int) -> None:
        self.held_bytes = 0
        self._most_bytes = most_bytes
        self._changed = threading.Event()
        self._is_open = False

    def less(self, size_bytes: int) -> None:
        """Note that these bytes are in segments now."""
        self.held_bytes -= size_bytes
        self._changed.set()

    def open(self) -> None:
        """Hold nobody back any more."""
        self._is_open = True
        self._changed.set()

    def pass_through(self, is_refused: Callable[[], bool]) -> None:
        """Wait until there is room, or until everything is refused anyway."""
        while self.held_bytes > self._most_bytes and not self._is_open and not is_refused():
            self._changed.clear()
            if self.held_bytes > self._most_bytes:
                self._changed.wait(0.1)
