"""Those who were turned away: an episode each, or one for all that are alike."""

from __future__ import annotations

from ottla.broker.core.events import ConsumerHeartbeatReceived, JoinReceived, RequestReceived, RequestRefused
from ottla.observe.why.account import Account
from ottla.observe.why.causes import Cause
from ottla.observe.why.members import Asked, Known
from ottla.observe.why.model import Episode, MemberPart, Trigger
from ottla.observe.why.reasons import said
from ottla.observe.why.reconciling import Reconciled, places

MOST_OPEN = 8
"""So many kinds of refusals are counted at a time."""

MOST_CHARACTERS = 200
"""So much is kept of a text of a client's."""

_JOIN = {
    "GROUP_MAX_SIZE_REACHED": Cause.TURNED_AWAY_GROUP_FULL,
    "INCONSISTENT_GROUP_PROTOCOL": Cause.TURNED_AWAY_ASSIGNOR_MISMATCH,
    "INVALID_SESSION_TIMEOUT": Cause.INVALID_SESSION_TIMEOUT,
}


def refused(account: Account, event: RequestRefused) -> None:
    """A request was refused; most refusals are part of a client's daily life and tell nothing."""
    asked = account.input
    if not isinstance(asked, RequestReceived) or asked.number != event.cause:
        return
    if event.error in ("FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID"):
        _fenced(account, event, asked)
    elif isinstance(asked, ConsumerHeartbeatReceived) and event.error == "FENCED_MEMBER_EPOCH":
        _fenced_epoch(account, event, asked)
    elif isinstance(asked, ConsumerHeartbeatReceived) and event.error == "GROUP_MAX_SIZE_REACHED":
        facts = {"error": event.error, "members": str(len(account.members))}
        _refused_member(account, event, asked, Cause.TURNED_AWAY_GROUP_FULL, facts)
    elif isinstance(asked, ConsumerHeartbeatReceived) and event.error == "UNSUPPORTED_ASSIGNOR":
        facts = {"error": event.error, "offered": (asked.server_assignor or "")[:MOST_CHARACTERS]}
        _refused_member(account, event, asked, Cause.TURNED_AWAY_UNKNOWN_ASSIGNOR, facts)
    elif isinstance(asked, ConsumerHeartbeatReceived) and event.error == "INVALID_REGULAR_EXPRESSION":
        facts = {"error": event.error, "regex": (asked.regex or "")[:MOST_CHARACTERS]}
        _refused_member(account, event, asked, Cause.TURNED_AWAY_INVALID_REGEX, facts)
    elif isinstance(asked, JoinReceived) and (cause := _JOIN.get(event.error)) is not None:
        _turned_away(account, event, asked, cause)


def _turned_away(account: Account, event: RequestRefused, join: JoinReceived, cause: str) -> None:
    facts: dict[str, str] = {"error": event.error, "members": str(len(account.members))}
    if cause == Cause.TURNED_AWAY_ASSIGNOR_MISMATCH:
        if account.protocol_type not in (None, "") and join.protocol_type != account.protocol_type:
            cause = Cause.TURNED_AWAY_PROTOCOL_TYPE
        elif account.reconciling is not None and _has_common_assignor(account, join):
            cause = Cause.TURNED_AWAY_CLASSIC  # a consumer group asks for nothing else but what the policy says
        facts |= mismatch(account, join)
    elif cause == Cause.INVALID_SESSION_TIMEOUT:
        facts["session_timeout_ms"] = str(join.session_timeout_ms)
    key = (cause, join.client_id, join.client_host, facts.get("offered", ""))
    if _again(account, key, event):
        return
    asked = Asked(join.protocol_type, join.protocols)
    part = MemberPart(
        join.member_id,
        join.client_id,
        join.client_host,
        join.group_instance_id,
        came_ms=0,
        fate="refused",
        topics=asked.topics or [],
        session_timeout_ms=join.session_timeout_ms,
        rebalance_timeout_ms=max(join.rebalance_timeout_ms, 0),
        protocols=asked.names,
    )
    _begin(account, key, event, [part], Trigger(cause, 0, 0, said(join.reason), facts))


def _fenced_epoch(account: Account, event: RequestRefused, asked: ConsumerHeartbeatReceived) -> None:
    known = account.members.get(event.member_id)
    facts = {"error": event.error, "received": str(asked.generation)}
    if isinstance(known, Reconciled) and account.reconciling is not None:
        names = account.reconciling.names
        facts |= {"known": str(known.epoch), "previous": str(known.previous_epoch)}
        if asked.generation == known.previous_epoch:
            more = [one for one in places(asked.owned or (), names) if one not in known.has]
            facts["says"] = "nothing" if asked.owned is None else ", ".join(f"{topic}-{one}" for topic, one in more[:5])
    _refused_member(account, event, asked, Cause.FENCED_EPOCH, facts)


