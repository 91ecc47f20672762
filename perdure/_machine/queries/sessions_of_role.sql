-- How many sessions a role has.
select count(*) from pg_catalog.pg_stat_activity where usename = $1
