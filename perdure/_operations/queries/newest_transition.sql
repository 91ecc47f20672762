-- The number of the newest transition.
select max(t.seq) from perdure.transition t
