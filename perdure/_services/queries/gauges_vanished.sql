-- Open entities whose workflow was ended from outside, or is missing: those that need a person, and those that were started
-- again within the last hour.
select lifecycle, kind, count(distinct id) as found
from perdure.finding
where kind in ('ended', 'vanished') and (not mended or last_seen > clock_timestamp() - interval '1 hour')
group by lifecycle, kind
