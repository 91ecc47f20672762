-- Its rows have no primary key, since two columns may be null. Beside a publication of all tables, each change needs an identity.
alter table perdure.permission replica identity full;
-- The role itself, beside its name: a name can pass to another role. Both count, since a restored dump has the oids of another server.
alter table perdure.permission add column role_oid oid;
update perdure.permission p set role_oid = r.oid from pg_roles r where r.rolname = p.role;
delete from perdure.permission where role_oid is null;
alter table perdure.permission alter column role_oid set not null;
