-- Records an effect as in doubt if the record of an attempt may be lost: the effect was ordered before the newest epoch, or by a run that
-- may repeat an order from before it, and it has no record, or one from before the epoch that says not_done. Such a record proves nothing
-- if an attempt is missing in it: one that was lost, or all that came before a run that does not know its token.
create or replace function perdure.doubt_lost_record(w jsonb) returns boolean
language plpgsql set search_path = perdure, pg_temp as $$
declare
    f jsonb := w->'fence';
    now_epoch bigint := perdure.epoch();
    since bigint := (f->>'since')::bigint;
    began bigint := (f->>'began')::bigint;
    known text := f->>case when f->>'op' = 'begin' then 'after' else 'token' end;
    x perdure.entity;
    old perdure.effect;
    now_at timestamptz := clock_timestamp();
    ends timestamptz := now_at + make_interval(secs => coalesce((f->>'in_flight')::float, 0));
    reason text := 'no record of it, and the database was restored, or another server took over, at '
        || to_char(to_timestamp(now_epoch / 1e6) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"');
begin
    if now_epoch = 0 or since is null then
        return false;
    end if;
    select * into x from perdure.entity where lifecycle = w->>'lifecycle' and id = w->>'id';
    if since >= now_epoch and not (coalesce(x.epoch, now_epoch) < now_epoch and began >= now_epoch) then
        return false;
    end if;
    select * into old from perdure.effect where key = f->>'key';
    if not found then
        insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, why)
            values (f->>'key', w->>'lifecycle', w->>'id', (w->>'generation')::int, f->>'effect', gen_random_uuid()::text, 'in_doubt', '',
                least(to_timestamp(since / 1e6), case when began >= now_epoch then x.created_at end, now_at), now_at, ends, reason);
    elsif old.status = 'not_done' and old.version < now_epoch and (f->>'op' = 'lost' or old.token is distinct from known) then
        update perdure.effect set token = gen_random_uuid()::text, status = 'in_doubt', attempts = attempts + 1, attempt_at = now_at,
            deadline = ends, earlier_doubt = least(to_timestamp(old.version / 1e6), now_at), earlier_deadline = null, why = reason
            where key = old.key;
    else
        return false;
    end if;
    return true;
end $$;
