-- The roles of infra/compose.yaml, made once with the data directory. None of them is a superuser. psql reads the passwords
-- from its environment, so that no command line shows them. `owner` has the app's tables as well.
\getenv owner OWNER_PASSWORD
\getenv worker WORKER_PASSWORD
\getenv columns COLUMNS_PASSWORD
\getenv console CONSOLE_PASSWORD
\getenv temporal TEMPORAL_PASSWORD
-- No log has them, also where one of these statements fails.
set log_statement = 'none'; set log_min_duration_statement = -1; set log_min_error_statement = 'panic';
create role owner login password :'owner';
create role worker login password :'worker';
create role columns login password :'columns';
create role console login password :'console';
create role temporal login createdb password :'temporal';
create database app owner owner;
revoke connect on database app from public;
grant connect on database app to worker, columns, console;
