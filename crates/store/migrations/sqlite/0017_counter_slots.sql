-- A counter is the sum of its slots: where many connections count at the same time, each has one of its own. Here there
-- is one writer, and one slot.

create table usage_counters_by_slot (
    project_id  blob not null check (length(project_id) = 16),
    product     text not null check (product <> ''),
    hour        text not null check (length(hour) = 13),
    status      text not null check (status in ('ACCEPTED', 'PENDING', 'COMPLETED', 'EXPIRED', 'ERROR')),
    matched     integer not null check (matched in (-1, 0, 1)),
    network_id  text not null check (length(network_id) in (0, 5, 6)),
    slot        integer not null,
    count       integer not null,
    primary key (project_id, hour, product, status, matched, network_id, slot)
) strict, without rowid;
insert into usage_counters_by_slot (project_id, product, hour, status, matched, network_id, slot, count)
select project_id, product, hour, status, matched, network_id, 0, count from usage_counters;
drop table usage_counters;
alter table usage_counters_by_slot rename to usage_counters;

create table usage_days_by_slot (
    project_id  blob not null check (length(project_id) = 16),
    product     text not null,
    day         text not null check (length(day) = 10),
    status      text not null,
    matched     integer not null,
    network_id  text not null,
    slot        integer not null,
    count       integer not null,
    primary key (project_id, day, product, status, matched, network_id, slot)
) strict, without rowid;
insert into usage_days_by_slot (project_id, product, day, status, matched, network_id, slot, count)
select project_id, product, day, status, matched, network_id, 0, count from usage_days;
drop table usage_days;
alter table usage_days_by_slot rename to usage_days;
