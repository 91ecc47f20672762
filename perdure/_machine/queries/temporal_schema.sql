-- How far the schema of one of Temporal's databases is, and whether the extension that it needs is available.
-- `used`: a table has held a row, apart from those that the tool itself fills while it makes the schema.
select
    coalesce(pg_catalog.pg_relation_size(to_regclass('schema_version')), 0) = 0 as anew,
    exists (
        select from pg_catalog.pg_class
        where relnamespace = current_schema()::regnamespace
            and relkind = 'r'
            and relname not in ('schema_version', 'schema_update_history', 'namespace_metadata')
            and pg_catalog.pg_relation_size(oid) > 0
    ) as used,
    exists (select from pg_catalog.pg_available_extensions where name = 'btree_gin') as btree_gin
