-- Refuses an act for which the asking role has no permission.
create or replace function perdure.permit(verb text, kinds text[], lifecycle text, tenants text[]) returns void
language plpgsql stable set search_path = perdure, pg_temp as $$
begin
    if not permitted(kinds, permit.lifecycle, permit.tenants) then
        raise exception 'perdure.%: the role % has no permission for this entity of %', verb, quote_ident(asking_role()),
                coalesce(quote_literal(left(permit.lifecycle, 63)), 'null')
            using hint = format('The owner of the schema runs: perdure grant %I --as %s --lifecycle NAME', asking_role(), kinds[1]),
                errcode = 'insufficient_privilege';
    end if;
end $$;
