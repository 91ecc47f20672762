-- Those of the numbers $1 that are rejected starts.
select seq from perdure.rejected where kind = 'start' and seq = any($1)
