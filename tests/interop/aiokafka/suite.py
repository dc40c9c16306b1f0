"""aiokafka. ``--option only=REGEXP`` chooses scenarios."""

from tests.interop.python.clients import client_suite

SUITE = client_suite("aiokafka", "aiokafka", "aiokafka", ["0.14.0", "0.12.0"], ["cramjam"])
