"""The name that a cluster gives itself once."""

import base64
from collections.abc import Callable
from uuid import UUID


def new_cluster_id(new_uuid: Callable[[], UUID]) -> str:
    """A cluster id as Kafka makes them: 22 characters of URL-safe base64, never beginning with a dash."""
    while True:
        text = base64.urlsafe_b64encode(new_uuid().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
