-- One row for each thing that is wrong. Healthy groups have none.
WITH f AS (
  SELECT * FROM finding_storms UNION ALL SELECT * FROM finding_stopped UNION ALL SELECT * FROM finding_stalled
  UNION ALL SELECT * FROM finding_slow UNION ALL SELECT * FROM finding_rewound UNION ALL SELECT * FROM finding_unread
  UNION ALL SELECT * FROM finding_static UNION ALL SELECT * FROM finding_events)
SELECT *, to_date(started_at) AS date FROM f WHERE to_date(started_at) >= :since
