-- Updates the due columns, all or none. Returns the number of updated ones, and the number of those that are still due.
create or replace function perdure.follow(most int default 100, out settled int, out waiting int)
language plpgsql set search_path = perdure, pg_temp as $$
declare
    each record;
    path text;
begin
    settled := 0;
    path := perdure.path_of_session();
    perform set_config('perdure.apps_path', path, true);
    for each in select * from perdure.columns_due(most) loop
        settled := settled + coalesce((perdure.show_in_app(each.lifecycle, each.id) in ('shown', 'missing'))::int, 0);
    end loop;
    perform set_config('search_path', path, true);
    set constraints all immediate; -- fires the app's deferred triggers here, because the commit itself has no time-out
    perform pg_catalog.set_config('search_path', 'perdure, pg_temp', true);
    waiting := perdure.columns_waiting();
end $$;
