"""What operators ask the database of a cluster, and change there, beside the statements of the port.

A survey is one JSON document. Ages are in milliseconds, by the clock of the database.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.cluster.view import NOBODY

SURVEY: Final = f"""
SELECT json_build_object(
  'nodes', (SELECT coalesce(json_agg(json_build_object(
      'node_id', n.node_id, 'incarnation', n.incarnation, 'state', n.state, 'intent', n.intent,
      'endpoints', n.endpoints,
      'up_ms', floor(extract(epoch FROM clock_timestamp() - n.since) * 1000),
      'beat_ms', floor(extract(epoch FROM clock_timestamp() - n.beaten) * 1000),
      'is_held', EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = $1::oid AND l.granted
        AND l.objid = n.node_id::oid
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())))
    ORDER BY n.node_id), '[]') FROM node n),
  'logs', (SELECT coalesce(json_agg(json_build_array(
      p.log_id, p.home, p.leader_id, p.leader_inc, p.leader_epoch, p.is_internal, p.follows, p.called)
    ORDER BY p.log_id), '[]') FROM plog p WHERE NOT p.is_deleted),
  'leaderless', (SELECT coalesce(json_object_agg(p.log_id, (
      SELECT floor(extract(epoch FROM clock_timestamp() - max(a.at)) * 1000) FROM audit a
       WHERE a.log_id = p.log_id)), '{{}}') FROM plog p WHERE p.leader_id = {NOBODY} AND NOT p.is_deleted),
  'database', json_build_object(
    'host', host(inet_server_addr()), 'port', inet_server_port(), 'version', current_setting('server_version'),
    'timeline', ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int,
    'size_bytes', pg_database_size(current_database()),
    'synchronous_standby_names', current_setting('synchronous_standby_names'),
    'standbys', (SELECT coalesce(json_agg(json_build_object('name', r.application_name, 'sync_state', r.sync_state)
      ORDER BY r.application_name), '[]') FROM pg_stat_replication r),
    'oldest_snapshot', (SELECT json_build_object(
        'age_ms', floor(extract(epoch FROM clock_timestamp() - s.xact_start) * 1000), 'user', s.usename,
        'application', s.application_name)
      FROM pg_stat_activity s
     WHERE s.backend_xmin IS NOT NULL AND s.xact_start IS NOT NULL AND s.pid <> pg_backend_pid()
     ORDER BY s.xact_start LIMIT 1)))::text"""
"""The document; its parameter is the first half of the advisory locks by which nodes show that they are there."""

HISTORY: Final = """
SELECT floor(extract(epoch FROM at) * 1000)::bigint, epoch, node_id, incarnation, why FROM audit
 WHERE log_id = $1 ORDER BY epoch"""
"""Who led a log, from when, and why: time in ms, epoch, node, incarnation, reason."""

REMOVE: Final = f"""
WITH gone AS (DELETE FROM node WHERE node_id = $1 AND incarnation = $2 RETURNING node_id),
held AS MATERIALIZED (
  SELECT p.log_id FROM plog p CROSS JOIN gone
   WHERE p.leader_id = gone.node_id AND NOT p.is_deleted ORDER BY p.log_id FOR NO KEY UPDATE OF p),
orphaned AS (
  UPDATE plog p SET leader_id = {NOBODY}, leader_inc = 0, leader_epoch = p.leader_epoch + 1, called = ''
    FROM held WHERE p.log_id = held.log_id RETURNING p.log_id, p.leader_epoch),
noted AS (
  INSERT INTO audit (log_id, epoch, node_id, incarnation, why)
  SELECT log_id, leader_epoch, {NOBODY}, 0, 'node ' || $1::int || ' was removed' FROM orphaned)
SELECT count(*) FROM gone"""
"""Forget a life of a node; what it leads is led by nobody until others claim it. Gives 1, or 0 if there is none."""
