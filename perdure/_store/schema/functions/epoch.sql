-- Begin of this database's newest epoch, in microseconds. Records of earlier epochs may be lost.
create or replace function perdure.epoch() returns bigint
language plpgsql stable set search_path = perdure, pg_temp as $$
begin
    return (select epoch from perdure.database);
end $$;
