-- Checks created before `deleted_before` are deleted, or about to be, and lists omit them. Counters outlive checks, so
-- lists read them only from this instant on.

create table check_retention (
    id              integer primary key check (id = 1),
    deleted_before  integer not null
) strict;
insert into check_retention (id, deleted_before) values (1, 0);

-- A release can use this database if its newest migration is at least `oldest_version`. A migration that removes
-- something that earlier releases use raises it.

create table schema_compatibility (
    id              integer primary key check (id = 1),
    oldest_version  integer not null
) strict;
insert into schema_compatibility (id, oldest_version) values (1, 35);
