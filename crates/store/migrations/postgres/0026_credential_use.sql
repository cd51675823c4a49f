-- When a credential was last used, to the minute. Written in batches, and no change of the control plane.

alter table credentials add column last_used_at bigint;
