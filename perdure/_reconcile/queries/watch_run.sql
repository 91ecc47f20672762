-- The last reconciliation: what the watch finds counts as seen by it, so the next one looks again.
select coalesce(max(run), 0) from perdure.reconciliation
