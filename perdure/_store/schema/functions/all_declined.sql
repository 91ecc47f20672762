-- Whether every relay with the lifecycle that was seen within the last minute has declined the row. Then no code can read it.
create or replace function perdure.all_declined(lifecycle text, declined text[]) returns boolean
language plpgsql stable set search_path = perdure, pg_temp as $$
begin
    return not exists (
        select from relay r
        where r.seen_at > clock_timestamp() - interval '1 minute' and all_declined.lifecycle = any(r.lifecycles)
            and r.id <> all(all_declined.declined));
end $$;
