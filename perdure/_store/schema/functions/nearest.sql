-- The one of `names` that is most similar to `name`, by the shared pairs of letters; null = none shares half of them.
create or replace function perdure.nearest(name text, names text[]) returns text
language plpgsql immutable set search_path = perdure, pg_temp as $$
begin
    return (
        select n
        from unnest(nearest.names) n
        cross join lateral (
            select count(*) filter (where times > 1) * 2.0 / sum(times) as alike
            from (
                select count(*) as times
                from (
                    select distinct which, substr(padded, at, 2) as pair
                    from (values (1, ' ' || nearest.name || ' '), (2, ' ' || n || ' ')) as given (which, padded),
                        generate_series(1, length(padded) - 1) as at) pairs
                group by pair) shared) x
        where alike >= 0.5
        order by alike desc, n
        limit 1);
end $$;
