"""`ottla cluster doctor` and `ottla cluster migrate`: the PostgreSQL of a cluster, whether nodes run or not."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ottla.broker.settings import BadSetting
from ottla.cli.cluster_options import Place, of_database
from ottla.cli.common import Answer, formatted
from ottla.cli.output import Refused, count_of, say

if TYPE_CHECKING:
    from ottla.broker.setting_sources import Loaded
    from ottla.broker.storage.postgres.asyncpg_database import AsyncpgDatabase
    from ottla.cli.doctor_checks import Finding


@click.command("doctor", short_help="Check the database of a cluster.")
@of_database
@formatted
def doctor(place: Place) -> Answer:
    """Check the PostgreSQL of a cluster, and the settings. Exit code 1 if no node would start with them.

    Nothing is changed. GRANT pg_monitor TO the role lets it see more. A node looks at the same when it starts.
    """
    from ottla.cli import doctor_checks as checks
    from ottla.cli.database_node import check_sizes
    from ottla.cli.doctor import print_findings

    loaded = place.loaded()
    findings = [checks.check_settings(loaded)]
    try:
        check_sizes(loaded.settings)
        findings += asyncio.run(_examined(loaded))
    except BadSetting as error:
        findings.append(checks.Finding("cluster", checks.FAIL, str(error), "A node would not start with this."))
    verdict = checks.worst(findings)
    document = {"verdict": verdict, "checks": [vars(one) for one in findings]}
    failure = click.exceptions.Exit(1) if verdict == checks.FAIL else None
    return Answer(document, partial(print_findings, findings), failure)


async def _examined(loaded: Loaded) -> list[Finding]:
    from ottla.broker.engine import EngineError
    from ottla.cli.cluster_checks import findings_of
    from ottla.cli.database_node import database_of, way_of
    from ottla.cli.doctor_checks import FAIL, Finding

    database = database_of(loaded.settings)
    try:
        facts = await database.facts()
    except EngineError as error:
        return [Finding("server", FAIL, str(error), "A node would not start with it.")]
    return findings_of(facts, way_of(database.address, loaded.settings))


@click.command("migrate", short_help="Make the tables of a cluster, or bring them up to date.")
@of_database
@click.option(
    "--grant-to", "roles", metavar="ROLE", multiple=True, help="Let this role read and write rows, as nodes have to."
)
@formatted
def migrate(place: Place, roles: tuple[str, ...]) -> Answer:
    """Make the tables of a cluster, or bring them up to date, by the URL of a role that may.

    A node does the same when it starts, if its role may. Nodes may run meanwhile: they can live with what is changed.
    Where others have a table locked, it is tried again for ten seconds.
    """
    from ottla.broker.engine import EngineError
    from ottla.cli.database_node import database_of

    settings = place.loaded().settings
    try:
        document = asyncio.run(_migrated(database_of(settings), roles))
    except (EngineError, BadSetting) as error:
        raise Refused(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None

    def print_text() -> None:
        added = document["version"] - document["before"]
        done = f"{count_of(added, 'migration')} made" if added else "Nothing was missing"
        say(f"{done}: the tables of the schema {settings.ottla_cluster_schema} have version {document['version']}.")
        for role in roles:
            say(f"{role} may read and write their rows.")

    return Answer(document, print_text)


async def _migrated(database: AsyncpgDatabase, roles: tuple[str, ...]) -> dict[str, Any]:
    before = (await database.facts()).schema_version
    await database.open()
    for role in roles:
        await database.grant(role)
    after = await database.facts()
    return {"cluster_id": after.cluster_id, "before": before, "version": after.schema_version, "granted_to": [*roles]}
