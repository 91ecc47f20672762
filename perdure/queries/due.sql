-- Whether anything is due for delivery; asked often, so it takes one round trip and no lock. By now(): the index can't
-- be used with a clock that moves during the statement.
select exists (
    select from generate_series(1, 5) p
    where exists (select from perdure.outbox o where o.priority = p and o.not_before <= now()))
