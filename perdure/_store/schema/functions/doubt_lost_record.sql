-- Records an effect without a record as in doubt, if it may have been attempted: it was ordered before the newest epoch, or by a run
-- that may repeat an order from before it. The caller has checked that there is no record.
create or replace function perdure.doubt_lost_record(w jsonb) returns boolean
language plpgsql set search_path = perdure, pg_temp as $$
declare
    f jsonb := w->'fence';
    now_epoch bigint := perdure.epoch();
    since bigint := (f->>'since')::bigint;
    began bigint := (f->>'began')::bigint;
    x perdure.entity;
    now_at timestamptz := clock_timestamp();
begin
    if now_epoch = 0 or since is null then
        return false;
    end if;
    select * into x from perdure.entity where lifecycle = w->>'lifecycle' and id = w->>'id';
    if since >= now_epoch and not (coalesce(x.epoch, now_epoch) < now_epoch and began >= now_epoch) then
        return false;
    end if;
    insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, why)
        values (f->>'key', w->>'lifecycle', w->>'id', (w->>'generation')::int, f->>'effect', gen_random_uuid()::text, 'in_doubt', '',
            least(to_timestamp(since / 1e6), case when began >= now_epoch then x.created_at end, now_at), now_at,
            now_at + make_interval(secs => coalesce((f->>'in_flight')::float, 0)),
            'no record of it, and the database was restored, or another server took over, at '
                || to_char(to_timestamp(now_epoch / 1e6) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'));
    return true;
end $$;
