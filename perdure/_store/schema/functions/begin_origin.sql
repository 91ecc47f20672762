-- Begins a new origin of the feed in a database that came from another server. A claim calls it, because the origin may have been
-- noted before the last rows came.
create or replace function perdure.begin_origin() returns void
language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    if exists (select from database d, incarnation() i
            where (d.system_identifier, d.database_oid) is distinct from (i.system_identifier, i.database_oid)) then
        update feed_origin set noted_xmin = null;
    end if;
    perform feed_here();
end $$;
