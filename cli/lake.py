"""`ottla lake`: topics as Parquet, every record once; `ottla lake compact`: few large files for many small ones."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.output import Cell, Refused, note, print_table, say, warn
from ottla.cli.pipeline_options import SPARK, STREAM, with_config
from ottla.pipeline.config import Config

if TYPE_CHECKING:
    from ottla.pipeline.running import Progress
    from ottla.pipeline.topic_lake import Compacted, LakeSettings, Written
    from ottla.pipeline.topic_lake.look import Topics

_READ = ("bootstrap_server", "log_dir", "isolation", "fail_on_data_loss", "tasks", "kafka")
_SIZE = re.compile(r"(\d+)\s*([kmg]?)i?b?", re.IGNORECASE | re.ASCII)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class _Lake(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises `click.UsageError` for a word that is no command, which must be a topic."""
        if args[0] not in self.commands and not get_close_matches(args[0], self.commands):
            topic = shlex.quote(args[0])
            raise click.UsageError(f"Topics are named by option here: ottla lake --topic {topic} --to DIR.", ctx)
        return super().resolve_command(ctx, args)


@click.group("lake", cls=_Lake, invoke_without_command=True)
@click.option("--topic", "-t", "topics", multiple=True, metavar="TOPIC", help="A topic to write. Repeatable.")
@click.option("--to", metavar="DIR", help="The topic's folder; of several topics, the folder of their folders.")
@click.option(
    "--mode",
    type=click.Choice(["available-now", "stream"]),
    default="available-now",
    show_default=True,
    help="Write what is there and end, or go on until stopped.",
)
@click.option("--json-schema", metavar="DDL|FILE", help="Read values as JSON: 'id BIGINT, at TIMESTAMP', or a file.")
@click.option("--json-prefix", default="", metavar="TEXT", help="Prefix for the names of these columns.")
@click.option("--group", "-G", metavar="GROUP", help="Commit the progress for this group, for lag tools to see.")
@click.option("--include-headers/--no-include-headers", default=True, help="Write headers.  [default: yes]")
@with_config(_READ, STREAM, SPARK, starting_offsets="Start of a topic that was not written to DIR before.")
def command(
    config: Config,
    topics: tuple[str, ...],
    to: str | None,
    mode: str,
    json_schema: str | None,
    json_prefix: str,
    group: str | None,
    include_headers: bool,
) -> None:
    """Write topics to Parquet, every record exactly once, for Spark, DuckDB and pandas.

    \b
    ottla lake --topic orders --to /lake/orders -b localhost:9092
    ottla lake compact /lake/orders
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    if not topics or not to:
        raise click.UsageError("Say what and where to: --topic TOPIC --to DIR, or `ottla lake compact DIR`.")
    if not config.bootstrap_server and not config.log_dir:
        raise click.UsageError("Say what to read: --bootstrap-server HOST:PORT, or --log-dir DIR.")
    if config.log_dir and group:
        raise click.UsageError("--group: there is no broker that could keep its offsets; leave out --log-dir.")
    with _failures():
        from ottla.pipeline.topic_lake import LakeSettings
        from ottla.pipeline.topic_lake.look import look

        names = list(dict.fromkeys(topics))
        found = look(config, names)
        given = {
            "includeHeaders": str(include_headers).lower(),
            "isolation": config.isolation,
            "maxOffsetsPerTrigger": str(config.max_offsets_per_trigger),
            "startingOffsets": config.starting_offsets,
        }
        options = config.source_options(**given, **({"group": group} if group else {}))
        interval_ms = config.trigger_ms if mode == "stream" else None
        wanted = [
            LakeSettings(
                topic=one,
                folder=to if len(names) == 1 else str(Path(to) / one),
                options=options,
                interval_ms=interval_ms,
                json_schema=json_schema,
                json_prefix=json_prefix,
                cluster_id=found.cluster_id,
            )
            for one in names
        ]
        _write(config, to, wanted, found)


def _write(config: Config, to: str, wanted: list[LakeSettings], found: Topics) -> None:
    from ottla.cli.pipeline_runs import to_stop
    from ottla.cli.pipeline_show import Bars
    from ottla.pipeline.lake import Lake
    from ottla.pipeline.running import spark, watch
    from ottla.pipeline.topic_lake import start

    sums = {one.topic: Counter[str]() for one in wanted}
    begins = dict(found.begins) if config.starting_offsets == "earliest" else dict(found.ends)
    _check_folders(wanted)

    def add(done: Written) -> None:
        batches = 1 if done.rows else 0
        sums[done.topic].update(rows=done.rows, bad=done.bad, batches=batches, files=done.files, size=done.size)

    with (
        spark(config, Lake(str(Path(to) / "_spark")), "lake") as running,
        to_stop() as stopping,
        start(running.session, wanted, add) as queries,
    ):
        if wanted[0].interval_ms:
            note(f"Writing {', '.join(sums)} of {config.origin} to {to}; Ctrl-C stops.")
        with Bars("records") as bars:

            def tell(progress: dict[str, Progress]) -> None:
                bars.streams(progress, {} if wanted[0].interval_ms else found.ends, begins)

            named = {one.topic: query for one, query in zip(wanted, queries, strict=True)}
            watch(named, stopping, tell)
    rows: list[tuple[Cell, ...]] = []
    for one in wanted:
        done = sums[one.topic]
        counts = (f"{done['rows']:,}", f"{done['bad']:,}", done["batches"], done["files"], f"{done['size']:,}")
        rows.append((one.topic, *counts, one.folder))
    print_table(("topic", "rows", "bad", "batches", "files", "bytes", "folder"), rows)
    if bad := sum(one["bad"] for one in sums.values()):
        warn(f"{bad:,} rows do not fit the JSON schema; they are in _bad, each with the reason.")


def _check_folders(wanted: Sequence[LakeSettings]) -> None:
    """Check the folders before Spark starts, which takes a while."""
    from ottla.pipeline.topic_lake import LakeError, TopicFolder

    for one in wanted:
        folder = TopicFolder(one.folder)
        about = folder.about()
        if about is None and folder.path.parent.exists() and (folder.path.parent / "_lake.json").exists():
            raise LakeError(f"{folder.path.parent} is the folder of one topic: name another for several")
        folder.claim(topic=one.topic, cluster_id=one.cluster_id)


@contextmanager
def _failures() -> Iterator[None]:
    """`failures` of the pipeline's commands; those of a topic's folder are made sentences."""
    from ottla.cli.pipeline_runs import failures

    with failures("lake"):
        from ottla.pipeline.topic_lake import LakeError

        try:
            yield
        except LakeError as error:
            text = str(error)
            raise Refused(f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "?")) else ".")) from None


# -- compact, snapshot


def _size(context: click.Context, parameter: click.Parameter, value: str) -> int:
    found = _SIZE.fullmatch(value.strip())
    size = int(found[1]) * _UNITS[found[2].lower()] if found else 0
    if size < 1 << 10:
        raise click.BadParameter(f"{value!r} is no size of 1k or more; write 128m or 1g", context, parameter)
    return size


@command.command("compact", short_help="Make few large files of the many small ones of days that are over.")
@click.argument("folders", nargs=-1, required=True, metavar="DIR…")
@click.option(
    "--before", type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD", help="Days before this one. [today, in UTC]"
)
@click.option(
    "--target-size", callback=_size, default="128m", show_default=True, metavar="SIZE", help="The size of a file."
)
@click.option(
    "--readers-stopped",
    is_flag=True,
    help="Say that nobody reads now: needed on file systems that cannot exchange two folders in one step.",
)
def compact(folders: tuple[str, ...], before: datetime | None, target_size: int, readers_stopped: bool) -> None:
    """Rewrite the files of days that are over as fewer and larger ones.

    You may kill it and start it again, and a stream may write meanwhile. A reader that listed the files of a day just
    before may not find them any more: let readers that take long read a copy, which `ottla lake snapshot` makes. DIR is
    the folder of a topic, or one that holds several of them.
    """
    with _failures():
        from ottla.pipeline.topic_lake import compact as run

        done: list[tuple[str, Compacted]] = []
        for place in _places(folders):
            run(
                place,
                before=before.date() if before else None,
                target_bytes=target_size,
                readers_stopped=readers_stopped,
                told=_telling(done, str(place)),
            )
        rows = [(place, one) for place, one in done if not one.skipped]
        if rows:
            print_table(
                ("folder", "files before", "after", "bytes before", "after", "rows"),
                [
                    (f"{place}/{one.part and one.part + '/'}{one.day}", one.files_before, one.files_after,
                     f"{one.bytes_before:,}", f"{one.bytes_after:,}", f"{one.rows:,}")
                    for place, one in rows
                ],
            )  # fmt: skip
        left = len(done) - len(rows)
        note(f"{len(rows)} days were rewritten, {left} stay as they are.")


def _telling(done: list[tuple[str, Compacted]], place: str) -> Callable[[Compacted], None]:
    def told(one: Compacted) -> None:
        done.append((place, one))
        if not one.skipped:
            note(f"{one.day}: {one.files_before} files became {one.files_after}")
        elif one.skipped != "compact already":
            note(f"{one.day}: {one.skipped}")

    return told


def _places(folders: Sequence[str]) -> list[Path]:
    """Topics' folders; for one of several, theirs."""
    found: list[Path] = []
    for folder in map(Path, folders):
        below = [] if (folder / "_lake.json").exists() else sorted(one.parent for one in folder.glob("*/_lake.json"))
        found += below or [folder]
    return found


@command.command("snapshot", short_help="A folder with the rows as they are now, that nothing changes.")
@click.argument("folder", metavar="DIR")
def snapshot(folder: str) -> None:
    """Print a folder with the rows as they are now, which no batch and no compaction changes: to be read for long.

    It takes no space of its own (hard links). Remove it when it was read; a compaction does so after a day.
    """
    with _failures():
        from ottla.pipeline.topic_lake.folder import TopicFolder
        from ottla.pipeline.topic_lake.snapshot import take

        say(str(take(TopicFolder(folder))))
