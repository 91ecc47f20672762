-- A worker does not own the schema: what needs ownership is done by a function that runs with the rights of the owner.

-- Makes the partitions of this month and of the months to come, with the rights of the owner of the schema.
alter function perdure.make_months(int) security definer;

-- Refuses what Temporal would not take: as it counts, by the bytes of the JSON text.
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

revoke all on all functions in schema perdure from public;
