-- SQLSTATE class 57, as for a server that starts up: a worker treats it as no answer, and makes no call.
create or replace function perdure.check_database() returns boolean
language plpgsql stable set search_path = perdure, pg_temp as $$
declare
    problem text := perdure.database_problem();
begin
    if problem is null then
        return true;
    elsif problem = 'not verified' then
        raise exception 'perdure: this database was not verified with Temporal since PostgreSQL was started'
            using hint = 'A worker does that within a second, once it reaches Temporal.', errcode = '57PE2';
    end if;
    raise exception 'perdure: nothing is sent from here: %', problem
        using hint = 'Declare what this database is: perdure database claim --as copied|restored|moved', errcode = '57PE1';
end $$;
