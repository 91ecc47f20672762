-- Entities whose columns are due, those with the fewest tries first, at most `most`, or `most` of each table.
create or replace function perdure.columns_due(most int, by_table boolean default false)
returns table (app_table text, lifecycle text, id text)
language plpgsql stable security definer set search_path = perdure, pg_temp as $$
begin
    if by_table then
        return query select d.app_table, d.lifecycle, d.id from (
                select b.app_table, b.lifecycle, b.id, row_number() over (partition by b.app_table order by min(b.tries), min(b.next_try)) n
                from behind b where b.next_try <= clock_timestamp() group by 1, 2, 3) d
            where d.n <= most order by d.app_table, d.n;
    else
        return query select distinct null::text, d.lifecycle, d.id from (
                select b.lifecycle, b.id from behind b where b.next_try <= clock_timestamp() order by b.tries, b.next_try limit most) d
            order by 2, 3;
    end if;
end $$;
