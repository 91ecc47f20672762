-- The last reconciliation. It counts as having seen the findings of the watch, so the next one looks again.
select coalesce(max(run), 0) from perdure.reconciliation
