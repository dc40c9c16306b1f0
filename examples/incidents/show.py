"""The end of the demo: each incident with what ``ottla why`` says about it, and a table of all."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence

import click

from examples.incidents.model import Finding, Told, Verdict
from ottla.cli.output import Cell, Styled, on_terminal, print_table
from ottla.observe.printable import printable

INDENT = "    "
PIPE_COLUMNS = 120


def show(verdicts: Sequence[Verdict]) -> None:
    """Print everything."""
    for number, verdict in enumerate(verdicts, start=1):
        _incident(number, verdict)
    click.echo()
    print_table(
        ("incident", "group", "culprit", "what it did", "told"), [row for verdict in verdicts for row in _rows(verdict)]
    )


def _incident(number: int, verdict: Verdict) -> None:
    incident = verdict.incident
    click.echo()
    click.secho(f"{number}  {incident.heading}", bold=on_terminal() or None)
    for line in incident.story.splitlines():
        click.secho(INDENT + line, dim=on_terminal() or None)
    *_, last = verdict.findings
    for finding in verdict.findings:
        if finding.told is None or (finding is not last and finding.truth.meanwhile is None):
            continue
        if finding is last and verdict.command:
            break
        click.echo()
        click.echo(f"{INDENT}$ ottla why {incident.group}{_when(finding)}")
        _wrapped(finding.told.headline, bold=on_terminal() or None)
        if finding is last:
            _story(finding.told)
    if verdict.command:
        click.echo()
        click.echo(f"{INDENT}$ {verdict.command}")
        for line in verdict.printed.splitlines():
            _wrapped(line)
    click.echo()
    for finding in verdict.findings:
        _finding(finding)


def _story(told: Told) -> None:
    for sentence in told.sentences:
        _wrapped(sentence)
    for advice in told.advice:
        _wrapped(f"What to do: {advice}")


def _when(finding: Finding) -> str:
    return "  (while it lasts)" if finding.truth.meanwhile is not None else ""


def _wrapped(text: str, bold: bool | None = None) -> None:
    width = min(shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns, PIPE_COLUMNS) - 2 * len(INDENT)
    for line in textwrap.wrap(printable(text), width, subsequent_indent="  "):
        click.secho(2 * INDENT + line, bold=bold)


def _finding(finding: Finding) -> None:
    truth = finding.truth
    if finding.wrong:
        _line("✗", "red", f"{truth.culprit or 'nobody'}, {truth.causes[0]}: {'; '.join(finding.wrong)}")
    elif finding.told is not None:
        told = f"the culprit is {truth.culprit}, and what it did is" if truth.culprit else "nobody is to blame; it is"
        _line("✓", "green", f"{told} {finding.told.cause}")


def _line(mark: str, colour: str, text: str) -> None:
    click.echo(f"{INDENT}{click.style(mark, fg=colour) if on_terminal() else mark} {text}")


def _rows(verdict: Verdict) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for finding in verdict.findings:
        first = not rows
        rows.append(
            (
                (verdict.incident.heading if first else "") + _when(finding),
                verdict.incident.group if first else "",
                finding.truth.culprit or "nobody",
                finding.told.cause if finding.told is not None else finding.truth.causes[0],
                Styled("✗", "red") if finding.wrong else Styled("✓", "green"),
            )
        )
    return rows
