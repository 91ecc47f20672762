-- The next transaction. What this and later ones write is no failure of earlier code.
select pg_snapshot_xmax(pg_current_snapshot())::xid
