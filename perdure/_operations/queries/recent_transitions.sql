-- The number of transitions by lifecycle and minute, among the newest $1 of the last day. It reads in the order of the index, so
-- its cost depends on $1 alone.
select n.lifecycle, floor(extract(epoch from clock_timestamp() - n.at) / 60)::int as minutes_ago, count(*) as transitions
from (select t.lifecycle, t.at from perdure.transition t order by t.seq desc limit $1) n
where n.at > clock_timestamp() - interval '1 day'
group by 1, 2
