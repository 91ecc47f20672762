select c.relname as name, i.inhdetachpending as pending
from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = $1::text::regclass and (i.inhdetachpending or c.relname = $2)
order by i.inhdetachpending desc
