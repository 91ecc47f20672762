-- Updates the due columns, all or none. Returns the number of updated ones, and the number of those that are still due.
create or replace function perdure.follow(most int default 100, out settled int, out waiting int)
language plpgsql set search_path = perdure, pg_temp as $$
declare
    each record;
begin
    settled := 0;
    for each in select * from perdure.columns_due(most) loop
        settled := settled + coalesce((perdure.show_in_app(each.lifecycle, each.id) in ('shown', 'missing'))::int, 0);
    end loop;
    set local search_path to default;
    set constraints all immediate; -- fires the app's deferred triggers here, because the commit itself has no time-out
    set local search_path to perdure, pg_temp;
    waiting := perdure.columns_waiting();
end $$;
