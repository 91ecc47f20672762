-- When the newest epoch of this database began, in microseconds: an older one may have lost records.
create or replace function perdure.epoch() returns bigint
language plpgsql stable set search_path = perdure, pg_temp as $$
begin
    return (select epoch from perdure.database);
end $$;
