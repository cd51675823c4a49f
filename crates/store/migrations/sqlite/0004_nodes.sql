-- The processes that are alive. `roll_call` has one row: heartbeats take turns by raising it, and `ping` raises it to
-- see that the database takes writes.

create table nodes (
    id       blob primary key check (length(id) = 16),
    seen_at  integer not null
) strict, without rowid;

create table roll_call (
    id     integer primary key check (id = 1),
    calls  integer not null
) strict;
insert into roll_call (id, calls) values (1, 0);
