"""`ottla pipeline`: the history of consumer groups as tables, by Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.common import format_option, pair
from ottla.cli.output import Cell, Refused, note, print_table, say, warn
from ottla.cli.pipeline_alerts import command as alerts
from ottla.cli.pipeline_options import GOLD, READ, SPARK, STREAM, WRITE, since_option, with_config
from ottla.cli.pipeline_runs import failures, look_at, to_stop, with_spark
from ottla.pipeline.config import Config, near

if TYPE_CHECKING:
    from ottla.pipeline.gold import TableResult
    from ottla.pipeline.lake import Lake
    from ottla.pipeline.silver import Work

_MOST_REASONS = 10
_MADE = "The folder of the tables; made if it is not there."


@click.group("pipeline")
def command() -> None:
    """What consumer groups did, as tables: history, health and cause, for Ottla and for any Apache Kafka.

    Begin with `ottla pipeline available-now -b HOST:PORT`, then `gold`, then `report`.
    """


def _ages(work: Work) -> None:
    """Note how old unread records are. What is only said less exactly without it must not keep a run from going on."""
    from ottla.pipeline.cluster import options_of
    from ottla.pipeline.record_times import look_up
    from ottla.pipeline.source.logs import SourceError

    if work.config.log_dir:
        return  # files tell where logs ended when
    try:
        look_up(options_of(work.config), work.lake, work.cluster_id)
    except SourceError as error:
        note(f"How old unread records are could not be asked ({error}): it is known from the first sample on.")


@contextmanager
def _filling(config: Config, what: str) -> Iterator[Work]:
    """Hold the lake and a session of Spark's, for a command that writes silver tables."""
    from ottla.pipeline.lake import Lake
    from ottla.pipeline.silver import Work
    from ottla.pipeline.sinks import check

    check(config.format)
    cluster, lake = look_at(config), Lake(config.lake)
    with lake.writing(what) as note_jvm:
        about = lake.open(format=config.format, cluster_id=cluster.cluster_id)
        with with_spark(config, lake, what) as running:
            note_jvm(running.jvm_pid)
            yield Work(running.session, lake, config, cluster, about["cluster_id"])


def _quarantine(work: Work) -> list[tuple[str, int]]:
    rows = work.lake.read(work.spark, "quarantine").groupBy("error").count().orderBy("count", ascending=False)
    return [(row[0], row[1]) for row in rows.limit(_MOST_REASONS).collect()]


def _filled(work: Work, heads: Sequence[str], rows: Sequence[Sequence[Cell]], reasons: list[tuple[str, int]]) -> None:
    """Say what was written, what could not be read, what cannot be known, and what comes next."""
    from ottla.cli.pipeline_show import cannot_know, quarantined

    print_table(heads, rows)
    quarantined(reasons)
    cannot_know(work.cluster)
    _next(work.config, "gold", "report")


def _next(config: Config, *commands: str) -> None:
    where = "" if config.lake == Config().lake else f" --lake {config.lake}"
    note(f"The lake is in {Path(config.lake).absolute()}.")
    note("Next: " + ", then ".join(f"`ottla pipeline {one}{where}`" for one in commands) + ".")


command.add_command(alerts)


# -- silver


@command.command("backfill", short_help="Read all that is there into the lake, once.")
@since_option("Only days from this one on.")
@with_config(READ, WRITE, SPARK, lake=_MADE)
def backfill(config: Config, since: datetime | None) -> None:
    """Read what a cluster or a log directory has, up to now, in one batch.

    To do it again doubles nothing. A stream of the lake goes on where it ends.
    """
    from ottla.cli.pipeline_show import Bars

    with failures():
        from ottla.pipeline.backfill import run

        with _filling(config, "backfill") as work, Bars("tasks") as bars:
            _ages(work)
            filled = run(
                work,
                since=since.date() if since else None,
                again=None if config.log_dir else lambda: look_at(config),
                tell=bars.show,
                done=bars.finish,
            )
            reasons = _quarantine(work)
        rows: list[tuple[Cell, ...]] = []
        for name, one in filled.items():
            first_and_last = (str(one.days[0]), str(one.days[-1])) if one.days else (None, None)
            rows.append((name, f"{one.rows:,}", len(one.days), *first_and_last))
        _filled(work, ("table", "rows read", "days", "from", "to"), rows, reasons)


@command.command("stream", short_help="Keep the lake up to date until stopped.")
@with_config(READ, WRITE, STREAM, SPARK, lake=_MADE)
def stream(config: Config) -> None:
    """Write what comes into the lake, exactly once, until Ctrl-C.

    It goes on where it or `available-now` stopped, however that came about.
    """
    _run_streams(config, available_now=False)


