-- Puts off a column, because the app holds its row, or refused the value; `why` has the reason.
create or replace function perdure.put_off_column(lifecycle text, entity_id text, why text) returns void
language sql security definer set search_path = perdure, pg_temp as $$
    update behind b set error = left($3, 500), tries = b.tries + 1,
        next_try = clock_timestamp() + case when $3 is null
            then least(interval '50 ms' * power(2, least(b.tries, 20)), interval '5 s')
            else least(interval '1 s' * power(2, least(b.tries, 20)), interval '1 minute') end
        where b.lifecycle = $1 and b.id = $2
$$;
