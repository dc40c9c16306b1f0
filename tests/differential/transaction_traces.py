"""The transaction coordinator, request by request."""

from __future__ import annotations

import time

from ottla.protocol.apis import ApiKey
from tests.differential.log_calls import is_served, made, produce, until
from tests.differential.tracing import Trace
from tests.differential.txn_calls import (
    NOBODY,
    WHO,
    Producer,
    add,
    add_offsets,
    at_both_levels,
    batches,
    commit_offsets,
    describe,
    end,
    init,
    listed,
    note_transactions,
    rest,
    transactional,
)
from tests.support.requests import offset_fetch_fields

PATTERNS = (
    *(".*", "NAME-[ab]", "[ab]", "NAME-a|NAME-d", "NAME-(a|b)+$", "^NAME-a$", "(?i)NAME-A", "NAME-(?:c)", ".+?-[^ab]"),
    *("", "(", "[", "*", "a{2,1}", "(?!x).*", r"(.)\1", "(?=x)x", "(?>a)", "a++", r"\\", "(?P<n>.*)-a"),
    *(r"\d+", "[[:alpha:]-]*a", r"\w+\.?\w*-a", r".*\bb", "txn.{3,9}a", r"[\w-]+", r"[\d\w-]*[^\W]"),
)
"""Patterns for ids; RE2 has no look-ahead, no references and no possessive repetition."""


def trace_txn_find_coordinator(t: Trace) -> None:
    for version in range(5):
        keys = {"coordinator_keys": [t.name, "", f"{t.name}-b"]} if version >= 4 else {"key": t.name}
        for kind in (0, 1, 2, 9) if version else (0,):
            t.call(WHO, ApiKey.FIND_COORDINATOR, version, **keys, **({"key_type": kind} if version else {}))


def trace_txn_init(t: Trace) -> None:
    for version in range(6):
        init(t, version)
        init(t, version, timeout=0)
        init(t, version, timeout=-5)
        init(t, version, timeout=900_000)
        init(t, version, timeout=900_001)
        init(t, version, name="")
        init(t, version, name=f"{t.name}-{version}")
        describe(t, t.name, f"{t.name}-{version}")
    note_transactions(t)


def trace_txn_init_expected(t: Trace) -> None:
    for version in (3, 4, 5):
        who = init(t, version)
        init(t, version, expected=Producer(who.id, -1))
        init(t, version, expected=Producer(-1, 3))
        init(t, version, expected=who.at(who.epoch + 1))
        init(t, version, expected=Producer(who.id + 100_000, 0))
        bumped = init(t, version, expected=who)
        init(t, version, expected=who)
        init(t, version, expected=bumped)
        init(t, version, expected=who)
        init(t, version, expected=bumped)
        init(t, version)
        init(t, version, expected=bumped)
        init(t, version, expected=bumped.at(32_766))
        init(t, version, name=f"{t.name}-new-{version}", expected=Producer(123_456_789, 5))
    note_transactions(t)


def trace_txn_init_fences(t: Trace) -> None:
    name = made(t, count=2)
    for version in range(6):
        who = init(t, version)
        add(t, who, {name: [0, 1]})
        if version >= 3:
            init(t, version, expected=Producer(who.id + 100_000, 0))
            init(t, version, expected=who.at(who.epoch + 9))  # an epoch that it never had
        else:
            init(t, version)
        rest(t)
        describe(t)
        add(t, who, {name: [0]})
        end(t, who)
        end(t, who, 5, commit=False)
        init(t, version, timeout=30_000)
        describe(t)
        produce(t, name, transactional(who), transactional_id=t.name)
    batches(t, name, isolation=1)
    note_transactions(t)