@command.command("available-now", short_help="Bring the lake up to date, and end.")
@with_config(READ, WRITE, STREAM, SPARK, lake=_MADE)
def available_now(config: Config) -> None:
    """Read what has come since the last time, exactly once: for cron. It shares its checkpoints with `stream`."""
    _run_streams(config, available_now=True)


def _run_streams(config: Config, *, available_now: bool) -> None:
    from ottla.cli.pipeline_show import Bars

    with failures():
        from ottla.pipeline import silver
        from ottla.pipeline.running import watch

        with _filling(config, "available-now" if available_now else "stream") as work, to_stop() as stopping:
            _ages(work)
            begins, ends = silver.span(work.lake, work.cluster, config)
            queries = silver.start(work, available_now=available_now)
            if not available_now:
                note(f"Writing {', '.join(queries)} of {config.origin} to {config.lake}; Ctrl-C stops.")
            with Bars("records") as bars:
                done = watch(queries, stopping, lambda all: bars.streams(all, ends if available_now else {}, begins))
            reasons = _quarantine(work)
        rows = [
            (name, f"{one.rows:,}", one.batches, f"{one.batch_s:.1f} s" if one.batches else None)
            for name, one in done.items()
        ]
        _filled(work, ("table", "rows written", "batches", "last batch"), rows, reasons)


@command.command("vacuum", short_help="Remove files that belong to no table.")
@with_config(("lake",))
def vacuum(config: Config) -> None:
    """Remove what tasks that were killed left behind, so that only files of tables are in the lake.

    Spark passes over such files; pandas, DuckDB or Trino would read them. No stream may run meanwhile.
    """
    with failures():
        from ottla.pipeline.vacuum import vacuum as remove

        lake = _lake(config, "Name one with --lake.")
        with lake.writing("vacuum"):
            removed = remove(lake)
        print_table(
            ("table", "files removed", "bytes"), [(name, one.files, f"{one.bytes:,}") for name, one in removed.items()]
        )


# -- gold


def _lake(
    config: Config, advice: str = "Name one with --lake, or make it: ottla pipeline available-now -b HOST:PORT"
) -> Lake:
    """One that is there, and of a version that is known."""
    from ottla.pipeline.lake import Lake

    lake = Lake(config.lake)
    if lake.about() is None:
        raise Refused(f"There is no lake in {config.lake}.", advice)
    return lake


@command.command("gold", short_help="Compute lag, rebalances, storms, findings from what was read.")
@since_option("Build days from this one on. [those that have changed]")
@click.option("--full", is_flag=True, help="Build all days anew.")
@with_config(GOLD, SPARK)
def gold(config: Config, since: datetime | None, full: bool) -> None:
    """Build gold tables from silver ones: only days that have changed since the last time, and those after them."""
    if since and full:
        raise click.UsageError("--since and --full: all days, or those from one on.")
    with failures():
        lake = _lake(config)
        results = _build(config, lake, since.date() if since else None, full)
        if not results:
            return
        print_table(
            ("table", "rows written", "time"), [(one.table, f"{one.rows:,}", f"{one.seconds:.1f} s") for one in results]
        )
        _without_events(lake)
        _next(config, "report", "query")


def _build(config: Config, lake: Lake, since: date | None, full: bool) -> list[TableResult]:
    """Build what has changed, or what is asked for; gives nothing where nothing has changed."""
    from ottla.cli.pipeline_show import Bars
    from ottla.pipeline import touched
    from ottla.pipeline.gold import Objectives, build
    from ottla.pipeline.tables import GOLD as GOLD_TABLES

    with lake.building() as note_jvm:
        found = touched.look(lake, [config.slo, config.slo_groups])
        if not found.anything and not full and not since:
            at = touched.built_at(lake)
            note(f"Nothing has changed since gold was last built ({f'{at:%Y-%m-%d %H:%M:%S} UTC' if at else 'never'}).")
            if at:
                touched.note(lake, found, None)  # what was written since brought no rows, and is known now
            return []
        first = None if full else since or found.since
        with with_spark(config, lake, "gold") as running, Bars("tables") as bars:
            note_jvm(running.jvm_pid)
            bars.show("gold", 0, len(GOLD_TABLES))
            results = build(
                running.session,
                lake,
                since=first,
                objectives=Objectives(config.slo, config.slo_groups),
                progress=lambda one: bars.step("gold", len(GOLD_TABLES), one.table),
            )
        touched.note(lake, found, first)
        return results


def _without_events(lake: Lake) -> None:
    """Say what logs without events of groups cannot tell."""
    from ottla.pipeline.gold import unknowable

    if missing := unknowable(lake):
        note(
            "There is no __ottla_group_events in this lake, as with Apache Kafka. It is known when a rebalance ended, "
            "who came and who left, and how long partitions went without a commit (commit_gap_ms); when a rebalance "
            f"began, how long it took and why it came is not known. Findings of {' and '.join(missing)} cannot be made."
        )


