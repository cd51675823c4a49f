-- Hourly counters. Distributed by project where there are shards. Absent values have a stand-in, so that the key has
-- no nulls: -1 for `matched`, '' for the network.
--
-- No reference to `projects`: it would lock the project's row at each count. No `count >= 0` either: a check must be
-- able to end even if its counter is wrong.

create table usage_counters (
    project_id  uuid not null,
    product     text collate "C" not null check (product <> ''),
    hour        text collate "C" not null check (length(hour) = 13),
    status      text collate "C" not null
                check (status in ('ACCEPTED', 'PENDING', 'COMPLETED', 'EXPIRED', 'ERROR')),
    matched     smallint not null check (matched in (-1, 0, 1)),
    network_id  text collate "C" not null check (length(network_id) in (0, 5, 6)),
    count       bigint not null,
    primary key (project_id, hour, product, status, matched, network_id)
);