def trace_txn_add_partitions(t: Trace) -> None:
    name = made(t, count=3)
    for version in range(6):
        who = init(t)
        old = who.at(who.epoch - 1)
        for asker in (who, old, who.at(who.epoch + 1), Producer(who.id + 100_000, 0), NOBODY):
            for partitions in (
                {name: [0]},
                {name: [2, 1]},
                {name: [0, 2]},
                {name: [3]},
                {f"{t.name}-no": [0], name: [0]},
            ):
                add(t, asker, partitions, version)
                describe(t)
        add(t, who, {name: [0, 0, 1]}, version)
        add(t, who, {}, version)
        add(t, who, {name: [0]}, version, name="")
        add(t, who, {name: [0]}, version, name=f"{t.name}-no")
        end(t, who, 4, commit=version % 2 == 0)
        add(t, who, {name: [1]}, version)
        describe(t)
        end(t, who, 4)
        add(t, who, {"__consumer_offsets": [0]}, version)
        add(t, who, {"__transaction_state": [0]}, version)
        describe(t)
        end(t, who, 4)
        empty = init(t, name=f"{t.name}-empty-{version}")
        add(t, empty, {}, version, name=f"{t.name}-empty-{version}")
        describe(t, f"{t.name}-empty-{version}")
        end(t, empty, 4, name=f"{t.name}-empty-{version}")
        describe(t, f"{t.name}-empty-{version}")
    note_transactions(t)


def trace_txn_verify(t: Trace) -> None:
    name = made(t, count=3)
    for version in (4, 5):
        who = init(t)
        add(t, who, {name: [0]}, version, verify=True)
        add(t, who, {name: [0, 1]}, version)
        for asker in (who, who.at(who.epoch + 1), who.at(who.epoch - 1), Producer(who.id + 100_000, 0)):
            for partitions in ({name: [0]}, {name: [0, 2]}, {name: [2]}, {name: [7]}, {}):
                add(t, asker, partitions, version, verify=True)
        add(t, who, {name: [0]}, version, verify=True, name="")
        add(t, who, {name: [0]}, version, verify=True, name=f"{t.name}-no")
        end(t, who, 5)
        add(t, who, {name: [0]}, version, verify=True)
        add(t, who.at(who.epoch + 1), {name: [0]}, version, verify=True)


def trace_txn_batched(t: Trace) -> None:
    name = made(t, count=3)
    for version in (4, 5):
        names = [f"{t.name}-{version}-{letter}" for letter in "abc"]
        whos = [init(t, name=each) for each in names]
        add(t, whos[2], {name: [0]}, 3, name=names[2])
        rows = [
            {
                "transactional_id": each,
                "producer_id": who.id,
                "producer_epoch": who.epoch + (number == 1),
                "verify_only": number == 2,
                "topics": [{"name": name, "partitions": [0, 1]}],
            }
            for number, (each, who) in enumerate(zip(names, whos, strict=True))
        ]
        t.call(WHO, ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=rows)
        describe(t, *names)
    note_transactions(t)


def trace_txn_add_offsets(t: Trace) -> None:
    for version in range(5):
        who = init(t)
        for asker in (who.at(who.epoch - 1), who.at(who.epoch + 1), Producer(who.id + 100_000, 0), NOBODY, who, who):
            add_offsets(t, asker, version)
        add_offsets(t, who, version, name="")
        add_offsets(t, who, version, name=f"{t.name}-no")
        add_offsets(t, who, version, group=f"{t.name}-other")
        describe(t)
        end(t, who, commit=version % 2 == 0)
    note_transactions(t)


def trace_txn_end(t: Trace) -> None:
    name = made(t, count=2)
    for version in range(6):
        for commit in (True, False):
            who = init(t)
            end(t, who, version, commit=commit)  # nothing to end; with version 5 an abort is one, and raises the epoch
            who = init(t)
            add(t, who, {name: [0, 1]}, 4 if version == 5 else 3)
            for asker in (who.at(who.epoch - 1), who.at(who.epoch + 1), Producer(who.id + 100_000, 0), NOBODY):
                end(t, asker, version, commit=commit)
            end(t, who, version, commit=commit, name="")
            end(t, who, version, commit=commit, name=f"{t.name}-no")
            after = end(t, who, version, commit=commit)
            describe(t)
            end(t, who, version, commit=commit)
            end(t, who, version, commit=not commit)
            end(t, who, 4, commit=commit)
            if version == 5:
                end(t, after, version, commit=True)
                after = end(t, after, version, commit=False)
                describe(t)
                end(t, after.at(after.epoch - 1), version, commit=False)
                end(t, after.at(after.epoch - 1), version, commit=True)
                end(t, after.at(after.epoch - 2), version, commit=False)
                end(t, after.at(after.epoch + 1), version, commit=False)
                add(t, after, {name: [1]}, 4)
                end(t, after, version, commit=True)
    batches(t, name, isolation=1)
    note_transactions(t)


