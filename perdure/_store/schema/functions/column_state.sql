-- The newest state of an entity that `take_column` has taken.
create or replace function perdure.column_state(lifecycle text, entity_id text, out upto bigint, out state text)
language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
begin
    select i.version, coalesce(i.final, x.state) into upto, column_state.state
        from ident i left join entity x on x.lifecycle = i.lifecycle and x.id = i.id
        where i.lifecycle = column_state.lifecycle and i.id = entity_id
            and exists (select from behind b where b.lifecycle = i.lifecycle and b.id = i.id);
end $$;
