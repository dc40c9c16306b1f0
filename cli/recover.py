"""`ottla recover`: a data directory that a broker refuses to start with."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.common import Answer, formatted
from ottla.cli.damage import catalog_problem, reading_progress, refuse_a_part, topics_by_directory
from ottla.cli.output import Refused, print_fields, print_table, say
from ottla.protocol.stored.cluster_file import NODES_NAME, node_directories
from ottla.protocol.stored.names import CATALOG_NAME

if TYPE_CHECKING:
    from ottla.broker.storage.local.repair import RepairReport


@click.command("recover")
@click.argument("data_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--accept-loss", is_flag=True, help="Discard what is damaged, so that a broker starts.")
@formatted
def command(data_dir: Path, accept_loss: bool) -> Answer:
    """Say what is damaged in DATA_DIR and what discarding it would cost; with --accept-loss discard it.

    After a crash a broker cuts off by itself what it had not acknowledged. It refuses to start if acknowledged records
    are damaged: restore the directory from a backup, or discard these records.

    Of the directory of several nodes, those of all nodes are looked at.

    This reads every batch of every log. Damage within a log costs the batches that it hit. Damage in the journal, or at
    the end of a log, costs everything from the first missing record on. Damaged files are kept.
    """
    from ottla.broker.engine import EngineError
    from ottla.broker.storage.local.files import SyncFailed
    from ottla.broker.storage.local.repair import examine, recover_accepting_loss
    from ottla.cli.cluster import locked

    refuse_a_part(data_dir, "ottla recover")
    catalog = catalog_problem(data_dir)
    # Without a catalog no broker starts, so nothing is given up for it.
    look = recover_accepting_loss if accept_loss and catalog is None else examine
    is_of_several = (data_dir / NODES_NAME).is_dir()
    try:
        # All of them first: a supervisor may be about to start this node, while others run.
        with locked(data_dir) if is_of_several else nullcontext(), reading_progress(data_dir) as tell:
            report = look(str(data_dir), is_locked=is_of_several, tell=tell)
            for one in node_directories(data_dir).values():
                try:
                    _add(report, look(str(one), is_locked=True, tell=tell))
                except EngineError as error:  # what was given up before is told all the same
                    report.problems.append(str(error))
                    report.cannot_be_mended.append(str(error))
    except (EngineError, SyncFailed) as error:
        raise Refused(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
    except OSError as error:
        raise Refused(f"{error.filename or data_dir}: {error.strerror}.") from None
    if catalog is not None and catalog not in report.problems:
        report.problems.append(catalog)
        report.cannot_be_mended.append(catalog)
    document = asdict(report)
    for row in document["lost"]:
        row["reason"] = row.pop("reason")  # it comes last
    is_damaged = report.cannot_be_mended or (report.problems and not accept_loss)

    def print_text() -> None:
        _print(report, data_dir, accept_loss and catalog is None)
        if catalog is not None:
            _print_catalog(data_dir)

    return Answer(document, print_text, click.exceptions.Exit(1) if is_damaged else None)


def _add(report: RepairReport, other: RepairReport) -> None:
    """Tell of another node's directory, too."""
    report.problems += other.problems
    report.lost += other.lost
    report.kept_batches += other.kept_batches
    report.set_aside += other.set_aside
    report.cannot_be_mended += other.cannot_be_mended


def _print(report: RepairReport, data_dir: Path, accepted: bool) -> None:
    if not report.problems:
        say("Nothing is damaged: a broker starts with this directory.")
        return
    for problem in report.problems:
        say(f"{problem}.")
    if report.lost:
        say("", "Given up:" if accepted else "Would be given up:")
        print_fields(
            ("log", "from offset", "to offset (incl.)", "records", "why"),
            [asdict(one) for one in report.lost],
            *("log", "from_offset"),
            lambda row: "?" if row["upto_offset"] is None else row["upto_offset"] - 1,
            lambda row: "?" if row["records"] is None else row["records"],
            "reason",
        )
    elif not report.cannot_be_mended:
        say(
            "",
            "Acknowledged records at the end of one or more logs are lost; which ones, nothing that is left can tell.",
        )
    if report.kept_batches:
        say(f"{report.kept_batches} batches of the journal {'were' if accepted else 'can be'} kept.")
    for path in report.set_aside:
        say(f"Set aside: {path}")
    if report.cannot_be_mended:
        return
    if accepted:
        say(f"A broker starts with it now: ottla serve --data-dir {data_dir}")
    else:
        say(
            "",
            f"Restore {data_dir} from a backup, or copy it and give this up with:",
            f"  ottla recover {data_dir} --accept-loss",
        )


def _print_catalog(data_dir: Path) -> None:
    """Say what to do about a lost catalog: no other file has the settings and the ids given out."""
    say(
        "",
        "The catalog has the topics with their settings, and which producer ids were given: no other file has them, "
        "and --accept-loss cannot make it again.",
        f"Restore {data_dir / CATALOG_NAME} from a backup. Until then the logs are not touched, and can be read:",
        f"  ottla log dump {data_dir} --print-data-log",
    )
    if topics := topics_by_directory(data_dir):
        say()
        print_table(("topic", "partitions"), list(topics.items()), title="Topics that have logs:")
