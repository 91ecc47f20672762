-- How many of these columns a table has: $1 table, $2 names.
select count(*) from pg_attribute where attrelid = to_regclass($1) and attname = any($2::text[]) and attnum > 0
