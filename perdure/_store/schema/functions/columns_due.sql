-- Entities whose columns are due, those with the fewest tries first, at most `most`, or `most` of each table.
-- No column is put off by more than a minute: if its next try is later, the clock went back since.
create or replace function perdure.columns_due(most int, by_table boolean default false)
returns table (app_table text, lifecycle text, id text)
language plpgsql stable security definer set search_path = perdure, pg_temp as $$
begin
    if by_table then
        -- Table by table: to sort all that is due takes too long if there are very many.
        return query select t.app_table, d.lifecycle, d.id from (select distinct b.app_table from behind b) t
            cross join lateral (
                select f.lifecycle, f.id, min(f.tries) as tries, min(f.next_try) as next_try from (
                        select b.lifecycle, b.id, b.tries, b.next_try from behind b
                        where b.app_table = t.app_table
                            and (b.next_try <= clock_timestamp() or b.next_try > clock_timestamp() + interval '1 minute')
                        order by b.tries, b.next_try limit most) f
                    group by 1, 2) d
            order by t.app_table, d.tries, d.next_try;
    else
        return query select distinct null::text, d.lifecycle, d.id from (
                select b.lifecycle, b.id from behind b
                where b.next_try <= clock_timestamp() or b.next_try > clock_timestamp() + interval '1 minute'
                order by b.tries, b.next_try limit most) d
            order by 2, 3;
    end if;
end $$;
