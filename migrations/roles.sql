-- Group roles. Logins are members of exactly one; nobody but the auditor sees both schemas.
do $$
declare
  name text;
begin
  perform pg_advisory_xact_lock(7208541);
  foreach name in array array['turnwright_control', 'turnwright_gateway', 'turnwright_auditor'] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I nologin', name);
    end if;
    -- An owner that is no superuser must be able to act as each of them.
    if not pg_has_role(current_user, name, 'member') then
      execute format('grant %I to current_user', name);
    end if;
  end loop;
end $$;
