-- `calls` only ever grows, so a database in which it is lower than a node remembers is an older one. `identity` tells
-- one copy of a database from another; `went_back_at` is set when a node notices, until `ringtrue restored` clears it.
alter table roll_call add column identity text;
alter table roll_call add column went_back_at integer;
