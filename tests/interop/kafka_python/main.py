"""kafka-python plays the scenarios: ``python -m tests.interop.kafka_python.main HOST:PORT [REGEXP]``."""

from tests.interop.python.harness import play
from tests.interop.python.scenarios import ALL, ALONE

if __name__ == "__main__":
    play("kafka-python", ALL, alone=ALONE)
