-- The newest transitions, $1 at most, of the last day: how many of each lifecycle in each minute before now. In the order
-- of the index, so that it costs what it counts.
select n.lifecycle, floor(extract(epoch from clock_timestamp() - n.at) / 60)::int as minutes_ago, count(*) as transitions
from (select t.lifecycle, t.at from perdure.transition t order by t.seq desc limit $1) n
where n.at > clock_timestamp() - interval '1 day'
group by 1, 2