def trace_txn_whole(t: Trace) -> None:
    """Records of committed and aborted transactions, read with both isolation levels."""
    name = made(t, count=2)
    until(lambda: is_served(t, name, 1))
    who = init(t)
    for number, commit in enumerate((True, False, True, False, False)):
        add(t, who, {name: [0, 1]})
        for partition in (0, 1):
            produce(t, name, transactional(who, number * 2, 2), transactional_id=t.name, partition=partition, version=9)
        describe(t)
        at_both_levels(t, name)
        end(t, who, commit=commit)
        for isolation in (0, 1):
            batches(t, name, isolation=isolation)
            batches(t, name, 3, isolation=isolation, partition=1)
    note_transactions(t)


def trace_txn_whole_v2(t: Trace) -> None:
    """The same with transaction version 2: partitions join as they are written to, and each end raises the epoch."""
    name = made(t, count=2)
    until(lambda: is_served(t, name, 1))
    who = init(t)
    for commit in (True, False, True):
        produce(t, name, transactional(who, 0, 2), transactional_id=t.name, version=12)
        describe(t)
        produce(t, name, transactional(who, 0, 2), transactional_id=t.name, partition=1, version=12)
        produce(t, name, transactional(who, 2, 2), transactional_id=t.name, version=12)
        describe(t)
        at_both_levels(t, name)
        old, who = who, end(t, who, 5, commit=commit)
        at_both_levels(t, name)
        produce(t, name, transactional(old, 4, 2), transactional_id=t.name, version=12)
    produce(t, name, transactional(who, 0, 2), transactional_id=f"{t.name}-no", version=12)
    produce(t, name, transactional(who, 0, 2), transactional_id=f"{t.name}-no", version=9)
    produce(t, name, transactional(who, 0, 2), transactional_id=t.name, version=9)  # which was not added
    describe(t)
    note_transactions(t)


def trace_txn_offsets(t: Trace) -> None:
    name = made(t, count=2)
    for version in range(6):
        who = init(t)
        if version < 5:
            commit_offsets(t, who, name, version, version)  # which takes no part yet
            add_offsets(t, who)
        for commit in (True, False):
            commit_offsets(t, who, name, 10 * version + commit, version)
            commit_offsets(t, who, name, 7, version, partition=9)
            commit_offsets(t, who.at(who.epoch + 3), name, 7, version)
            commit_offsets(t, Producer(who.id + 100_000, 0), name, 7, version)
            commit_offsets(t, who, name, 7, version, name=f"{t.name}-no")
            if version >= 3:
                commit_offsets(t, who, name, 7, version, generation_id=3, member_id="nobody")
            fetch_offsets(t)
            who_after = end(t, who, 5 if version == 5 else 4, commit=commit)
            fetch_offsets(t)
            if version == 5:
                who = who_after
            else:
                add_offsets(t, who)
        end(t, who, 5 if version == 5 else 4, commit=False)
    note_transactions(t)


def fetch_offsets(t: Trace) -> None:
    for stable in (False, True):
        t.call(WHO, ApiKey.OFFSET_FETCH, 8, **offset_fetch_fields(t.name, stable=stable))


def trace_txn_timeout(t: Trace) -> None:
    name = made(t)
    who = init(t, timeout=600)
    add(t, who, {name: [0]})
    produce(t, name, transactional(who, 0, 2), transactional_id=t.name)
    batches(t, name, isolation=1)
    time.sleep(1.5)
    rest(t)
    describe(t)
    batches(t, name, isolation=1)
    add(t, who, {name: [0]})
    end(t, who)
    end(t, who, 5)
    produce(t, name, transactional(who, 2, 2), transactional_id=t.name)
    init(t, expected=who)
    describe(t)
    note_transactions(t)


def trace_txn_topic_deleted(t: Trace) -> None:
    name, other = made(t), made(t, "b")
    who = init(t)
    add(t, who, {name: [0], other: [0]})
    t.call(WHO, ApiKey.DELETE_TOPICS, 5, topic_names=[name], timeout_ms=5000)
    time.sleep(0.5)
    end(t, who)
    describe(t)
    note_transactions(t)


