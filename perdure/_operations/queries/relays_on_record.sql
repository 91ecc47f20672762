-- Relays with a note from the last two hours, and the names that the app of each declares.
select id, lifecycles, signals, began_at, seen_at, extract(epoch from clock_timestamp() - seen_at)::float as age_seconds
from perdure.relay order by seen_at desc, id
