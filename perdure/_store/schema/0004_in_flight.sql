-- Until when an attempt before the current one may be under way, of which nobody knows whether it happened; null = none is.
alter table perdure.effect add column earlier_deadline timestamptz;
