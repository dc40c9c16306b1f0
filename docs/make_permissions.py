"""Print docs/permissions.md from the table by which the tests ask every handler what it asks.

Run it with ``make docs``, from a checkout. A test compares the page with what this prints.
"""

from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path(__file__).with_name("permissions.md")
sys.path.insert(0, str(PAGE.parent.parent))

from ottla.broker.core.security.acls import AclOperation, Resource  # noqa: E402
from ottla.protocol.apis import ApiKey  # noqa: E402
from ottla.protocol.errors import ErrorCode  # noqa: E402
from tests.handlers.permission_rows import HIDDEN, ROWS, Row  # noqa: E402

HEAD = """\
# What each API asks

<!-- Printed by docs/make_permissions.py (`make docs`); do not edit. -->

What a client must be allowed, by [access control rules](security.md#rules), for each API that Ottla serves. The tests
hold every handler to this table, at every version. Where a request names several topics or groups, each is asked for by
itself, and the others are served.

- *Instead* is enough by itself.
- *Hidden*: what may not be seen is left out, without an error.
- DESCRIBE is implied by READ, WRITE, DELETE and ALTER, and DESCRIBE_CONFIGS by ALTER_CONFIGS. ALL implies everything.
- A topic that may not be described is answered alike whether it exists or not.

| API | Asks | Instead | Answer to those who may not |
|---|---|---|---|
"""

TAIL = """
These ask nothing: ApiVersions, SaslHandshake and SaslAuthenticate, since they come before anybody has said who he is,
and DescribeCluster, since every client needs the addresses of brokers. DescribeCluster and Metadata tell what a client
may do with the cluster only to those who may DESCRIBE it.

Metadata and CreateTopics create topics for those who may CREATE on the cluster, too. DescribeTransactions leaves out
topics that may not be described, and DescribeGroupHistory says that it left something out.
"""

_KINDS = {
    Resource.TOPIC: "the topic",
    Resource.GROUP: "the group",
    Resource.CLUSTER: "the cluster",
    Resource.TRANSACTIONAL_ID: "the transactional id",
}

_TYPES = {"type 2": "of a topic", "type 4": "of the broker", "type 8": "of a logger", "type 32": "of a group"}
"""What the numbers of resources stand for, in requests about settings."""


def _asked(operation: AclOperation, resource: Resource, name: str) -> str:
    return f"{operation.name} on {'any topic' if name == 'any' else _KINDS[resource]}"


def _answer(code: ErrorCode) -> str:
    return "hidden" if code is HIDDEN else code.name


def _row(row: Row) -> str:
    called = _TYPES.get(row.called, row.called)
    name = row.key.name.title().replace("_", "") + (f", {called}" if called else "")
    asked = ", then ".join(_asked(*ask[:3]) for ask in row.asks)
    instead = ", or ".join(_asked(*ask) for ask in row.instead)
    answers = list(dict.fromkeys(_answer(ask[3]) for ask in row.asks))
    return f"| {name} | {asked} | {instead} | {', '.join(answers)} |"


def render() -> str:
    """The whole page."""
    numbered = {key: number for number, key in enumerate(sorted(ApiKey))}
    return HEAD + "\n".join(_row(row) for row in sorted(ROWS, key=lambda row: numbered[row.key])) + "\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(render())
