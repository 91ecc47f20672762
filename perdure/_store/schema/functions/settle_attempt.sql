-- Records the outcome of an attempt. `done` always wins; any other outcome needs the current token. A definite no of this attempt does
-- not answer an earlier one in doubt: the effect stays in doubt. If the other side drops repeats (`within`), a refusal answers all
-- attempts, unless an earlier one may still have been under way when this one began.
create or replace function perdure.settle_attempt(w jsonb) returns text
language plpgsql set search_path = perdure, pg_temp as $$
declare
    f jsonb := w->'fence';
    old perdure.effect;
    becomes text := f->>'status';
    outcome boolean := f->>'op' = 'outcome';
begin
    select * into old from perdure.effect where key = f->>'key';
    if not found or old.status = 'done' then
        return 'standing';
    end if;
    if becomes <> 'done' and (old.token <> f->>'token' or old.status not in ('attempting', 'in_doubt')) then
        if outcome and becomes = 'not_done' and old.status = 'not_done' then -- an attempt without an answer may not begin later
            perform perdure.bar_attempts(w);
        end if;
        return 'standing';
    end if;
    if outcome and old.earlier_doubt is not null and (becomes = 'not_done'
            or becomes = 'refused' and (f->>'within' is null or old.attempt_at < old.earlier_deadline)) then
        becomes := 'in_doubt';
        f := f || jsonb_build_object('why', left(concat_ws('; ', f->>'why', 'an earlier attempt is in doubt'), 2000));
    end if;
    update perdure.effect set status = becomes, receipt = case when becomes = 'done' then nullif(f->'receipt', 'null') else receipt end,
        why = f->>'why', settled_by = f->>'by', version = greatest(version, (w->>'version')::bigint) where key = old.key;
    -- A late outcome: a run that took the attempt for lost, parked the effect or gave it up must receive it. A look-up and the run itself
    -- know the newest write about the effect, so their outcome is late if another write has come since. After a restore, the record does
    -- not show what the run has done.
    if becomes <> 'in_doubt' and (case when f->>'by' is null and outcome
            then old.token <> f->>'token' or old.status <> 'attempting' or old.version < perdure.epoch()
            else (w->>'version')::bigint <= old.version end) then
        insert into perdure.outbox (lifecycle, id, generation, kind, body)
            select w->>'lifecycle', w->>'id', (w->>'generation')::int, 'wake', jsonb_build_object('key', old.key)
            where exists (
                select from perdure.ident where lifecycle = w->>'lifecycle' and id = w->>'id'
                    and generation = (w->>'generation')::int and final is null);
    end if;
    return 'stored';
end $$;
