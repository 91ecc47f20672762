-- Replaces the mark $1 by $2, if the database still has $1: $3 epoch, $4 system identifier, $5 oid, $6 timeline, $7 start of
-- the server, $8 namespace, $9 its id, $10 scope.
update perdure.database
set mark = $2, epoch = greatest(epoch, $3), system_identifier = $4, database_oid = $5::bigint::oid, timeline = $6,
    postmaster_started = $7, namespace = $8, namespace_id = $9, scope = $10, exchanged_at = clock_timestamp(),
    filenode = pg_relation_filenode('perdure.database'),
    stopped = null
where mark is not distinct from $1
