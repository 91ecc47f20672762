-- Brings times to the present that are in the future because the clock went back, as after a failover to a server whose clock is
-- behind: or none would be due, and no finding over, until the clock has caught up. Rows that other sessions hold are skipped.
with reconciliations as (
    update perdure.reconciliation set began_at = least(began_at, now()), ended_at = least(ended_at, now())
    where ctid in (
        select ctid from perdure.reconciliation where greatest(began_at, ended_at) > clock_timestamp() for update skip locked)
)
-- Its time is no earlier than that of the reconciliation that has found it, which would count it as over.
update perdure.finding set first_seen = least(first_seen, now()), last_seen = least(last_seen, now())
where ctid in (select ctid from perdure.finding where last_seen > clock_timestamp() for update skip locked)
