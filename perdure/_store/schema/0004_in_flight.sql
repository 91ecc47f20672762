-- Until when an earlier attempt whose outcome is unknown may be in flight; null = none is.
alter table perdure.effect add column earlier_deadline timestamptz;
