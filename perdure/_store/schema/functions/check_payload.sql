-- Refuses a payload that is too large for Temporal, which counts the bytes of the JSON text.
create or replace function perdure.check_payload(verb text, payload jsonb) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
declare
    size int := octet_length(payload::text);
begin
    if size > 2000000 then
        raise exception 'perdure.%: % bytes are too many', verb, size
            using hint = 'Temporal takes 2 MB: keep the rest in a table of yours, and give its key.', errcode = 'program_limit_exceeded';
    end if;
end $$;
