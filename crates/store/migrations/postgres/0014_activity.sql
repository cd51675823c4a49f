-- Counts for people who look after a project. Distributed by project where there are shards.
--
-- A row is a minute, or an hour once its minutes are old: `minutes` says which. '' stands for no network. Counts may be
-- negative for a moment, and are only ever added to.

create table activity (
    project_id          uuid not null,
    start_at            bigint not null,
    minutes             bigint not null check (minutes in (1, 60)),
    product             text collate "C" not null check (product <> ''),
    network_id          text collate "C" not null check (length(network_id) in (0, 5, 6)),
    created             bigint not null,
    seen                bigint not null,
    completed           bigint not null,
    matched             bigint not null,
    expired             bigint not null,
    failed              bigint not null,
    attempts_delivered  bigint not null,
    attempts_failed     bigint not null,
    given_up            bigint not null,
    -- Completed checks by how long they took, in milliseconds.
    took_250            bigint not null,
    took_500            bigint not null,
    took_1000           bigint not null,
    took_2000           bigint not null,
    took_4000           bigint not null,
    took_8000           bigint not null,
    took_15000          bigint not null,
    took_30000          bigint not null,
    took_60000          bigint not null,
    took_120000         bigint not null,
    took_300000         bigint not null,
    took_more           bigint not null,
    primary key (project_id, start_at, minutes, product, network_id)
);
-- What is old is found by this.
create index activity_by_age on activity (minutes, start_at);
