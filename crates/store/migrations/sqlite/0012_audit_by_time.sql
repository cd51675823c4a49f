-- Whoever runs a deployment reads the audit log of all workspaces at once.

create index audit_events_by_time on audit_events (at desc, id desc);
