-- The same entities as in selected.sql, to be counted: without what a filter of its columns does not need.
select e.lifecycle, e.id from perdure.entity e
