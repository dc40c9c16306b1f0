"""The episodes of a group, which `why` explains.

An episode is a rebalance from its trigger to its end, or something that happened to the group without one: somebody was
turned away, a static member came back in silence, the group was loaded. All times are Unix time in milliseconds; all
durations are milliseconds. The structs are the JSON of ``ottla why --format json``, of ``/v1/groups/…/why`` and of the
timeline.
"""

from __future__ import annotations

from msgspec import Struct

HERE = frozenset(("stayed", "new", "returned", "replaced"))
"""The fates of who is a member afterwards; see `MemberPart`."""


class MemberPart(Struct, omit_defaults=True):
    """One member's part in an episode.

    Attributes:
        came_ms: when its JoinGroup came, after the start; -1 if it never came.
        synced_ms: when its SyncGroup came, after the start; -1 if it never came.
        heard_ms: when it was last heard of before it was removed, as Unix time; 0 if it was not removed.
        disconnected_ms: when its connection was lost, as Unix time; 0 if it was not.
        fate: ``stayed``, ``new``, ``returned``, ``replaced``, ``left``, ``expired``, ``dropped`` (missed the join
            barrier), ``unsynced`` (missed the sync barrier), ``refused``, ``vanished`` (was given an id, and never came
            back with it).
        reason: what the client said, empty if nothing.
        before, after: how many partitions it owned before and owns afterwards.
        stood_ms: partition-milliseconds for which what it owned stood still.
        blamed_ms: partition-milliseconds that stood still on its account, whoever owned what did; docs/why.md says
            how they are divided. Those of all members are the `Episode.stood_ms`, but for what nobody began.
        topics: what it subscribes to.
        session_timeout_ms, rebalance_timeout_ms: what it asked for, 0 if that is not known. Java's client, librdkafka
            and aiokafka send ``max.poll.interval.ms`` as the second.
        protocols: the names of its assignors, in its order; only where they matter.
    """

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None = None
    is_leader: bool = False
    came_ms: int = -1
    synced_ms: int = -1
    heard_ms: int = 0
    disconnected_ms: int = 0
    fate: str = "stayed"
    reason: str = ""
    before: int = 0
    after: int = 0
    stood_ms: int = 0
    blamed_ms: int = 0
    topics: list[str] = []
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = 0
    protocols: list[str] = []


class Move(Struct, array_like=True):
    """A partition that changed hands; indexes into `Episode.members`, -1 for nobody."""

    topic: str
    partition: int
    owner_before: int
    owner_after: int


class Wait(Struct, omit_defaults=True):
    """A barrier of the episode.

    Attributes:
        barrier: ``initial delay``, ``join`` or ``sync``.
        opened_ms: after the start; closed_ms: the same, -1 while it is open.
        limit_ms: how long it would have waited at most.
        last: indexes into `Episode.members` of those who kept it open to the end, most often one.
        absent: of those who never came and were dropped.
        pending_ids: ids that were issued and held it open without coming back.
    """

    barrier: str
    opened_ms: int
    closed_ms: int = -1
    limit_ms: int = 0
    last: list[int] = []
    absent: list[int] = []
    pending_ids: list[str] = []


class MemberWait(Struct, omit_defaults=True):
    """What a consumer group waited for, or waits for (KIP-848): one thing that a member had not done.

    Attributes:
        kind: ``told-to-revoke`` (it was told to give partitions up and not heard of since), ``still-owns`` (it was
            heard of, and says that it has them), ``says-nothing`` (it was heard of and does not say), ``not-heard`` (it
            has not come for its new target in time), ``next-heartbeat`` (it hears of its new target with that),
            ``waits-for-release`` (others have what it shall have), ``free`` (they have given it up, and the member
            gets it with its next heartbeat), ``away`` (a static
            member is gone for a while), ``interval`` (the next target may not be computed yet), ``nobody-heartbeats``
            (it may, with the next heartbeat of anybody), ``nobody-joins`` (it may, and as all members are classic, only
            with the next JoinGroup), ``must-rejoin`` and ``must-sync`` (a
            classic member has to do that), ``regex`` (its regex has not been held against the topics). As an
            episode ends: ``not-subscribed`` (its target has partitions that it did not subscribe to) and ``no-target``
            (its regex matches topics, and nobody has their partitions in a target).
        member_id: of who has not done it; empty in what is told, which has ``member``, an index into `Episode.members`.
        since_ms: after the start of the episode; until_ms: the same, -1 while it lasts.
        limit_ms: when it ends at the latest, after the start: the member is removed then, or its next heartbeat is
            due; 0 if there is no limit.
        partitions: that it is about, as ``orders-1``, the first of them; untold: how many more there are.
        blocks: ids of members that wait for that; in what is told it is ``blocked``, indexes.
        beats: how often the member was heard of meanwhile.
        is_cut_off: the member went before it had done it; goes_on: the episode ended before that.
    """

    kind: str
    member_id: str = ""
    since_ms: int = 0
    until_ms: int = -1
    limit_ms: int = 0
    partitions: list[str] = []
    blocks: list[str] = []
    beats: int = 0
    member: int = -1
    blocked: list[int] = []
    is_cut_off: bool = False
    untold: int = 0
    goes_on: bool = False


