"""The end of an episode, and one that still runs."""

from __future__ import annotations

from dataclasses import replace

from msgspec.msgpack import Decoder, Encoder

from ottla.broker.core.events import Event
from ottla.observe.why import judge
from ottla.observe.why.account import Account
from ottla.observe.why.model import Episode
from ottla.observe.why.reconciling import Reconciling, is_holding_up, told
from ottla.observe.why.run import Run, Standing

_encode, _decode = Encoder().encode, Decoder(Episode).decode


def end(account: Account, event: Event, outcome: str, *, charge: bool = True) -> None:
    """The rebalance that runs is over, if one does."""
    run = account.run
    if run is None:
        return
    account.run = None
    if account.reconciling is not None:
        account.reconciling.leave_open(run, event)
    run.close_all(event)
    if charge:
        account.standing.charge(run, event.at_ms)
    if outcome in ("empty", "dead"):
        run.episode.unowned = len(account.standing.since)
        account.standing.since.clear()
    finish(account, run, event, outcome)


def finish(account: Account, run: Run, event: Event, outcome: str) -> None:
    """An episode is over: judge, keep and tell it."""
    if not run.episode.number:
        account.count_run(run)
    account.unsure = None
    run.episode.outcome = outcome
    run.episode.duration_ms = run.at(event)
    judge.conclude(account, run, event)
    if account.interference is not None:
        account.interference.tell(run.episode)
    account.keep(run.episode)
    if judge.is_unsure(run.episode):
        account.unsure = run.episode
    account.told(run.episode)


def reconsider(account: Account, episode: Episode) -> None:
    """Something became known about an episode that is over."""
    if judge.reconsider(account, episode):
        account.unsure = None
        account.replace(episode)


def running(account: Account, now_ms: int | None = None) -> Episode | None:
    """The rebalance that runs, as far as it is known, as a copy.

    Args:
        now_ms: until when it has been running, Unix time; without it until the last thing that happened.
    """
    run = account.run
    if run is None:
        return None
    if account.input is not None and (account.happenings or account.joined):
        account.settle(account.input)
    at_ms = account.present_ms(run, now_ms)
    copy = replace(
        run,
        episode=_decode(_encode(run.episode)),
        awaited=dict(run.awaited),
        longest_ms=dict(run.longest_ms),
        unshared=[*run.unshared],
    )
    if account.interference is not None:
        if paused_ms := account.interference.paused_ms:
            copy.paused(run.start_ms + paused_ms - run.episode.started_ms, at_ms)
        account.interference.tell(copy.episode)
    Standing(dict(account.standing.since)).charge(copy, at_ms)
    judge.preview(copy, at_ms)
    if account.reconciling is not None:
        _present(account.reconciling, copy, at_ms)
    return copy.episode


def _present(reconciling: Reconciling, run: Run, at_ms: int) -> None:
    """What a consumer group waits for now. The culprit is who holds others up for longest (KIP-848)."""
    waits = reconciling.waits(at_ms, run.episode.started_ms + at_ms - run.start_ms)
    holding = next((one.member_id for one in waits if is_holding_up(one, at_ms)), "")
    if waits:
        run.episode.culprit = run.index.get(holding, -1)
    run.episode.member_waits += [told(run, one) for one in waits]


def settle(account: Account, event: Event) -> None:
    """End the episode of a consumer group if everybody has its target."""
    reconciling, run = account.reconciling, account.run
    if reconciling is None or run is None or not reconciling.is_settled or not account.members:
        return
    run.nobody_awaited(event)
    for known in account.members.values():
        run.part(known).after = known.owned
    wanted = {topic for known in account.members.values() for topic, _ in known.partitions()}
    for one in [one for one in account.standing.since if one[0] not in wanted]:
        del account.standing.since[one]
    account.standing.charge(run, event.at_ms)
    run.episode.unowned = len(account.standing.since)
    reconciling.leave_unread(run, event)
    if run.episode.kind == "replacement":
        end(account, event, "replaced", charge=False)
        return
    run.episode.generation_after = reconciling.epoch
    end(account, event, "stable", charge=False)
