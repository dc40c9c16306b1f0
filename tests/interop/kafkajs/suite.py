"""kafkajs, the client in plain JavaScript, with the codecs its users take."""

from __future__ import annotations

from tests.interop.node import needs_node, node_version, package_version, packages, run_node
from tests.interop.suite import Place, Suite
from tests.support.rules import WITH_RULES


def versions(place: Place) -> str:
    return f"kafkajs {package_version(place, 'kafkajs')}, {node_version()}"


SUITE = Suite(
    title="kafkajs",
    language="JavaScript",
    missing=needs_node,
    prepare=packages,
    versions=versions,
    settings={"group.min.session.timeout.ms": 500, **WITH_RULES},
    run=run_node,
)
