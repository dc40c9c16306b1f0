"""Print docs/protocol-support.md from what the code has: handlers, messages, codecs, settings.

Run it with ``make docs``. A test compares the page with what this prints.
"""

from __future__ import annotations

from pathlib import Path

from ottla.broker.core.topics.keys import TOPIC_KEYS
from ottla.broker.handlers import HANDLERS
from ottla.broker.settings import FIELDS
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.compression import Codec
from ottla.protocol.records import MAGIC
from ottla.protocol.schema import FOREVER

PAGE = Path(__file__).with_name("protocol-support.md")

HEAD = """\
# Supported protocol

<!-- Printed by docs/make_protocol_support.py (`make docs`); do not edit. -->

What ApiVersions answers, computed from the handlers. *Served* is what a client may use; *declared* is what the codecs
can read and write, which is more: it is the range of Apache Kafka 4.3. *Flexible* is the first version with compact
types and tagged fields (KIP-482). A request of any other API or version closes the connection, as in Kafka; only
ApiVersions is answered whatever its version, with error 35 and the range that it has.

| Key | API | Served | Declared | Flexible | Request |
|----:|-----|--------|----------|----------|---------|
"""

TAIL = """
Produce is advertised from version 0, though versions 0 to 2 close the connection: older librdkafka takes a broker with
a higher minimum for one that cannot compress (KAFKA-18659).

Of access control rules (APIs 29 to 31) the answer is SECURITY_DISABLED without an authorizer, as Kafka's is.
`authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer` gives the broker one, and
[permissions.md](permissions.md) says what each API asks then. Delegation tokens (APIs 38 to 41) are not served.

"""

IDLE = """
## Settings without effect yet

They are checked, stored and described, so that tools and properties files made for Kafka work.

Of topics: {}.

Of the broker: {}. `ottla serve` warns when one of them is given.
"""


def span(versions: range) -> str:
    """``0–9``, or ``0`` for a single version."""
    return f"{versions[0]}" if len(versions) == 1 else f"{versions[0]}–{versions[-1]}"


def row(key: ApiKey) -> str:
    """One line of the table."""
    request = api(key).request
    name = key.name.title().replace("_", "")
    served = span(HANDLERS[key])
    if key is ApiKey.PRODUCE:
        served = f"{span(range(request.versions[0], HANDLERS[key].stop))} (advertised {served})"
    if key.is_private:
        served += " (Ottla's own, not advertised)"
    flexible = "never" if request.flexible_from == FOREVER else str(request.flexible_from)
    summary = (request.__doc__ or "").strip().splitlines()[0]
    return f"| {int(key)} | {name} | {served} | {span(request.versions)} | {flexible} | {summary} |"


def render() -> str:
    """The whole page."""
    codecs = ", ".join(codec.name.lower() for codec in Codec if codec is not Codec.NONE)
    records = f"Record batches have magic {MAGIC}; compression codecs: {codecs}. Older message formats are refused.\n"
    table = "\n".join(row(key) for key in sorted(HANDLERS)) + "\n"
    idle_topic_keys = [key for key, row in TOPIC_KEYS.items() if not row.effective]
    idle_settings = [key for key, field in sorted(FIELDS.items()) if not field.metadata["effective"]]
    return HEAD + table + TAIL + records + IDLE.format(listed(idle_topic_keys), listed(idle_settings))


def listed(keys: list[str]) -> str:
    """Keys as a sentence has them."""
    return ", ".join(f"`{key}`" for key in keys)


if __name__ == "__main__":
    PAGE.write_text(render())
