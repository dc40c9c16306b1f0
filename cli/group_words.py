"""What the commands about groups share: options, and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ottla.cli.output import Refused

if TYPE_CHECKING:
    from ottla.clients import GroupDescription

group_option = click.option("--group", "-G", "more", metavar="GROUP", multiple=True, help="The same as an argument.")


def no_group(name: str, more: str = "") -> Refused:
    """What to say of a group that does not exist; ``more`` ends the sentence."""
    return Refused(f"There is no group {name!r}{more}.", "`ottla groups list` shows those that exist.")


def has_members(group: GroupDescription, what: str) -> Refused:
    """What to say when a group would have to be empty; ``what`` cannot be done to it: ``deleted``, ``reset``."""
    who = ", ".join(f"{one.client_id} on {host(one.client_host)}" for one in group.members[:3])
    more = f" and {len(group.members) - 3} more" if len(group.members) > 3 else ""
    return Refused(
        f"Group {group.group_id!r} cannot be {what} while it has members ({group.state}: {who}{more}).",
        f"Stop them, wait until `ottla groups describe {group.group_id} --state` says Empty, and try again.",
    )


def host(text: str) -> str:
    """A client's host as people write it: Kafka puts a slash before it."""
    return text.removeprefix("/")


def partitions_in_words(places: list[tuple[str, int]]) -> str:
    """``orders 0-3,7; refunds 0``."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        by_topic.setdefault(topic, []).append(partition)
    words = []
    for topic, listed in by_topic.items():
        runs: list[list[int]] = []
        for partition in listed:
            if runs and partition == runs[-1][-1] + 1:
                runs[-1].append(partition)
            else:
                runs.append([partition])
        words.append(f"{topic} " + ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs))
    return "; ".join(words)
