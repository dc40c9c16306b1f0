"""confluent-kafka plays the scenarios: ``python -m tests.interop.confluent_kafka.main HOST:PORT [REGEXP]``."""

from tests.interop.confluent_kafka.extras import SCENARIOS
from tests.interop.python.harness import play
from tests.interop.python.scenarios import ALL, ALONE

if __name__ == "__main__":
    play("confluent", [*ALL, *SCENARIOS], alone=ALONE)
