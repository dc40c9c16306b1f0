"""The columns of a topic's rows: what every record has, and typed ones of a JSON value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ottla.pipeline.topic_lake.folder import LakeError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

COLUMNS = (
    "partition INT, offset BIGINT, ts TIMESTAMP, ts_type INT, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key STRING, value BINARY>>"
)
"""Of every record, besides ``date DATE``, which is in the names of folders. ``ts_type`` is 0 for the producer's time, 1
for the broker's; ``headers`` is NULL where there are none."""

OWN = (*(column.split()[0] for column in COLUMNS.split(", ", 6)), "date")
ERROR = "error"

# Days that every reader of dates knows; a time beyond them, as of a producer that wrote nanoseconds, gets no day.
_DATE = "CASE WHEN ts >= TIMESTAMP'1970-01-01' AND ts < TIMESTAMP'9999-12-31' THEN CAST(ts AS DATE) END AS date"


def read_schema(text: str, prefix: str = "") -> StructType:
    """The type that JSON values are read as.

    Args:
        text: as SQL writes columns (``id BIGINT, price DOUBLE``), or a file with that, or with the JSON that Spark
            writes for a schema. Needs a running session.
        prefix: put before the names of the columns.

    Raises:
        LakeError: it cannot be read, or a column has the name of one of `OWN`.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    file = Path(text)
    try:
        written = file.read_text("utf-8") if len(text) < 4096 and file.is_file() else text
    except (OSError, UnicodeDecodeError) as error:
        raise LakeError(f"--json-schema {text}: {error}") from None
    try:
        if written.lstrip().startswith("{"):
            schema = StructType.fromJson(json.loads(written))
        else:
            schema = cast("StructType", StructType.fromDDL(" ".join(written.split())))
    except (PySparkException, ValueError, KeyError, TypeError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise LakeError(
            f"--json-schema {text[:80]!r} is neither columns such as 'id BIGINT, price DOUBLE', nor a file with them "
            f"or with Spark's JSON for a schema: {said}"
        ) from None
    taken = {*OWN, ERROR}
    if clash := [one for one in schema.names if f"{prefix}{one}".lower() in taken]:
        raise LakeError(
            f"--json-schema: {clash[0]!r} is the name of one of the lake's own columns ({', '.join(OWN)}); put "
            "something before the names with --json-prefix, e.g. --json-prefix json_"
        )
    if len({one.lower() for one in schema.names}) < len(schema.names) or not schema.names:
        raise LakeError("--json-schema: every column needs a name of its own, and one is needed")
    return schema


def check_change(before: str | None, now: StructType | None) -> None:
    """See that files of both schemas can be read together: columns may be added, and left out, but not change types.

    Args:
        before: what the lake was written with, as Spark's JSON, names with their prefix; None is no schema.

    Raises:
        LakeError: a column has another type.
    """
    if before is None or now is None:
        return
    known = {one["name"].lower(): one for one in json.loads(before)["fields"]}
    for field in json.loads(now.json())["fields"]:
        old = known.get(field["name"].lower())
        if old is not None and old["type"] != field["type"]:
            raise LakeError(
                f"--json-schema: column {field['name']!r} was {json.dumps(old['type'])} in this lake, and is "
                f"{json.dumps(field['type'])} now; give it another name, or begin a new folder"
            )


def rows(source: DataFrame, schema: StructType | None, prefix: str = "") -> DataFrame:
    """Rows of the lake from those of ``decode=raw``; with a schema there are typed columns, and `ERROR`, which is NULL
    in rows that fit.

    A value that is NULL fits: it deletes its key, and has nothing to be read.
    """
    headers = "headers" if "headers" in source.columns else "CAST(NULL AS ARRAY<STRUCT<key STRING, value BINARY>>)"
    plain = source.selectExpr(
        "partition",
        "offset",
        "timestamp AS ts",
        "timestampType AS ts_type",
        "key",
        "value",
        f"{headers} AS headers",
    )
    if schema is None:
        return plain.selectExpr("*", _DATE)
    return _typed(plain, schema, prefix).selectExpr("*", _DATE)


def _typed(plain: DataFrame, schema: StructType, prefix: str) -> DataFrame:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    corrupt = "_corrupt_of_ottla"
    text = f.col("value").cast("string")
    reading = StructType([*schema.fields]).add(corrupt, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": corrupt}
    whole = plain.withColumn("_json", f.from_json(text, reading, options))
    # Of a second value behind the first, and of all but the first of an array, `from_json` says nothing.
    values = f.json_array_length(f.concat(f.lit("["), text, f.lit("]")))
    error = (
        f.when(f.col("value").isNull(), None)
        .when(~f.is_valid_utf8(text), "not UTF-8")
        .when(f.coalesce(values, f.lit(0)) != 1, "not JSON, or not one value")
        .when(~text.rlike(r"^\s*\{"), "not a JSON object")
        .when(f.col(f"_json.{corrupt}").isNotNull() | f.col("_json").isNull(), _misfit(text, schema))
    )
    columns = [f.col(f"_json.`{one.name}`").alias(f"{prefix}{one.name}") for one in schema.fields]
    return whole.withColumn(ERROR, error).select(*plain.columns, *columns, ERROR)


def _misfit(text: Column, schema: StructType) -> Column:
    """Name the columns that do not fit: the value has something for them that could not be read."""
    from pyspark.sql import functions as f

    value = f.try_parse_json(text)
    blamed = []
    for one in schema.fields:
        there = f.try_variant_get(value, _path(one.name), "variant")
        unread = f.col(f"_json.`{one.name}`").isNull() & there.isNotNull() & ~f.is_variant_null(there)
        blamed.append(f.when(unread, f.lit(f"{one.name} is no {one.dataType.simpleString().upper()}")))
    return f.concat(f.lit("does not fit: "), f.concat_ws(", ", *blamed))


def _path(name: str) -> str:
    """A column as a path into a variant."""
    return "$['" + name.replace("\\", "\\\\").replace("'", "\\'") + "']"
