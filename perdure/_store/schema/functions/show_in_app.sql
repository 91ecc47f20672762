-- Writes the state of an entity into the app's own row: 'shown', 'held' (the app holds its row) or 'missing' (it has no row); null if
-- no column is due, or another session writes it now. It waits for no lock, except in triggers of the app.
create or replace function perdure.show_in_app(lifecycle text, entity_id text) returns text
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    place record;
    newest record;
    app_row text;
    locked boolean;
    changed bigint;
begin
    -- One session at a time, which reads the state afterwards, so that the column never shows an older state again.
    select * into place from perdure.take_column(show_in_app.lifecycle, entity_id);
    if place.app_table is null then
        return null;
    end if;
    app_row := format('from %s where %I = %L', place.app_table::regclass, place.key_column, entity_id);
    execute 'select true ' || app_row || ' for no key update skip locked' into locked;
    if locked is null then
        begin
            execute 'select true ' || app_row || ' for no key update nowait' into locked; -- an error, if the app holds it
        exception when lock_not_available then
            perform perdure.put_off_column(show_in_app.lifecycle, entity_id, null);
            return 'held';
        end;
    end if;
    -- The row is missing, or policies hide it or let it only be read. Unless they let the role see every row, PostgreSQL is asked to
    -- refuse a query whose rows policies may hide, also below a view.
    if locked is null and (
        select bool_or(p.polcmd = '*' and pg_get_expr(p.polqual, p.polrelid) = 'true') and bool_and(p.polpermissive)
        from pg_policy p where p.polrelid = place.app_table::regclass and p.polcmd in ('*', 'r', 'w')
            and exists (select from unnest(p.polroles) r where r = 0 or pg_has_role(r, 'usage'))) is not true
    then
        begin
            set local row_security = off;
            execute 'select ' || app_row;
            set local row_security to default;
        exception when insufficient_privilege then
            raise exception 'row-level security may hide the row of % from the role %, or not let it update the row: give the '
                'role BYPASSRLS', place.app_table, quote_ident(current_user) using errcode = 'insufficient_privilege';
        end;
    end if;
    select * into newest from perdure.column_state(show_in_app.lifecycle, entity_id);
    if locked and newest.state is not null then
        set local search_path to default; -- the app's triggers find their tables by the path of its own sessions
        execute pg_catalog.format('update %s set %I = %L where %I = %L', place.app_table::pg_catalog.regclass, place.state_column,
            newest.state, place.key_column, entity_id);
        get diagnostics changed = row_count;
        set local search_path to perdure, pg_temp;
        if changed > 1 then -- rows of other entities, perhaps
            raise exception 'the key % of % is not unique: % rows have it', place.key_column, place.app_table, changed
                using errcode = 'object_not_in_prerequisite_state';
        end if;
        if changed = 0 then -- also if a trigger discards an update that would change nothing
            execute format('select true %s and %I = %L', app_row, place.state_column, newest.state) into locked;
            if locked is null then
                raise exception 'the row of % did not take the state: a trigger or a rule discards the update', place.app_table
                    using errcode = 'object_not_in_prerequisite_state';
            end if;
        end if;
    end if;
    perform perdure.column_shown(show_in_app.lifecycle, entity_id, newest.upto);
    return case when locked then 'shown' else 'missing' end;
end $$;
