"""Committed offsets by Spark's own expressions, for where there is no Python: slower, and it checks nothing.

``conv(…, 16, -10)`` reads bytes as a signed number; one of four bytes is read with four bytes of zeros behind it and
shifted back. Records that are cut off give NULLs, damaged ones whatever comes out. Metadata of values of version 4 are
read up to 126 bytes, behind which their length takes two.
"""

from __future__ import annotations

OFFSET_COMMITS = """\
WITH r AS (  -- the connector's rows, without what is not of a committed offset
  SELECT partition AS log_partition, offset AS log_offset, timestamp AS log_ts, key, value,
         5 + int(conv(hex(substring(key, 3, 2)), 16, 10)) AS group_end,
         int(conv(hex(substring(value, 1, 2)), 16, 10)) AS value_version
  FROM {records} WHERE substring(key, 1, 2) <= X'0001'),
k AS (
  SELECT *, group_end + 2 + int(conv(hex(substring(key, group_end, 2)), 16, 10)) AS topic_end,
         CASE value_version WHEN 4 THEN 16 WHEN 3 THEN 17 ELSE 13 END AS metadata_at,
         CASE value_version WHEN 4 THEN int(conv(hex(substring(value, 15, 1)), 16, 10)) - 1
                            WHEN 3 THEN int(conv(hex(substring(value, 15, 2)), 16, 10))
                            ELSE int(conv(hex(substring(value, 11, 2)), 16, 10)) END AS metadata_size
  FROM r)
SELECT log_partition, log_offset, log_ts,
       smallint(conv(hex(substring(key, 1, 2)), 16, 10)) AS key_version,
       string(substring(key, 5, group_end - 5)) AS group_id,
       string(substring(key, group_end + 2, topic_end - group_end - 2)) AS topic,
       int(shiftright(bigint(conv(hex(concat(substring(key, topic_end, 4), X'00000000')), 16, -10)), 32)) AS partition,
       bigint(conv(hex(substring(value, 3, 8)), 16, -10)) AS committed_offset,
       CASE WHEN value_version >= 3
            THEN int(shiftright(bigint(conv(hex(concat(substring(value, 11, 4), X'00000000')), 16, -10)), 32))
            WHEN value IS NOT NULL THEN -1 END AS leader_epoch,
       string(substring(value, metadata_at, metadata_size)) AS metadata,
       timestamp_millis(bigint(conv(hex(substring(value, metadata_at + metadata_size, 8)), 16, -10))) AS commit_ts,
       CASE value_version WHEN 1 THEN timestamp_millis(nullif(
            bigint(conv(hex(substring(value, metadata_at + metadata_size + 8, 8)), 16, -10)), -1)) END AS expire_ts,
       smallint(value_version) AS value_version,
       value IS NULL AS is_tombstone
FROM k"""
"""The columns of ``offset_commits``; ``{records}`` is a table or view with the rows of Spark's ``kafka`` format."""
