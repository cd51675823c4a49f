-- Callbacks of sandbox checks are signed by a key of their own. SQLite cannot alter a condition, so the table is rebuilt.

create table sealed_keys_with_sandbox (
    id            blob primary key check (length(id) = 16),
    purpose       text not null check (purpose in ('token', 'callback', 'sandbox_callback', 'seal', 'hash')),
    published_at  integer not null,
    active_from   integer not null check (active_from >= published_at),
    retires_at    integer,
    gone_at       integer check (gone_at >= retires_at),
    sealed        blob not null check (length(sealed) > 0),
    added         integer not null,
    changed       integer not null,
    unique (purpose, added),
    check (gone_at is null or retires_at is not null)
) strict, without rowid;
insert into sealed_keys_with_sandbox select * from sealed_keys;
drop table sealed_keys;
alter table sealed_keys_with_sandbox rename to sealed_keys;
