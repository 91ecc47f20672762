-- Refuses a payload that is too large for Temporal, which counts the bytes of the JSON text, or that is nested so deep that no client
-- can read it.
create or replace function perdure.check_payload(verb text, payload jsonb) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
declare
    size int := octet_length(payload::text);
begin
    if size > 2000000 then
        raise exception 'perdure.%: % bytes are too many', verb, size
            using hint = 'Temporal takes 2 MB: keep the rest in a table of yours, and give its key.', errcode = 'program_limit_exceeded';
    end if;
    if jsonb_path_exists(payload, 'strict $.**{100}') then -- see perdure/contracts/sizes.py
        raise exception 'perdure.%: the payload is nested 100 levels deep or deeper', verb
            using hint = 'Keep the rest in a table of yours, and give its key.', errcode = 'program_limit_exceeded';
    end if;
end $$;
