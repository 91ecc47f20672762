-- Whether a whole clean-up has ended before.
select exists (select from perdure.clean_up where ended_at is not null and summary->>'only' is null)
