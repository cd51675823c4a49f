-- The latest time that a node has recorded, in milliseconds since 1970. Time never falls below it, so that a clock that is
-- set back revives nothing that has expired.
alter table roll_call add column latest_at integer not null default 0;
