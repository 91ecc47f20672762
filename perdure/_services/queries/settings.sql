-- Of the transaction in which a relay delivers. Without the first five, PostgreSQL may read and sort all that is due for each
-- batch, where its statistics are older than that. With the sixth, it plans each statement once, and not for each batch, which
-- is nearly half of the CPU of a small one; `plan_anew` takes that back. The commit need not wait for the disk: if it is lost in
-- a crash, what it deleted is delivered again, as after a crash before it. `wait_for_disk` takes that back.
select
    set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
    set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
    set_config('plan_cache_mode', 'force_generic_plan', true),
    set_config('perdure.synchronous_commit', current_setting('synchronous_commit'), true),
    set_config('synchronous_commit', 'off', true)
