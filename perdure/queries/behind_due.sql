-- Entities whose app row is due to be brought up to date, by table, those that were tried least first: $1 of each at most.
select app_table, lifecycle, id from (
    select app_table, lifecycle, id, row_number() over (partition by app_table order by min(tries), min(next_try)) n
    from perdure.behind where next_try <= clock_timestamp() group by 1, 2, 3) due
where n <= $1 order by app_table, n
