-- Finds a rejected row, and locks its entity for relays and lifecycles until the transaction ends.
create or replace function perdure.hold_rejected(verb text, seq bigint, made_by text, note text, out r perdure.rejected, out i perdure.ident)
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
begin
    if coalesce(made_by, '') = '' or length(made_by) > 200 or length(note) > 2000 then
        raise exception 'perdure.%: made_by % or its note can not be used', verb, coalesce(quote_literal(left(made_by, 60)), 'null')
            using hint = 'Give who requests it, in 1 to 200 characters, and why, in at most 2000.', errcode = 'invalid_parameter_value';
    end if;
    select * into r from rejected x where x.seq = hold_rejected.seq;
    if found then
        perform pg_advisory_xact_lock(hashtextextended(r.lifecycle || '/' || r.id, x'70657264'::bigint)); -- as a relay does
        select * into i from ident x where x.lifecycle = r.lifecycle and x.id = r.id for no key update;
        delete from rejected x where x.seq = hold_rejected.seq;
    end if;
    if not found then
        raise exception 'perdure.%: nothing that was rejected has the number %', verb, coalesce(hold_rejected.seq::text, 'null')
            using hint = 'perdure.rejected holds them; this one may have been dealt with meanwhile.', errcode = 'no_data_found';
    end if;
end $$;
