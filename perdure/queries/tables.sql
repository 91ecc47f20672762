-- The tables of the schema; not the months, whose rights are those of their parents.
select quote_ident(relname) as name from pg_class
where relnamespace = to_regnamespace('perdure') and relkind in ('r', 'p') and not relispartition
    and relname !~ '^(finished|transition)_\d{4}_\d{2}$' -- a month that is being dropped is no partition any more
order by relname
