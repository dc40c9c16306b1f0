"""Options and sentences that the commands about groups share."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.common import Silent, Subjects, duration_option, missing, with_admin, word
from ottla.cli.completion import complete_groups
from ottla.cli.output import Refused, Row, note

if TYPE_CHECKING:
    from ottla.clients import Admin, GroupDescription, MemberDescription, TopicPartition
    from ottla.observe.recording import Recording

STATES = ("Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Empty", "Dead")
"""The states of groups; the two before the last two are those of the protocol ``consumer``."""
TYPES = ("classic", "consumer")
AWAY = -2
"""The member epoch of a static member that is away."""


def _before_now(context: click.Context, parameter: click.Parameter, seconds: float | None) -> int | None:
    """The Unix time in ms that was so long ago."""
    return None if seconds is None else time.time_ns() // 1_000_000 - round(seconds * 1000)


GROUPS = Subjects("group", "--group", "-G", metavar="GROUP", complete=complete_groups)
since_option = duration_option(
    "--since", "since_ms", callback=_before_now, help="The rebalances since then: 10m, 1h30m, PT2H."
)
recording_option = click.option(
    "--file",
    "recordings",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Read a recording (`ottla serve --record`) instead of asking a broker; of several nodes those of all. "
    "A directory stands for all that are in it.",
)


@contextmanager
def opened_recordings(paths: Sequence[Path]) -> Iterator[list[Recording]]:
    """Recordings while they are read, one of each node; what is missing is noted at the end. Raises `Refused`."""
    from ottla.observe.recording import NoRecording, open_recording, recordings_at

    try:
        recordings = [open_recording(one) for path in paths for one in recordings_at(path)]
        yield recordings
    except NoRecording as error:
        raise Refused(f"{error}.") from None
    for recording in recordings:
        which = f" of node {recording.header.node_id}" if len(recordings) > 1 else ""
        for text in recording.notes:
            note(f"Recording{which}: {text}.")


async def no_group(admin: Admin, name: str, more: str = "") -> Refused:
    """The error for a group that does not exist; ``more`` ends the sentence."""
    return missing("group", name, await group_ids(admin, Silent()), more)


async def group_ids(admin: Admin, silent: Silent, **only: Any) -> list[str]:
    """The groups of all brokers that answer, in order; ``only`` as of `ottla.clients.Admin.list_groups`."""
    found = await silent.spare(admin.list_groups(**only))
    return sorted(found) if isinstance(found, dict) else [one.group_id for one in found]


def group_history(bootstrap: str, group_id: str, view: str, **chosen: Any) -> bytes:
    """The history of a group that an Ottla keeps, as `ottla.clients.Admin.describe_group_history` gives it.

    Raises:
        Refused: it knows no such group, or the broker is none of ours.
    """

    async def ask(admin: Admin) -> bytes:
        from ottla.clients.errors import KafkaError, UnsupportedByBroker

        try:
            return await admin.describe_group_history(group_id, view, **chosen)
        except UnsupportedByBroker:
            exists = (await admin.describe_groups([group_id]))[group_id].state != "Dead"
            raise _keeps_no_history(bootstrap, group_id) if exists else await no_group(admin, group_id) from None
        except KafkaError as error:
            if error.code.name == "GROUP_ID_NOT_FOUND":
                raise await no_group(admin, group_id) from None
            raise

    return with_admin(bootstrap, ask)


def _keeps_no_history(bootstrap: str, group_id: str) -> Refused:
    where, group = f"-b {bootstrap}", word(group_id)
    return Refused(
        f"The broker at {bootstrap} keeps no history of groups: only Ottla does. Of Apache Kafka's you can see",
        f"what the group is now:    ottla groups describe {group} {where}",
        f"what it does from now on: ottla groups watch {group} {where}",
        f"until it is as it should: ottla groups wait {group} --members N --lag 0 {where}",
        "what it did, as far as its log tells, without the reasons (`ottla help pipeline`):",
        f"  ottla pipeline available-now {where} && ottla pipeline gold",
        f"  ottla pipeline query rebalances --group {group}",
    )


def has_members(group: GroupDescription, what: str) -> Refused:
    """The error for a group that should be empty; ``what`` cannot be done to it: ``deleted``, ``reset``."""
    who = ", ".join(f"{one.client_id} on {host(one.client_host)}" for one in group.members[:3])
    more = f" and {len(group.members) - 3} more" if len(group.members) > 3 else ""
    return Refused(
        f"Group {group.group_id!r} cannot be {what} while it has members ({group.state}: {who}{more}).",
        f"Stop them, wait until `ottla groups describe {group.group_id} --state` says Empty, and try again.",
    )


def still_to_do(group: GroupDescription, member: MemberDescription) -> str:
    """Why a member of a group of the protocol ``consumer`` is behind: ``gives up orders 1; waits for refunds 0 of b``.

    Empty if it is not behind.
    """
    owners = {tp: one.client_id for one in group.members for tp in one.assignment}
    words = ["away"] if member.member_epoch == AWAY else []
    if member.gives_up:
        words.append(f"has not given up {partitions_in_words(member.gives_up)}")
    by_owner: dict[str, list[TopicPartition]] = {}
    for tp in member.waits_for:
        by_owner.setdefault(owners.get(tp, ""), []).append(tp)
    if group.state == "Stable" and member.waits_for:
        # Who waits keeps its group from being Stable: this one did not subscribe to them.
        words.append(f"does not get {partitions_in_words(member.waits_for)}")
        by_owner.clear()
    for owner, places in sorted(by_owner.items()):
        words.append(f"waits for {partitions_in_words(places)}" + (f" of {owner}" if owner else ""))
    epoch, wanted = member.member_epoch, group.assignment_epoch
    if not words and epoch is not None and wanted is not None and epoch < wanted:
        words.append(f"has not heard of epoch {wanted}")
    return "; ".join(words)


def behind(group: GroupDescription) -> str:
    """The members of a group of the protocol ``consumer`` that are behind, and why: ``a has not given up orders 1``."""
    return ", ".join(
        f"{member.client_id} {words if words != 'away' else 'is away'}"
        for member in group.members
        if (words := still_to_do(group, member))
    )


def awaits_join(group: GroupDescription) -> bool:
    """Whether a group of the protocol ``consumer`` gets a target only when somebody joins: heartbeats of classic
    members bring none.
    """
    if not group.members or group.group_epoch is None or group.assignment_epoch is None:
        return False
    return group.group_epoch > group.assignment_epoch and all(one.protocol == "classic" for one in group.members)


def is_foreign(protocol_type: str) -> bool:
    """Whether a group's members are no consumers: what they were assigned only they can read."""
    return protocol_type not in ("", "consumer")


def type_in_words(group_type: str | None, protocol_type: str) -> str | None:
    """The type of a group: ``classic``, ``consumer``, or such as ``connect`` of members that are no consumers.

    None if the broker does not tell.
    """
    return protocol_type if is_foreign(protocol_type) else group_type or None


def host(text: str) -> str:
    """A client's host as people write it: Kafka puts a slash before it."""
    return text.removeprefix("/")


def assignment_in_words(rows: Iterable[Row]) -> str | None:
    """``orders 0-3,7; refunds 0``, of partitions as JSON has them; None for none."""
    return partitions_in_words((row["topic"], row["partition"]) for row in rows) or None


def partitions_in_words(places: Iterable[tuple[str, int]]) -> str:
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
