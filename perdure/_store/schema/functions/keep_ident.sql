-- Reads an entity's row, and keeps it from being deleted until the transaction ends. It waits only for a session that deletes
-- the row, and no run waits for it. A transaction whose snapshot is older than the row's last change gets a serialization failure,
-- because the snapshot shows an old generation or state; its lock is released at once.
create or replace function perdure.keep_ident(lifecycle text, entity_id text) returns perdure.ident
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        begin
            perform from ident x where x.lifecycle = keep_ident.lifecycle and x.id = entity_id for share;
            raise exception using errcode = 'PE001';
        exception when sqlstate 'PE001' then
            null;
        end;
    end if;
    select * into i from ident x where x.lifecycle = keep_ident.lifecycle and x.id = entity_id for key share;
    return i;
end $$;
