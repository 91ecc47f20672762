-- The namespace in Temporal that a database works with; no row if it works with none yet. Every release's schema has these columns.
select namespace from perdure.database where mark is not null
