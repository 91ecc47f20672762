-- Offers the rows that all running relays have declined to all relays again, at most 1000: a relay that had not declined them, or a
-- row before them, may be gone.
create or replace function perdure.reopen_declined() returns void
language plpgsql set search_path = perdure, pg_temp as $$
begin
    update outbox o set declined = '{}'
        from (
            select y.lifecycle, y.id, y.seq from outbox y
            where y.declined <> '{}' and all_declined(y.lifecycle, y.declined)
            limit 1000 for update skip locked) x
        where o.lifecycle = x.lifecycle and o.id = x.id and o.seq = x.seq;
end $$;
