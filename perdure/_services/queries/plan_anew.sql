-- Behind a full batch many rows may wait, which have come since PostgreSQL planned these statements for few: that plan would read
-- all of them for each entity.
select set_config('plan_cache_mode', 'force_custom_plan', true)
