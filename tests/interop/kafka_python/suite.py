"""kafka-python. ``--option only=REGEXP`` chooses scenarios."""

from tests.interop.python.clients import client_suite

# In autumn 2024, 2.0.2 was its last release, and had been for four years.
SUITE = client_suite(
    "kafka_python",
    "kafka-python",
    "kafka-python",
    ["3.0.12", "2.0.2"],
    ["lz4", "python-snappy", "zstandard", "crc32c"],
    before={"2.0.2": (3, 12)},
)
