"""`ottla doctor`: is this a place where a broker can keep its promises?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import doctor_access as access
from ottla.cli import doctor_checks as checks
from ottla.cli.common import Answer, duration_option, formatted, with_admin
from ottla.cli.connecting import connecting_options
from ottla.cli.damage import catalog_problem
from ottla.cli.doctor_checks import FAIL, OK, WARN, Finding
from ottla.cli.output import say
from ottla.observe.http.address import parse_address
from ottla.protocol.stored.cluster_file import all_directories, whole_of

if TYPE_CHECKING:
    from ottla.broker.endpoints import Endpoint
    from ottla.broker.settings import Settings
    from ottla.clients import Admin

ROUND_TRIPS = 20
_COLORS = {OK: "green", WARN: "yellow", FAIL: "red"}


@click.command("doctor")
@click.option(
    "--data-dir", metavar="DIR", type=click.Path(path_type=Path), help="Where the logs are, or would be. [./ottla-data]"
)
@click.option("--bootstrap-server", "-b", "bootstrap", metavar="HOST:PORT", help="Ask this broker, too.")
@connecting_options
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="The broker's properties file.",
)
@click.option("--set", "pairs", metavar="KEY=VALUE", multiple=True, help="One setting, as for `ottla serve`.")
@click.option("--listen", metavar="[HOST:]PORT", help="Where the broker is to listen. [by the settings]")
@click.option("--disk/--no-disk", "with_disk", default=True, help="Measure the disk. [measured]")
@duration_option(
    "--disk-time",
    shortest="10ms",
    longest="60s",
    default="1s",
    help="The time for each of the four measurements of the disk.",
)
@formatted
def command(
    data_dir: Path | None,
    bootstrap: str | None,
    config_file: str | None,
    pairs: tuple[str, ...],
    listen: str | None,
    with_disk: bool,
    disk_time: float,
) -> Answer:
    """Check the machine, the disk and the settings. Exit code 1 if something would not work.

    The disk is measured where the logs live: how long an append of 4 kB and of 64 kB takes, and the fdatasync that
    makes it durable, which is what every acknowledged commit waits for.
    """
    findings = [checks.check_versions(), checks.check_clock(), checks.check_open_files()]
    configured = _configured(findings, config_file, pairs, listen)
    directory, addresses = data_dir or Path("ottla-data"), [("localhost", 9092)]
    if configured is not None:
        settings, listeners = configured
        directory = data_dir or Path(settings.log_dirs or directory)
        addresses = [one[:2] for one in listeners]
        if settings.ottla_http_listen:
            addresses.append(parse_address(settings.ottla_http_listen, "ottla.http.listen"))
    findings += _of_directory(directory)
    if with_disk:
        findings.append(checks.check_disk(directory, disk_time))
    # Where a broker is asked, it is the one that has the ports.
    findings.append(checks.check_ports(addresses) if bootstrap is None else checks.check_broker(bootstrap, _ask))
    if configured is not None:
        answers = None if findings[-1].verdict == FAIL else bootstrap
        findings += access.of_configuration(*configured, directory, config_file, pairs, bootstrap=answers)
    verdict = checks.worst(findings)
    document = {"verdict": verdict, "checks": [vars(one) for one in findings]}
    return Answer(document, partial(print_findings, findings), click.exceptions.Exit(1) if verdict == FAIL else None)


def _configured(
    findings: list[Finding], config_file: str | None, pairs: tuple[str, ...], listen: str | None
) -> tuple[Settings, Sequence[Endpoint]] | None:
    """Check the settings; gives them with the listeners that they name, or None if a broker would not start."""
    from ottla.broker.settings import BadSetting
    from ottla.cli import listening, serve

    try:
        loaded = serve.settings_of(config_file, pairs)
        listening.check_http(loaded.settings)
        found = listening.listeners(loaded.settings, listening.Options(listen))
        findings.append(checks.check_settings(loaded))
        if (opening := listening.openings(found, loaded.settings)) is not None:
            advice = "Give listeners TLS and SASL, and the broker authorizer.class.name; or trust the network."
            findings.append(Finding("access", WARN, f"{opening[0]}: {opening[1]}", advice))
    except BadSetting as error:
        findings.append(Finding("settings", FAIL, str(error), "A broker would not start with this."))
        return None
    return loaded.settings, found


def _of_directory(directory: Path) -> list[Finding]:
    from ottla.protocol.stored.files import is_locked

    findings = [checks.check_directory(directory, is_locked)]
    if findings[0].verdict == OK:
        for one in all_directories(directory):
            if (one / "meta.properties").exists() and not is_locked(one):
                findings.append(_of_its_content(one, shares_catalog=one != directory))
    if (nodes := checks.check_nodes(directory)) is not None:
        findings.append(nodes)
    return [*findings, checks.check_filesystem(directory), checks.check_space(directory)]


def _of_its_content(directory: Path, *, shares_catalog: bool) -> Finding:
    """Whether a broker could open what is there; segments are not read.

    Args:
        shares_catalog: it is a node's whose catalog is the one of all.
    """
    from ottla.broker.engine import EngineError
    from ottla.broker.storage.local.repair import examine

    try:
        problems = examine(str(directory), segments=False).problems
    except EngineError as error:
        problems = [str(error)]
    catalog = None if shares_catalog else catalog_problem(directory)
    whole_one = whole_of(directory) or directory
    what = f"content of node {directory.name}" if shares_catalog else "content"
    if catalog is not None and catalog not in problems:
        problems = [*problems, catalog]
    if problems:
        advice = f"A broker refuses to start with it. What would be lost is said by: ottla recover {whole_one}"
        return Finding(what, FAIL, "; ".join(problems), advice, {"problems": problems})
    whole = "checkpoint and journal" if shares_catalog else "catalog, checkpoint and journal"
    return Finding(what, OK, f"{whole} are whole; `ottla recover {whole_one}` reads all")


def _ask(bootstrap: str) -> dict[str, Any]:
    """The cluster, the node that answers, and the time of its answers."""

    async def ask(admin: Admin) -> dict[str, Any]:
        trips = []
        for _ in range(ROUND_TRIPS):
            begun = time.perf_counter()
            cluster = await admin.describe_cluster()
            trips.append(time.perf_counter() - begun)
        return {
            "cluster_id": cluster.cluster_id,
            "node_id": cluster.controller_id,
            "brokers": len(cluster.brokers),
            "round_trips": sorted(trips),
        }

    return with_admin(bootstrap, ask)


def print_findings(findings: Sequence[Finding]) -> None:
    """Print findings for people."""
    width = max(len(one.check) for one in findings)
    for one in findings:
        say(f"{one.verdict.upper() if one.verdict == FAIL else one.verdict:<4}", fg=_COLORS[one.verdict], nl=False)
        say(f"  {one.check:<{width}}  {one.found}")
        for line in checks.disk_lines(one):
            say(f"{'':{width + 8}}{line}")
        if one.advice:
            say(f"{'':{width + 8}}→ {one.advice}")
