-- Records an effect as in doubt if the record of an attempt may be lost: the effect was ordered before the newest epoch, or by a run that
-- may repeat an order from before it, and it has no record, or one from before the epoch in which an attempt may be missing. That is so
-- if an attempt was lost, if the run does not know the newest attempt on record, or knows it from that record only since it began
-- later, or if a workflow task that was lost may have made one.
-- A record that is a doubt of this kind has version 0. It is as old as its attempt_at, and in a later epoch it may be in doubt again.
-- After the end of an entity, only an attempt that was made leaves a doubt: a run that begins then, or goes on, makes no other.
create or replace function perdure.doubt_lost_record(w jsonb) returns boolean
language plpgsql set search_path = perdure, pg_temp as $$
declare
    f jsonb := w->'fence';
    now_epoch bigint := perdure.epoch();
    since bigint := (f->>'since')::bigint;
    began bigint := (f->>'began')::bigint;
    begun_again boolean;
    known text;
    x perdure.entity;
    old perdure.effect;
    recorded bigint;
    now_at timestamptz;
    ends timestamptz;
    lost text := 'lost ' || now_epoch; -- the token of attempts that may have been made
    reason text;
begin
    if now_epoch = 0 or since is null then
        return false;
    end if;
    if not (f->>'op' = 'outcome' and f->>'status' <> 'not_done') and exists (
            select from perdure.ident i where i.lifecycle = w->>'lifecycle' and i.id = w->>'id'
                and (i.generation, i.final is not null) >= ((w->>'generation')::int, true)) then
        return false;
    end if;
    select * into x from perdure.entity where lifecycle = w->>'lifecycle' and id = w->>'id';
    begun_again := coalesce(coalesce(x.epoch, now_epoch) < now_epoch and began >= now_epoch, false);
    if since >= now_epoch and not begun_again then
        return false;
    end if;
    now_at := clock_timestamp();
    ends := now_at + make_interval(secs => coalesce((f->>'in_flight')::float, 0));
    -- Without a token, the run knows no attempt.
    known := case when not begun_again then nullif(f->>case when f->>'op' = 'begin' then 'after' else 'token' end, '') end;
    reason := 'no record of it, and the database was restored, or another server took over, at '
        || to_char(to_timestamp(now_epoch / 1e6) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"');
    select * into old from perdure.effect where key = f->>'key';
    if not found then
        insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, why)
            values (f->>'key', w->>'lifecycle', w->>'id', (w->>'generation')::int, f->>'effect', lost, 'in_doubt', '',
                least(to_timestamp(since / 1e6), case when began >= now_epoch then x.created_at end, now_at), now_at, ends, reason);
        return true;
    end if;
    recorded := coalesce(nullif(old.version, 0), (extract(epoch from old.attempt_at) * 1e6)::bigint);
    if recorded < now_epoch and old.status in ('not_done', 'attempting', 'in_doubt')
        and (f->>'op' = 'lost' or f->>'op' in ('begin', 'read', 'bar', 'resolve') and (coalesce((f->>'inline')::boolean, false) or old.token is distinct from known)
            or f->>'op' = 'outcome' and old.token is distinct from known) then
        update perdure.effect set token = lost, status = 'in_doubt', attempts = attempts + 1, attempt_at = now_at,
            deadline = greatest(deadline, ends), version = 0, earlier_deadline = null, why = reason,
            earlier_doubt = coalesce(perdure.in_doubt_since(old), least(to_timestamp(recorded / 1e6), now_at))
            where key = old.key;
        return true;
    end if;
    return false;
end $$;
