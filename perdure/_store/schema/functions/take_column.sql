-- Locks an entity whose column is due until the transaction ends, and returns its place in the app's database. Null if no column is
-- due, or another session has taken it. It locks a row, which needs a right on the table; any role can hold an advisory lock.
create or replace function perdure.take_column(lifecycle text, entity_id text, out app_table text, out key_column text, out state_column text)
language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    oldest bigint := (select min(b.version) from behind b where b.lifecycle = take_column.lifecycle and b.id = entity_id);
begin
    perform from behind b where b.lifecycle = take_column.lifecycle and b.id = entity_id and b.version = oldest for update skip locked;
    if found then
        -- The app may have renamed its table since, and declared it anew.
        select coalesce(c.app_table, b.app_table), coalesce(c.key_column, b.app_key), coalesce(c.state_column, b.app_column)
            into take_column.app_table, take_column.key_column, take_column.state_column
            from behind b left join app_column c on c.lifecycle = b.lifecycle
            where b.lifecycle = take_column.lifecycle and b.id = entity_id order by b.version desc limit 1;
    end if;
end $$;
