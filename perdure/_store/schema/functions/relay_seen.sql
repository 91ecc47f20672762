-- Records that a relay runs.
create or replace function perdure.relay_seen(relay_id text, lifecycles text[], signals text[]) returns void
language plpgsql set search_path = perdure, pg_temp as $$
begin
    insert into relay as r (id, lifecycles, signals) values (relay_id, relay_seen.lifecycles, relay_seen.signals)
        on conflict (id) do update set seen_at = clock_timestamp();
    delete from relay r where r.seen_at < clock_timestamp() - interval '2 hours';
end $$;
