"""Asks ``ottla why``, and holds its answers against the truth."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace

from examples.demo.processes import Failed
from examples.incidents.model import Finding, Incident, Told, Truth, Verdict

LAST = 100
"""More episodes than any of the groups has."""

TIMEOUT_S = 120.0

TOO_LATE = "it was over before it could be asked, as happens where a machine is too slow"


async def ask(bootstrap: str, group: str) -> list[Told]:
    """Run ``ottla why``.

    Raises:
        Failed: the command did not work.
    """
    out = await _why(bootstrap, group, "--last", str(LAST), "--format", "json")
    return [Told.of(episode) for episode in json.loads(out)["episodes"]]


async def typed(bootstrap: str, verdict: Verdict) -> Verdict:
    """The verdict with a command as people type it, and what it printed.

    Without options it tells what matters most, which is nearly always the incident; else its generation is asked for.
    """
    told = verdict.findings[-1].told if verdict.findings else None
    if told is None:
        return verdict
    group = verdict.incident.group
    printed = (await _why(bootstrap, group)).decode()
    if told.headline in printed or told.generation < 0:
        return replace(verdict, command=f"ottla why {group}", printed=printed)
    options = "--generation", str(told.generation)
    printed = (await _why(bootstrap, group, *options)).decode()
    return replace(verdict, command=f"ottla why {group} {' '.join(options)}", printed=printed)


async def _why(bootstrap: str, group: str, *options: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ottla.cli", "why", group, "--bootstrap-server", bootstrap, *options,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(TIMEOUT_S):
            out, complaint = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Failed(f"`ottla why {group}` did not end within {TIMEOUT_S:.0f} s") from None
    if process.returncode:
        raise Failed(f"`ottla why {group}` failed: {complaint.decode().strip()}")
    return out


def judge(incident: Incident, truths: list[Truth], told: list[Told]) -> Verdict:
    """Hold what was told against the truth: the first episode after each thing that was done must tell it."""
    return Verdict(incident, tuple(_judge(truth, told) for truth in truths))


def _judge(truth: Truth, told: list[Told]) -> Finding:
    if truth.meanwhile == ():
        return Finding(truth, None, (TOO_LATE,))
    candidates = told if truth.meanwhile is None else truth.meanwhile
    later = [one for one in candidates if one.started_ms >= truth.since_ms]
    if not later:
        return Finding(truth, None, ("nothing is told",))
    one = min(later, key=lambda one: one.started_ms)
    wrong = []
    if one.kind != truth.kind:
        wrong.append(f"the first thing told is a {one.kind}, not a {truth.kind}")
    if one.culprit != truth.culprit:
        wrong.append(f"it blames {one.culprit or 'nobody'}, not {truth.culprit}")
    if truth.trigger is not None and one.trigger != (truth.trigger or truth.culprit):
        wrong.append(f"it says that {one.trigger or 'nobody'} triggered it, not {truth.trigger or truth.culprit}")
    if one.cause not in truth.causes:
        wrong.append(f"it says {one.cause}, not {' or '.join(truth.causes)}")
    wrong += [f"it does not mention {word}" for word in truth.words if word not in one.text]
    return Finding(truth, one, tuple(wrong))
