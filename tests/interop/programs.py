"""Running the programs of the suites, and reading their results out of what they print or write."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
import threading
import xml.etree.ElementTree as ET
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.interop.secured import secured
from tests.interop.suite import Outcome, Result, Run

_KEPT_LINES = 40
_NOTICED_AFTER_S = 0.05


class Program:
    """A child whose lines are read until it ends, or until its time is up and it is killed with its children."""

    def __init__(self, command: list[str], cwd: Path | None, env: Mapping[str, str] | None, timeout_s: float) -> None:
        self.last = deque[str](maxlen=_KEPT_LINES)
        self.timed_out = False
        self._process = subprocess.Popen(
            command, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        self._alarm = threading.Timer(timeout_s, self._expire)
        self._alarm.daemon = True
        self._alarm.start()

    def _expire(self) -> None:
        self.timed_out = True
        self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)

    def lines(self) -> Iterator[str]:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                yield line.rstrip("\n")
        finally:
            self._alarm.cancel()
            self._kill()  # children of it that are left, and itself if nobody wants its lines any more
            self._process.wait()

    def ending(self) -> str:
        """Why it did not end well, or ""."""
        if self.timed_out:
            return "it was still running when its time was up"
        code = self._process.returncode
        return f"it ended with {code}" if code else ""

    def tail(self) -> str:
        return "\n".join(self.last)


def json_lines(
    command: list[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout_s: float = 240
) -> Iterator[Result]:
    """Run a program that prints a line of JSON for each test: ``{"test", "outcome", "reason", "seconds"}``.

    Other lines are kept and shown if it fails. A program that dies, hangs or says nothing gives a failed result.
    """
    program = Program(command, cwd, env, timeout_s)
    said = 0
    for line in program.lines():
        result = _result(line)
        if result is None:
            program.last.append(line)
            continue
        said += 1
        if result.outcome == "failed" and not result.reason:
            result = Result(result.test, "failed", program.tail(), result.seconds)
        yield result
    ending = program.ending()
    if ending or not said:
        yield Result("(program)", "failed", f"{ending or 'it reported no test'}\n{program.tail()}")


def scenarios(
    run: Run,
    command: list[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 240,
) -> Iterator[Result]:
    """The same of a program that finds the broker in ``BOOTSTRAP``, in ``RESTARTS`` what `restarts` gives, and what
    it is told of a secured broker.
    """
    with restarts(run) as directory, secured() as safe:
        told = {"BOOTSTRAP": run.bootstrap, "RESTARTS": directory, **safe.told, **(env or {})}
        yield from safe.judged(json_lines(command, cwd=cwd, env=told, timeout_s=timeout_s))


@contextmanager
def restarts(run: Run) -> Iterator[str]:
    """A directory in which a program asks for a restart by a file ``wanted-N``; ``done-N`` answers, with what went
    wrong as its text. "" if the broker was given from outside.
    """
    if run.broker is None:
        yield ""
        return
    directory = run.scratch / "restarts"
    directory.mkdir(exist_ok=True)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(run, directory, over))
    watcher.start()
    try:
        yield str(directory)
    finally:
        over.set()
        watcher.join()


def _watch(run: Run, directory: Path, over: threading.Event) -> None:
    assert run.broker is not None
    while not over.wait(_NOTICED_AFTER_S):
        for wanted in directory.glob("wanted-*"):
            wrong = ""
            if "Traceback" in (log := run.broker.log_text()):
                wrong = log[log.index("Traceback") :][:3000]
            run.broker.kill()
            try:
                run.broker.restart()
            except RuntimeError as error:
                wrong = str(error)
            done = directory / wanted.name.replace("wanted", "done")
            (half := done.with_suffix(".half")).write_text(wrong, "utf-8")
            wanted.unlink()
            os.replace(half, done)


def _result(line: str) -> Result | None:
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
        return Result(found["test"], found["outcome"], found.get("reason") or "", float(found.get("seconds") or 0))
    except (ValueError, KeyError, TypeError):
        return None


def go_test(
    command: list[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout_s: float = 600
) -> Iterator[Result]:
    """Run ``go test -json …``, or a test binary through ``go tool test2json``; top-level tests and subtests alike."""
    program = Program(command, cwd, env, timeout_s)
    printed: dict[str, deque[str]] = {}
    outcomes: dict[str, Outcome] = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    open_tests: set[str] = set()
    said = 0
    for line in program.lines():
        try:
            event = json.loads(line)
        except ValueError:
            program.last.append(line)
            continue
        test, action = event.get("Test"), event.get("Action")
        if action == "output":
            printed.setdefault(test, deque(maxlen=_KEPT_LINES)).append(event["Output"].rstrip("\n"))
            program.last.append(event["Output"].rstrip("\n"))
        elif test and action == "run":
            open_tests.add(test)
        elif test and action in outcomes:
            said += 1
            open_tests.discard(test)
            outcome = outcomes[action]
            words = [text for text in printed.pop(test, ()) if not text.lstrip().startswith(("===", "---"))]
            reason = "" if outcome == "passed" else "\n".join(words)
            yield Result(test, outcome, reason, float(event.get("Elapsed") or 0))
    for test in sorted(open_tests):
        yield Result(test, "failed", f"never ended: {program.ending()}")
    if not said:
        yield Result("(program)", "failed", f"{program.ending() or 'it reported no test'}\n{program.tail()}")


_RUST_LINE = re.compile(r"test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?:, (.*))?")
_RUST_OUTCOMES: dict[str, Outcome] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}


def rust_tests(
    command: list[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout_s: float = 240
) -> Iterator[Result]:
    """Run a test program as Rust builds them; what a test printed follows when all have ended."""
    program = Program(command, cwd, env, timeout_s)
    failed: dict[str, list[str]] = {}
    said, of, is_whole = 0, "", False
    for line in program.lines():
        program.last.append(line)
        if found := _RUST_LINE.fullmatch(line):
            said += 1
            outcome = _RUST_OUTCOMES[found[2]]
            if outcome == "failed":
                failed[found[1]] = []
            else:
                yield Result(found[1], outcome, found[3] or "")
        elif line.startswith("test result: "):
            is_whole = True
        elif line.startswith("---- ") and line.endswith(" stdout ----"):
            of = line.split()[1]
        elif of in failed:
            failed[of].append(line)
    for test, printed in failed.items():
        yield Result(test, "failed", "\n".join(printed[-_KEPT_LINES:]) or program.tail())
    if not said or not is_whole:
        why = program.ending() or ("it did not say how all ended" if said else "it reported no test")
        yield Result("(program)", "failed", f"{why}\n{program.tail()}")


def junit(
    command: list[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout_s: float = 600
) -> Iterator[Result]:
    """Run pytest (``command`` without ``--junitxml``) and read its report."""
    with tempfile.TemporaryDirectory(prefix="ottla-junit-") as directory:
        report = Path(directory) / "report.xml"
        program = Program([*command, f"--junitxml={report}"], cwd, env, timeout_s)
        for line in program.lines():
            program.last.append(line)
        if not report.exists():
            yield Result("(program)", "failed", f"{program.ending() or 'it wrote no report'}\n{program.tail()}")
            return
        found = list(_cases(report))
    yield from found
    if not found:
        yield Result("(program)", "failed", f"it collected no test\n{program.tail()}")


def _cases(report: Path) -> Iterator[Result]:
    for case in ET.parse(report).iter("testcase"):
        classname = case.get("classname", "").replace(".", "/")
        outcome: Outcome = "passed"
        reason = ""
        for child in case:
            if child.tag in ("failure", "error"):
                outcome, reason = "failed", f"{child.get('message') or ''}\n{(child.text or '')[-1500:]}".strip()
            elif child.tag == "skipped" and outcome == "passed":
                outcome, reason = "skipped", child.get("message") or ""
        name = f"{classname}::{case.get('name')}" if classname else case.get("name", "")
        yield Result(name, outcome, reason, float(case.get("time") or 0))
