"""Random rules, and requests of those whom they are about: every API, by five users, from two addresses."""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.protocol.apis import ApiKey
from tests.differential.moves import versions
from tests.differential.pairs import Move, move
from tests.differential.permission_calls import CLUSTER, INSTEAD, NAMES, OPERATIONS, TABLE, rule
from tests.differential.users import LETTERS

STEPS = 40
RULES = 12
A, R = AclOperation, Resource

OF_KIND = {
    R.TOPIC: (A.READ, A.WRITE, A.CREATE, A.DELETE, A.ALTER, A.DESCRIBE, A.DESCRIBE_CONFIGS, A.ALTER_CONFIGS),
    R.GROUP: (A.READ, A.READ, A.DELETE, A.DESCRIBE, A.DESCRIBE_CONFIGS, A.ALTER_CONFIGS),
    R.CLUSTER: (A.CREATE, A.DELETE, A.ALTER, A.DESCRIBE, A.CLUSTER_ACTION, A.DESCRIBE_CONFIGS, A.ALTER_CONFIGS,
                A.IDEMPOTENT_WRITE),
    R.TRANSACTIONAL_ID: (A.WRITE, A.WRITE, A.DESCRIBE),
}  # fmt: skip
KINDS = [R.TOPIC] * 5 + [R.GROUP] * 3 + [R.CLUSTER] * 2 + [R.TRANSACTIONAL_ID]
LITERAL = {R.TOPIC: "@a @a @b @c @n *", R.GROUP: "@ @ @o *", R.TRANSACTIONAL_ID: "@t @t *"}
PREFIXES = {R.TOPIC: "@ @a @b", R.GROUP: "@ @o", R.TRANSACTIONAL_ID: "@ @t"}
OTHERS = [row for row in TABLE if not row.startswith(("JOIN_GROUP", "CONSUMER_GROUP_HEARTBEAT"))]
LISTING = [
    row
    for row, found in TABLE.items()
    if found.key in OPERATIONS
    or row.endswith("of all")
    or found.key in (ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_TOPIC_PARTITIONS)
]


def _rule(r: Random) -> dict[str, Any]:
    """Rules for everybody name what is the trace's own, or hold for its own address."""
    kind = r.choice(KINDS)
    operation = A.ALL if r.random() < 0.2 else r.choice(OF_KIND[kind])
    if kind is R.CLUSTER:
        name, is_prefix = CLUSTER, False
    else:
        is_prefix = r.random() < 0.3
        name = r.choice((PREFIXES if is_prefix else LITERAL)[kind].split())
    principal = f"User:~{r.choice(LETTERS[:4])}"
    host = r.choice(["*", "*", "*", "%1", "%2"])
    if r.random() < 0.15:
        principal = "User:*"
        host = host if name.startswith("@") else r.choice(["%1", "%2"])
    elif r.random() < 0.04:
        principal = f"Group:~{r.choice(LETTERS)}"
    return rule(principal, operation, kind, name, is_prefix=is_prefix, host=host, denies=r.random() < 0.25)


def _ask(r: Random, row: str, *, operations: bool) -> Move:
    found = TABLE[row]
    topics = r.sample(["@a", "@b", "@c"], r.choice([1, 1, 2, 3]))
    names = NAMES | ({"team": "@o"} if r.random() < 0.2 else {})
    least = 4 if found.key is ApiKey.METADATA else 0
    version = r.choice([version for version in versions(found.key) if version in found.of and version >= least])
    more = INSTEAD.get(found.key, {}) | (OPERATIONS.get(found.key, {}) if operations else {})
    fields: dict[str, Any] = {"topics": topics, "names": names, "more": more}
    return move("asked", who=f"~{r.choice(LETTERS)}", host=f"%{r.choice('112')}", row=row, version=version, **fields)


def _trace(r: Random, rows: list[str], chance_of_operations: float) -> list[Move]:
    rules = [_rule(r) for _ in range(RULES)]
    moves = [move("commit_alone", version=8), move("allow", rules=list(rules))]
    for _ in range(STEPS):
        draw = r.random()
        if draw < 0.08:
            rules.append(_rule(r))
            moves.append(move("allow", rules=rules[-1:]))
        elif draw < 0.15 and rules:
            moves.append(move("take_back", found=rules.pop(r.randrange(len(rules)))))
        else:
            moves.append(_ask(r, r.choice(rows), operations=r.random() < chance_of_operations))
    return moves


def rules(r: Random) -> list[Move]:
    """Some join the group, which then is not empty any more; in most traces nobody does."""
    return _trace(r, list(TABLE) if r.random() < 0.3 else OTHERS, 0.3)


def operations(r: Random) -> list[Move]:
    return _trace(r, LISTING, 0.9)
