-- The processes that are alive. `roll_call` has one row: heartbeats take turns by raising it, and `ping` raises it to
-- see that the database takes writes.

create table nodes (
    id       uuid primary key,
    seen_at  bigint not null
);

create table roll_call (
    id     smallint primary key check (id = 1),
    calls  bigint not null
);
insert into roll_call (id, calls) values (1, 0);
