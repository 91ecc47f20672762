-- Notifies the relays that asked for it of new rows. A commit with a NOTIFY holds a lock of the whole server until it is on disk,
-- so a relay requests notifications only while few rows come. PostgreSQL refuses to prepare (two-phase commit) a transaction with a NOTIFY.
create or replace function perdure.notify_relays() returns trigger
language plpgsql security definer set search_path = perdure, pg_temp as $$
begin
    if exists (select from relay r where r.notified and r.seen_at > clock_timestamp() - interval '15 seconds')
        and current_setting('max_prepared_transactions') = '0'
    then
        notify perdure_outbox;
    end if;
    return null;
end $$;

create or replace trigger notify_relays after insert on perdure.outbox
for each statement execute function perdure.notify_relays();