@command.command("report", short_help="One HTML file that says what is wrong.")
@click.option("--out", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Where to. [LAKE/report.html]")
@click.option("--group", "-G", metavar="GROUP", help="Only this group.")
@click.option("--since", metavar="TIME", help="From this day or time (UTC) on. [the last seven days]")
@click.option("--until", metavar="TIME", help="Up to this day or time (UTC). [the end]")
@with_config(("lake",))
def report(config: Config, out: Path | None, group: str | None, since: str | None, until: str | None) -> None:
    """Make a page of the gold tables; it needs neither Spark nor a network, and opens anywhere."""
    with failures():
        from ottla.pipeline.report import NothingToReport, write

        _lake(config)
        try:
            page = out or Path(config.lake) / "report.html"
            made = write(config.lake, page, group=group, since=since, until=until)
        except NothingToReport as error:
            raise Refused(str(error)) from None
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        except OSError as error:
            raise Refused(f"{out} cannot be written: {error.strerror}.") from None
    say(str(made))


class _Questions(click.Command):
    """A command whose help ends with the questions."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        from ottla.pipeline.queries import QUERIES

        with formatter.section("Questions, and what each may be given"):
            formatter.write_dl([(name, f"{one.text} [{', '.join(one.parameters)}]") for name, one in QUERIES.items()])


@command.command("query", cls=_Questions, short_help="Ask one of the named questions.")
@click.argument("name", required=False)
@click.option("--param", "-p", "given", multiple=True, metavar="NAME=VALUE", help="A parameter; repeatable.")
@click.option("--group", "-G", metavar="GROUP", help="Only this group.")
@click.option("--topic", "-t", metavar="TOPIC", help="Only this topic, for questions that take one.")
@click.option("--limit", type=click.IntRange(1, 999_999), default=100, show_default=True, help="Rows at most.")
@format_option
@click.option("--refresh", is_flag=True, help="Build gold tables first, with the objectives that they were built with.")
@with_config(("lake",), SPARK)
def query(
    config: Config,
    name: str | None,
    given: tuple[str, ...],
    group: str | None,
    topic: str | None,
    limit: int,
    output_format: str,
    refresh: bool,
) -> None:
    """Ask a question of the gold tables; without NAME, say which there are. Only --refresh needs Spark and Java."""
    from ottla.cli.pipeline_show import print_rows

    with failures():
        from ottla.pipeline import touched
        from ottla.pipeline.queries import QUERIES, ask

        if name is None:
            print_table(
                ("question", "what it says", "parameters"),
                [(key, one.text, ", ".join(one.parameters)) for key, one in QUERIES.items()],
            )
            return
        parameters = _parameters(name, given, group, topic)
        lake = _lake(config)
        if refresh:
            slo, groups = touched.noted(lake).get("objectives") or (config.slo, config.slo_groups)
            _build(replace(config, slo=slo, slo_groups=groups), lake, None, full=False)
        building = lake.is_building()
        try:
            asked = ask(lake, name, **parameters, limit=limit + 1)
        except ValueError as error:
            raise click.UsageError(f"{name}: {error}") from None
        print_rows(asked, limit, output_format == "json")
        if building or lake.is_building():
            warn("`ottla pipeline gold` is writing these tables, and rows may be missing: ask again when it has ended.")
        _as_of(lake)
        if QUERIES[name].table.startswith("rebalance"):
            _without_events(lake)


def _parameters(name: str, given: tuple[str, ...], group: str | None, topic: str | None) -> dict[str, str]:
    from ottla.pipeline.queries import QUERIES

    if name not in QUERIES:
        raise click.UsageError(f"There is no question {name!r}{near(name, QUERIES)}.")
    parameters = dict(pair("--param", one, "NAME=VALUE") for one in given)
    parameters |= {key: value for key, value in (("group", group), ("topic", topic)) if value}
    for one in parameters:
        if one == "limit":
            raise click.UsageError("How many rows there are at most is an option of its own: --limit N.")
        if one not in QUERIES[name].parameters:
            raise click.UsageError(f"{name} has no parameter {one!r}{near(one, QUERIES[name].parameters)}.")
    return parameters


def _as_of(lake: Lake) -> None:
    """Say of when the answer is."""
    from ottla.pipeline import touched

    at = touched.built_at(lake)
    if at is None:
        note("These gold tables were not built as a whole by this ottla: --refresh builds them anew.")
        return
    newer = " More was read since: --refresh builds them first." if touched.is_behind(lake) else ""
    note(f"From gold tables built at {at:%Y-%m-%d %H:%M:%S} UTC.{newer}")
