"""Differences that are known, with their reason in docs/differences.md: which fields of which answers."""

from __future__ import annotations

import re
from typing import NamedTuple


class Leaf(NamedTuple):
    """One place where two answers differ."""

    path: str
    kafka: object
    ottla: object


# (answer, path): both match from their beginning.
KNOWN = [
    (r".* (CREATE_TOPICS|DESCRIBE_CONFIGS) ", r".*\.configs\.ottla\.durability"),
    (r".* (CREATE_TOPICS|DESCRIBE_CONFIGS) ", r".*\.configs\.min\.insync\.replicas\.config_source"),
    (r".* DESCRIBE_CONFIGS ", r".*\.configs\.[a-z.]+\.synonyms"),
    (r".* PRODUCE ", r".*\.batch_index_error_message"),
    (r".* PRODUCE ", r".*\.log_append_time_ms"),
]


IN_PLACE_OF_A_TOKEN = "ILLEGAL_SASL_STATE"
STUMBLES = "UNKNOWN_SERVER_ERROR"
"""What Kafka answers where it did not expect a request; we say what is wrong with it."""


def is_known(label: str, leaf: Leaf) -> bool:
    if leaf.kafka == STUMBLES and leaf.path.endswith("error_code") and leaf.ottla != "NONE":
        return True
    if IN_PLACE_OF_A_TOKEN in str(leaf.kafka) and leaf.path == ".answer" and leaf.ottla == "none":
        return " say " in label
    return any(re.match(answer, label) and re.match(path, leaf.path) for answer, path in KNOWN)
