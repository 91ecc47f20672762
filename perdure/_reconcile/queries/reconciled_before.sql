-- Whether a reconciliation of everything has ended before.
select exists (select from perdure.reconciliation where ended_at is not null and summary->>'only' is null)
