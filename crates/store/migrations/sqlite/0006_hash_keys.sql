-- Numbers and codes are hashed with a key of their own. A condition is not altered in place, so the table is made anew.

create table sealed_keys_with_hash (
    id            blob primary key check (length(id) = 16),
    purpose       text not null check (purpose in ('token', 'callback', 'seal', 'hash')),
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
insert into sealed_keys_with_hash select * from sealed_keys;
drop table sealed_keys;
alter table sealed_keys_with_hash rename to sealed_keys;
