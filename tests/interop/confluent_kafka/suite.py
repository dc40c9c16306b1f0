"""confluent-kafka, that is librdkafka. ``--option only=REGEXP`` chooses scenarios."""

from tests.interop.python.clients import client_suite

SUITE = client_suite("confluent_kafka", "confluent-kafka", "confluent-kafka", ["2.16.1", "2.6.1"])
