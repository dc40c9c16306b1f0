"""aiokafka plays the scenarios: ``python -m tests.interop.aiokafka.main HOST:PORT [REGEXP]``."""

from tests.interop.python.harness import play
from tests.interop.python.scenarios import ALL, ALONE

if __name__ == "__main__":
    play("aiokafka", ALL, alone=ALONE)
