-- Removes the binding of the database, which does not have the later commits of its original.
update perdure.database
set mark = null, epoch = greatest(epoch + 1, (extract(epoch from clock_timestamp()) * 1e6)::bigint), system_identifier = null,
    database_oid = null, filenode = null, timeline = null, postmaster_started = null, namespace = null, namespace_id = null, scope = null,
    exchanged_at = null, stopped = null, copied_at = clock_timestamp()
