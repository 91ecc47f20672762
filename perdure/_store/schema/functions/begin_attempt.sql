-- Records an attempt, or returns the record that stands. A digest of '' = the input of that attempt is unknown. The caller holds the
-- row of `ident`, so no other session changes the record meanwhile.
create or replace function perdure.begin_attempt(w jsonb) returns text
language plpgsql set search_path = perdure, pg_temp as $$
declare
    f jsonb := w->'fence';
    old perdure.effect;
    now_at timestamptz := clock_timestamp();
    ends timestamptz := now_at + make_interval(secs => (f->>'in_flight')::float);
    doubt timestamptz;
begin
    if perdure.doubt_lost_record(w) then
        return 'standing';
    end if;
    select * into old from perdure.effect where key = f->>'key';
    if not found then
        insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, version)
            values (f->>'key', w->>'lifecycle', w->>'id', (w->>'generation')::int, f->>'effect', f->>'token', 'attempting',
                f->>'digest', now_at, now_at, ends, (w->>'version')::bigint);
        return 'fresh';
    end if;
    if old.status in ('done', 'refused', 'abandoned') or (w->>'version')::bigint <= old.version then
        return 'standing';
    elsif old.digest not in ('', f->>'digest') then
        return 'different';
    end if;
    if old.status <> 'not_done' then
        if old.token is distinct from f->>'after' then
            return 'standing';
        end if;
        doubt := perdure.in_doubt_since(old);
        if extract(epoch from now_at - doubt) >= (f->>'within')::float then
            return 'over';
        end if;
    end if;
    update perdure.effect set token = f->>'token', status = 'attempting', attempts = attempts + 1, digest = f->>'digest',
        first_at = case when attempts = 0 then now_at else first_at end, attempt_at = now_at, why = null,
        deadline = case when doubt is null then ends else greatest(deadline, ends) end,
        version = (w->>'version')::bigint, earlier_doubt = doubt,
        earlier_deadline = case when doubt is not null then deadline end where key = old.key;
    return 'fresh';
end $$;
