-- Whether a database of Temporal is still empty, and whether the extension that its schema needs is available.
select
    to_regclass('schema_version') is null as anew,
    exists (select from pg_catalog.pg_available_extensions where name = 'btree_gin') as btree_gin
