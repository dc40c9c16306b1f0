"""What the suites of Python clients share: two releases of a client, each in an environment of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from tests.interop.programs import scenarios
from tests.interop.python_envs import environment, python_version
from tests.interop.results import KEPT
from tests.interop.suite import QUICK_CONSUMER_GROUPS, Place, Result, Run, Suite

ROOT = KEPT.parents[1]


def client_suite(
    name: str,
    title: str,
    package: str,
    releases: Iterable[str],
    extras: Iterable[str] = (),
    before: Mapping[str, tuple[int, int]] = MappingProxyType({}),
) -> Suite:
    """The suite of a client: its ``main.py`` is played with each release.

    Args:
        package: its name on PyPI.
        releases: the newest, and one about two years old.
        extras: packages that it wants besides, for its codecs.
        before: releases that need a Python older than this; elsewhere they are left out.
    """
    wanted = {
        release: (f"{package}=={release}", *extras)
        for release in releases
        if sys.version_info < before.get(release, (4, 0))
    }

    def prepare(place: Place) -> None:
        for release, requirements in wanted.items():
            environment(place, release, *requirements)

    def run(run: Run) -> Iterator[Result]:
        for release, requirements in wanted.items():
            python = environment(run.place, release, *requirements)
            only = run.options.get("only", "")
            command = [str(python), "-m", f"tests.interop.{name}.main", run.bootstrap, only]
            for result in scenarios(run, command, cwd=ROOT, timeout_s=180):
                yield replace(result, test=f"{release} {result.test}")

    return Suite(
        title=title,
        language="Python",
        prepare=prepare,
        versions=_versions(title, wanted),
        settings={"group.min.session.timeout.ms": 500, **QUICK_CONSUMER_GROUPS},
        run=run,
    )


def _versions(title: str, releases: Iterable[str]) -> Callable[[Place], str]:
    text = f"{title} {' and '.join(releases)}, {python_version()}"
    return lambda place: text
