-- Least privilege: the control plane's role owns no object and sees no other schema.
revoke all on schema control from public;
grant usage on schema control to turnwright_control, turnwright_auditor;
grant select, insert, update, delete on all tables in schema control to turnwright_control;
revoke update, delete on control.revisions, control.blobs, control.signal_keys, control.agent_revisions
  from turnwright_control;
revoke delete on control.signals, control.turns, control.deliveries, control.conversations,
  control.generations from turnwright_control;
grant execute on all functions in schema control to turnwright_control;
grant select on all tables in schema control to turnwright_auditor;
