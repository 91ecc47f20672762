-- The row of the app that could not be brought up to date with an entity: $1 lifecycle, $2 id. Without an error, the app holds it.
select app_table, tries, error, next_try
from perdure.behind where lifecycle = $1 and id = $2 and tries > 0
order by error is null, tries desc limit 1
