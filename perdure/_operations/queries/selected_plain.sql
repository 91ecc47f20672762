-- The entities of selected.sql for a count, with only those columns that filters use.
select e.lifecycle, e.id from perdure.entity e
