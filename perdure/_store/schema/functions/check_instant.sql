-- Whether every reader can represent a time: from year 1 to 9999, in UTC.
create or replace function perdure.check_instant(verb text, parameter text, given timestamptz) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    if given < timestamptz '0001-01-01 00:00:00+00' or given >= timestamptz '10000-01-01 00:00:00+00' then
        raise exception 'perdure.%: % can not be %', verb, parameter, given
            using hint = 'Give a time from year 1 to 9999 (UTC), or leave it out.', errcode = 'invalid_parameter_value';
    end if;
end $$;
