"""`ottla cluster restored`: a database that was brought back to an earlier moment, before nodes start on it again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import click

from ottla.broker.settings import Settings
from ottla.cli.cluster_import import at_rest, of_cluster
from ottla.cli.common import Answer
from ottla.cli.output import count_of, say

LEAP = 100_000
"""More than what a cluster counts between a backup and its restore: epochs, lives of nodes, versions, producer ids."""


@click.command("restored", short_help="Say that the database of a cluster was restored from a backup.")
@of_cluster
def restored_command(settings: Settings) -> Answer:
    """Say that the database was brought back to an earlier moment; before any node is started on it again.

    Leader epochs, and all numbers that are given once, go on far behind those that were given since that moment. So
    consumers find out that records which they have read are gone, and where the log ends now, as by KIP-320; a node
    that still runs somewhere ends; and no two producers have one id.

    No node may run. Said twice it does no harm.
    """
    partitions = asyncio.run(_restored(settings))

    def print_text() -> None:
        say(f"{count_of(partitions, 'partition')} led by nobody, under epochs {LEAP:,} later. Start the nodes.")

    return Answer({"partitions": partitions, "epochs_later_by": LEAP}, print_text)


async def _restored(settings: Settings) -> int:
    from ottla.broker.core.topics.catalog import PRODUCER_ID_BLOCK, Catalog

    async with at_rest(settings) as (rest, _):
        await rest.depose(LEAP)
        if (state := rest.catalog.load()) is not None:
            catalog = Catalog.from_state(state)
            first = catalog.next_producer_id + LEAP * PRODUCER_ID_BLOCK
            await rest.catalog.store(replace(catalog, next_producer_id=first).state(), over=rest.catalog.version)
        return len(rest.epochs)
