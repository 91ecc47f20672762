-- Settings of the transaction in which a relay delivers. Without the first five, PostgreSQL may read and sort all due rows for
-- each batch if its statistics are old. With the sixth, it plans each statement once and not for each batch, which is nearly half
-- of the CPU of a small one; `plan_anew` reverts that. The commit need not wait for the disk: if a crash loses it, the deleted
-- rows are delivered again, as after a crash before the commit. `wait_for_disk` reverts that.
select
    set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
    set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
    set_config('plan_cache_mode', 'force_generic_plan', true),
    set_config('perdure.synchronous_commit', current_setting('synchronous_commit'), true),
    set_config('synchronous_commit', 'off', true)
