-- Hourly counters. Absent values have a stand-in, so that the key has no nulls: -1 for `matched`, '' for the network.
--
-- No `count >= 0`: a check must be able to end even if its counter is wrong.

create table usage_counters (
    project_id  blob not null check (length(project_id) = 16),
    product     text not null check (product <> ''),
    hour        text not null check (length(hour) = 13),
    status      text not null check (status in ('ACCEPTED', 'PENDING', 'COMPLETED', 'EXPIRED', 'ERROR')),
    matched     integer not null check (matched in (-1, 0, 1)),
    network_id  text not null check (length(network_id) in (0, 5, 6)),
    count       integer not null,
    primary key (project_id, hour, product, status, matched, network_id)
) strict, without rowid;