def _refused_member(
    account: Account, event: RequestRefused, asked: ConsumerHeartbeatReceived, cause: str, facts: dict[str, str]
) -> None:
    key = (cause, event.member_id, asked.client_id, asked.client_host)
    if _again(account, key, event):
        account.refusals[key].triggers[0].facts = facts
        return
    known = account.members.get(event.member_id)
    part = MemberPart(event.member_id, asked.client_id, asked.client_host, asked.group_instance_id)
    part = part if known is None else known.part()
    part.fate, part.came_ms = "refused", 0
    _begin(account, key, event, [part], Trigger(cause, 0, 0, "", facts))


def _fenced(account: Account, event: RequestRefused, asked: RequestReceived) -> None:
    """Somebody still uses an id whose place another process took: both live."""
    instance = asked.group_instance_id or ""
    replaced = account.departures.replaced_ids.get(event.member_id)
    holder = next((one for one in account.members.values() if one.group_instance_id == instance), None)
    is_intruder = event.error == "UNRELEASED_INSTANCE_ID"  # in a consumer group who has the id keeps it
    facts = {"error": event.error, "api": asked.api, "instance": instance}
    if is_intruder:
        facts["refused"] = _where(asked.client_id, asked.client_host)
    if holder is not None:
        facts["new"] = _where(holder.client_id, holder.client_host)
    if replaced is not None:
        facts["old"] = _where(replaced.known.client_id, replaced.known.client_host)
        facts["after_ms"] = str(event.at_ms - replaced.at_ms)
        flaps = account.departures.flaps(replaced.known, event.wall_ms)
        facts["replaced_times"] = str(flaps)
    key = (Cause.DUPLICATE_INSTANCE_ID, instance)
    if _again(account, key, event):
        account.refusals[key].triggers[0].facts = facts
        return
    client_id = asked.client_id or ("" if replaced is None else replaced.known.client_id)
    client_host = asked.client_host or ("" if replaced is None else replaced.known.client_host)
    parts = [MemberPart(event.member_id, client_id, client_host, None if is_intruder else instance, fate="refused")]
    if holder is not None:
        parts.append(holder.part())
    culprit = 0 if is_intruder else len(parts) - 1
    _begin(account, key, event, parts, Trigger(Cause.DUPLICATE_INSTANCE_ID, culprit, 0, "", facts))


def _again(account: Account, key: tuple[str, ...], event: RequestRefused) -> bool:
    if (same := account.refusals.get(key)) is None:
        return False
    same.times += 1
    same.last_ms = event.wall_ms
    return True


def _begin(
    account: Account, key: tuple[str, ...], event: RequestRefused, parts: list[MemberPart], why: Trigger
) -> None:
    account.count += 1
    if len(account.refusals) >= MOST_OPEN:
        account.keep(account.refusals.pop(next(iter(account.refusals))))
    account.refusals[key] = Episode(
        number=account.count,
        kind="refusal",
        group_id=account.group_id,
        started_ms=event.wall_ms,
        duration_ms=0,
        state_before=account.state,
        generation_before=account.generation,
        generation_after=account.generation,
        outcome="refused",
        protocol_name=account.protocol_name,
        protocol="" if account.reconciling is None else "consumer",
        cause=why.cause,
        culprit=why.member,
        triggers=[why],
        members=parts,
        last_ms=event.wall_ms,
    )
    account.told(account.refusals[key])


def _others(account: Account, join: JoinReceived) -> list[Known]:
    """The other members that have assignors: for those of the consumer protocol the broker assigns."""
    return [one for one in account.members.values() if one.is_classic and one.member_id != join.member_id]


def _has_common_assignor(account: Account, join: JoinReceived) -> bool:
    others = [one.asked.names for one in _others(account, join)]
    return any(all(protocol.name in names for names in others) for protocol in join.protocols)


def mismatch(account: Account, join: JoinReceived) -> dict[str, str]:
    """The assignors of a member and of the others, and those that have nothing in common with it."""
    offered = [protocol.name for protocol in join.protocols]
    others = _others(account, join)
    common = set(others[0].asked.names) if others else set()
    for one in others[1:]:
        common &= set(one.asked.names)
    without = [_name(one) for one in others if not common & set(offered) and not set(one.asked.names) & set(offered)]
    order = others[0].asked.names if others else []
    return {
        "offered": ", ".join(offered),
        "group_has": ", ".join(name for name in order if name in common),
        "protocol_type": join.protocol_type,
        "group_type": account.protocol_type or "",
        "in_use": account.protocol_name,
        "without": ", ".join(list(dict.fromkeys(without))[:5]),
    }


def _where(client_id: str, client_host: str) -> str:
    return f"{client_id} at {client_host.removeprefix('/')}"


def _name(known: Known) -> str:
    return known.group_instance_id or known.client_id or known.member_id
