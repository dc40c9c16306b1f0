"""Rows of a topic by Spark's own ``kafka`` format, as JSON: BOOTSTRAP TOPIC JARS; and `plain`, to have others so.

Run by the Python of another environment, whose Spark is of the version of the connector's jars.
"""

import json
import sys
from typing import Any


def plain(frame: Any) -> dict[str, Any]:
    """Schema and rows of a data frame of records, for comparing."""
    rows = [
        {
            **row.asDict(recursive=True),
            "key": _hex(row.key),
            "value": _hex(row.value),
            "timestamp": row.timestamp.isoformat(),
            "headers": [[one.key, _hex(one.value)] for one in row.headers] if row.headers is not None else None,
        }
        for row in frame.collect()
    ]
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    fields = [[field.name, field.dataType.simpleString()] for field in frame.schema.fields]
    return {"schema": fields, "rows": rows}


def _hex(value: Any) -> str | None:
    return None if value is None else bytes(value).hex()


def main(bootstrap: str, topic: str, jars: str) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    reading = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    print(json.dumps(plain(reading.option("includeHeaders", "true").load())))


if __name__ == "__main__":
    main(*sys.argv[1:])
