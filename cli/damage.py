"""Damage in a data directory, for the commands that report it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ottla.cli.output import Refused
from ottla.protocol.stored.cluster_file import all_directories, whole_of
from ottla.protocol.stored.names import CATALOG_NAME, parse_directory_name


def refuse_a_part(data_dir: Path, command: str = "") -> None:
    """Refuse the own directory of one of several nodes, which lacks what all share.

    Args:
        command: is told with the directory of all.
    """
    if (whole := whole_of(data_dir)) is not None:
        raise Refused(
            f"{data_dir} belongs to node {data_dir.name} of {whole}.", f"Say: {command or '--data-dir'} {whole}"
        )


def catalog_problem(data_dir: Path) -> str | None:
    """The reason why a broker could not read the catalog of a directory that has logs; None if it can."""
    from ottla.broker.core.topics.catalog import BadCatalog, Catalog
    from ottla.broker.engine import Corrupt
    from ottla.broker.storage.local.layout import decode_catalog

    path = data_dir / CATALOG_NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return f"{path} is missing, and there are logs of topics" if topics_by_directory(data_dir) else None
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    try:
        Catalog.from_state(decode_catalog(data, str(path)))
    except (Corrupt, BadCatalog) as error:
        text = str(error)
        return text if str(path) in text else f"{path}: {text}"
    return None


def topics_by_directory(data_dir: Path) -> dict[str, int]:
    """Topics, and how many partitions each has, as far as the directories of their logs tell."""
    found: dict[str, int] = {}
    names: list[str] = []
    for directory in all_directories(data_dir):
        with suppress(OSError):
            names += os.listdir(directory / "logs")
    for name in sorted(names):
        named = parse_directory_name(name)
        if named is not None:
            found[named.topic] = max(found.get(named.topic, 0), named.partition + 1)
    return found


@contextmanager
def reading_progress(data_dir: Path) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal while all segments are read; yields what is told of the bytes."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda count: None
        return
    directories = all_directories(data_dir)
    total = sum(path.stat().st_size for one in directories for path in (one / "logs").glob("*/*.log"))
    columns = (TextColumn("reading the logs"), BarColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total or None)
        yield lambda count: progress.advance(task, count)