def trace_txn_describe(t: Trace) -> None:
    name = made(t, count=3)
    who = init(t)
    describe(t, t.name, "", f"{t.name}-no", t.name)
    add(t, who, {name: [2, 0]})
    describe(t)
    t.call(WHO, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[])
    end(t, who, wait=True)
    describe(t)


def trace_txn_list(t: Trace) -> None:
    name = made(t)
    letters = {letter: init(t, name=f"{t.name}-{letter}") for letter in "abcd"}
    for letter in "bcd":
        add(t, letters[letter], {name: [0]}, name=f"{t.name}-{letter}")
    end(t, letters["c"], name=f"{t.name}-c")
    end(t, letters["d"], name=f"{t.name}-d", commit=False)
    ids = [who.id for who in letters.values()]
    for version in range(3):
        listed(t, version)
        for states in (["Empty"], ["Ongoing", "CompleteCommit"], ["ongoing"], ["Nope", "Empty", "Other"], ["Dead"],
                       ["PrepareEpochFence"], ["CompleteAbort", "CompleteAbort"], [""]):  # fmt: skip
            listed(t, version, state_filters=states)
        listed(t, version, producer_id_filters=[ids[0], ids[2], 99_999_999])
        listed(t, version, producer_id_filters=[-1])
        listed(t, version, producer_id_filters=ids, state_filters=["Ongoing"])
        if version >= 1:
            for duration in (-1, -2, 0, 1, 3_600_000):
                listed(t, version, duration_filter=duration)
                listed(t, version, duration_filter=duration, state_filters=["Ongoing"])
        if version >= 2:
            for pattern in PATTERNS:
                listed(t, version, transactional_id_pattern=pattern.replace("NAME", t.name))


def trace_txn_api_versions(t: Trace) -> None:
    """Of the features, only those of transactions are compared."""
    for version in range(5):
        named = {"client_software_name": "a", "client_software_version": "1"} if version >= 3 else {}
        answer = t.ask(ApiKey.API_VERSIONS, version, _who="features", **named)
        t.answers += 1
        mine = "transaction.version"
        t.note(f"supported v{version}", [(row.min_version, row.max_version) for row in answer.supported_features
                                         if row.name == mine])  # fmt: skip
        t.note(f"finalized v{version}", [(row.min_version_level, row.max_version_level)
                                         for row in answer.finalized_features if row.name == mine])  # fmt: skip
        t.note(f"epoch v{version}", answer.finalized_features_epoch >= 0)
        t.note(f"versions v{version}", [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys
                                        if row.api_key in (24, 25, 26, 28, 65, 66)])  # fmt: skip


def trace_slow_txn_epochs(t: Trace) -> None:
    """Epochs that are used up; it takes a minute to get there, so it runs only where it is asked for."""
    name = made(t)
    for scenario in ("end", "expected", "fence", "timeout"):
        each = f"{t.name}-{scenario}"
        timeout_ms = 1_000 if scenario == "timeout" else 60_000
        mine = {"transactional_id": each, "transaction_timeout_ms": timeout_ms}
        who = NOBODY
        while who.epoch < 32_765:
            answer = t.ask(ApiKey.INIT_PRODUCER_ID, 5, _who="bumper", **mine)
            who = Producer(answer.producer_id, answer.producer_epoch)
        who = init(t, name=each, timeout=timeout_ms)
        describe(t, each)
        if scenario != "expected":
            add(t, who, {name: [0]}, 4, name=each)
        if scenario == "timeout":
            time.sleep(2)
            rest(t, each)
        if scenario == "expected":
            # An older epoch is a bug for Kafka here (UNKNOWN_SERVER_ERROR); we say PRODUCER_FENCED.
            init(t, name=each, expected=who)
            after = init(t, name=each, expected=who)
            init(t, name=each, expected=who.at(32_765))
            init(t, name=each, expected=after)
        elif scenario == "fence":
            init(t, name=each)
            rest(t, each)
            init(t, name=each)
        else:
            end(t, who, 5, name=each, commit=scenario == "end")
            describe(t, each)
            end(t, who, 5, name=each, commit=scenario == "end")
            end(t, who, 5, name=each, commit=scenario != "end")
            end(t, who, 4, name=each)
            end(t, who.at(32_767), 5, name=each)
            init(t, name=each, expected=who)
        describe(t, each)
        batches(t, name)