class Trigger(Struct, omit_defaults=True):
    """One of the things that began the episode, or added to it while it ran.

    Attributes:
        cause: the class, one of `ottla.observe.why.causes.Cause`; ``unknown`` rather than a guess.
        member: index into `Episode.members` of who did it, -1 for nobody.
        at_ms: after the start of the episode; 0 for what began it.
        reason: the client's or the coordinator's own words.
        facts: what the class is known by, with names and numbers as text.
    """

    cause: str
    member: int = -1
    at_ms: int = 0
    reason: str = ""
    facts: dict[str, str] = {}


class Fault(Struct, omit_defaults=True):
    """A fault that somebody had set, and what it did to one kind of requests of one member.

    Attributes:
        name: of the fault.
        api: of the requests.
        done: what it did, such as ``dropped the answer``.
        member_id, client_id: who sent them; the member id is empty where it had none yet.
        first_ms, last_ms: when it did so first and last, as Unix time; times: how often.
    """

    name: str
    api: str
    done: str
    member_id: str
    client_id: str
    first_ms: int
    last_ms: int
    times: int = 1


class Pause(Struct, omit_defaults=True):
    """A time in which no session and no barrier of the group ran, as Unix time; ``until_ms`` is 0 while it lasts."""

    from_ms: int
    until_ms: int = 0


class Advice(Struct, omit_defaults=True):
    """One thing to do.

    Attributes:
        text: the sentence.
        setting: the name of the setting that it is about, empty for none; of_client: whether it is the client's.
        value: what it is at present, empty if that is not known.
    """

    text: str
    setting: str = ""
    of_client: bool = True
    value: str = ""


class Episode(Struct, omit_defaults=True):
    """See the module.

    Attributes:
        number: counts the episodes of the group, from 1.
        kind: ``rebalance``, ``refusal``, ``replacement``, ``loaded``, ``stopped`` (the broker did, or gave it up),
            ``resolution`` (a regex matches nothing), ``conversion`` (it is of the other protocol from now on).
        started_ms: Unix time; duration_ms: from the trigger to the end, -1 while it runs.
        generation_before, generation_after: -1 where there is none.
        outcome: ``stable``, ``empty``, ``superseded`` (another rebalance began before the group was Stable), ``dead``,
            ``running``, ``refused``, ``replaced``, ``loaded``, ``resolved``, ``converted``.
        culprit: index into ``members`` of the member on whose account partitions stood still most, if that took a
            second or more; else of the one that began it; -1 if there is none. docs/why.md has the whole rule.
        triggers: what began it, which comes first, and what added to it; untold: how many more there were.
        stood_ms: partition-milliseconds in which nobody consumed; longest_ms: of the partition that stood longest.
        stopped: how many partitions stood still at some time; unowned: how many had no owner at the end.
        waits: the barriers, of groups of the classic protocol; member_waits: what a consumer group waited for, in the
            order in which it was over, and what it waits for.
        moved: how many partitions changed hands; ``moves`` has the first of them.
        partitions_known: whether assignments could be read; if not, nothing is said of partitions.
        faults: those that took hold of requests while it ran, or before it of members that began it or added to it; of
            the last episode of a group also those since. faults_untold: how often further ones did.
        pauses: the same of pauses.
        times: how often the same refusal was repeated; last_ms: when, as Unix time.
        now_ms: when this was asked, as Unix time, for one that runs; 0 if that is not known.
        protocol: ``consumer`` of a consumer group (KIP-848); empty for the classic protocol.
        headline: one sentence; sentences: the whole story, in order; both in plain words.
    """

    number: int
    kind: str
    group_id: str
    started_ms: int
    duration_ms: int = -1
    state_before: str = ""
    generation_before: int = -1
    generation_after: int = -1
    outcome: str = "running"
    protocol_name: str = ""
    cause: str = "unknown"
    culprit: int = -1
    triggers: list[Trigger] = []
    waits: list[Wait] = []
    member_waits: list[MemberWait] = []
    members: list[MemberPart] = []
    moves: list[Move] = []
    stood_ms: int = 0
    longest_ms: int = 0
    stopped: int = 0
    unowned: int = 0
    moved: int = 0
    partitions_known: bool = True
    untold: int = 0
    faults: list[Fault] = []
    faults_untold: int = 0
    pauses: list[Pause] = []
    times: int = 1
    last_ms: int = 0
    now_ms: int = 0
    protocol: str = ""
    headline: str = ""
    sentences: list[str] = []
    advice: list[Advice] = []
