"""`ottla pipeline alerts`: storms and stopped groups, while they happen."""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING

import click

from ottla.cli.common import duration_option
from ottla.cli.output import note, print_table
from ottla.cli.pipeline_options import SPARK, with_config
from ottla.pipeline.config import Config

if TYPE_CHECKING:
    from ottla.pipeline.alerts import Alert
    from ottla.pipeline.alerts.run import AlertSettings
    from ottla.pipeline.alerts.sinks import Sink

_READ = ("bootstrap_server", "log_dir", "isolation", "tasks", "sample_interval", "kafka", "trigger")


@click.command("alerts", short_help="Say while it happens: a storm, or a group that has stopped.")
@click.option(
    "--to", default="-", show_default=True, metavar="FILE|-|topic:NAME", help="JSON lines, on standard output with -."
)
@click.option("--checkpoints", metavar="DIR", help="Folder of checkpoints to go on from after a restart. [begin anew]")
@click.option(
    "--starting-offsets",
    type=click.Choice(["latest", "earliest"]),
    default="latest",
    show_default=True,
    help="Start of the first run.",
)
@click.option("--mode", type=click.Choice(["stream", "available-now"]), default="stream", show_default=True)
@click.option("--only", type=click.Choice(["storm", "stopped"]), help="Only this kind.")
@click.option(
    "--storm-generations", type=click.IntRange(2), default=5, show_default=True, help="Generations that make a storm."
)
@duration_option("--storm-gap", shortest="1ms", default="60s", help="Longest time from one of them to the next.")
@click.option(
    "--stopped-intervals",
    type=click.FloatRange(1),
    default=10,
    show_default=True,
    help="Usual intervals without a commit after which a group has stopped.",
)
@duration_option("--stopped-after", shortest="1ms", default="60s", help="Least time without a commit.")
@duration_option("--forget", shortest="1ms", default="24h", help="Time after which a silent group is forgotten.")
@with_config(_READ, SPARK)
def command(
    config: Config,
    to: str,
    checkpoints: str | None,
    starting_offsets: str,
    mode: str,
    only: str | None,
    storm_generations: int,
    storm_gap: float,
    stopped_intervals: float,
    stopped_after: float,
    forget: float,
) -> None:
    """Watch a cluster and say what goes wrong, one line of JSON for each thing, and another when it is over.

    A storm is a run of rebalances, each soon after the one before. A stopped group used to commit, and does not any
    more, while records are written that it has not read. Each alert has an id; after a crash one may come a second
    time with the same id and state.
    """
    from ottla.cli.pipeline_runs import failures, look_at
    from ottla.pipeline.alerts import StoppedLimits, StormLimits
    from ottla.pipeline.alerts.run import AlertSettings
    from ottla.pipeline.alerts.sinks import sink
    from ottla.pipeline.cluster import options_of

    with failures():
        cluster = look_at(config)
        try:
            where = sink(to, config.bootstrap_server, **options_of(config).secured.client_options())
        except (ValueError, OSError) as error:
            raise click.UsageError(f"--to {error}") from None
        forget_ms = round(forget * 1000)
        storm = StormLimits(storm_generations, round(storm_gap * 1000), forget_ms)
        stopped = StoppedLimits(stopped_intervals, round(stopped_after * 1000), forget_ms)
        with tempfile.TemporaryDirectory(prefix="ottla-alerts-", ignore_cleanup_errors=True) as scratch:
            settings = AlertSettings(
                # An alert about what cannot be read any more helps nobody.
                options=config.source_options(
                    failOnDataLoss="false",
                    isolation=config.isolation,
                    sampleIntervalMs=str(config.sample_interval_ms),
                ),
                checkpoint=checkpoints or f"{scratch}/checkpoints",
                storm=None if only == "stopped" else storm,
                stopped=None if only == "storm" else stopped,
                starting="earliest" if starting_offsets == "earliest" else "latest",
                interval_ms=config.trigger_ms if mode == "stream" else None,
            )
            if not cluster.has_events:
                note("There is no __ottla_group_events, as with Apache Kafka: causes and durations cannot be known.")
            _run(config, settings, where, to, scratch, cluster.has_events)


def _last_words(settings: AlertSettings, scratch: str) -> str:
    """The sentence that a stopped command ends with: what the next start does."""
    if settings.checkpoint.startswith(scratch):
        return (
            f"Stopping; without --checkpoints the next start remembers nothing: --starting-offsets {settings.starting}."
        )
    return "Stopping; the next start with these checkpoints goes on from here. An alert may come again, with its id."


def _run(config: Config, settings: AlertSettings, where: Sink, to: str, scratch: str, events: bool) -> None:
    from ottla.cli.pipeline_runs import to_stop, with_spark
    from ottla.pipeline.alerts.run import start
    from ottla.pipeline.lake import Lake
    from ottla.pipeline.running import watch

    counts: dict[tuple[str, str], int] = {}

    def told(alerts: list[Alert]) -> None:
        for one in alerts:
            counts[one.kind, one.state] = counts.get((one.kind, one.state), 0) + 1
            if to != "-" and sys.stderr.isatty():
                note(one.text)

    with with_spark(config, Lake(scratch), "alerts") as running, to_stop(_last_words(settings, scratch)) as stopping:
        queries = start(running.session, settings, where, events=events, told=told)
        note(f"Watching {config.origin}; alerts go to {'standard output' if to == '-' else to}.")
        watch(queries, stopping, lambda progress: None)
    if counts and to != "-":
        print_table(("kind", "state", "alerts"), [(*name, count) for name, count in sorted(counts.items())])
    note(f"{sum(counts.values())} alerts.")
