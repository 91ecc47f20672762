-- The identity of this database by its own record, its actual identity, and the difference, if any.
select
    d.mark, d.epoch, d.namespace, d.namespace_id, d.scope, d.stopped,
    perdure.database_problem() as problem,
    coalesce(extract(epoch from clock_timestamp() - d.exchanged_at), 1e9)::float as age,
    d.system_identifier as known_system, d.database_oid::bigint as known_oid, d.timeline as known_timeline,
    i.system_identifier, i.database_oid::bigint as database_oid, i.timeline, i.postmaster_started as started
from perdure.database d, perdure.incarnation() i
