-- Refuses a transaction whose snapshot may be older than a doubt: it does not show the outcome of an attempt that was recorded since.
create or replace function perdure.check_read_committed(verb text) returns void
language plpgsql set search_path = perdure, pg_temp as $$
declare
    isolation text := current_setting('transaction_isolation');
begin
    if isolation not in ('read committed', 'read uncommitted') then
        raise exception 'perdure.%: the transaction is %, and does not see whether an effect is in doubt since its snapshot', verb, upper(isolation)
            using hint = 'Call it in a transaction that is READ COMMITTED.', errcode = 'object_not_in_prerequisite_state';
    end if;
end $$;
