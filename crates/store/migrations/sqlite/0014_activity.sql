-- Counts for people who look after a project.
--
-- A row is a minute, or an hour once its minutes are old: `minutes` says which. '' stands for no network. Counts may be
-- negative for a moment, and are only ever added to.

create table activity (
    project_id          blob not null check (length(project_id) = 16),
    start_at            integer not null,
    minutes             integer not null check (minutes in (1, 60)),
    product             text not null check (product <> ''),
    network_id          text not null check (length(network_id) in (0, 5, 6)),
    created             integer not null,
    seen                integer not null,
    completed           integer not null,
    matched             integer not null,
    expired             integer not null,
    failed              integer not null,
    attempts_delivered  integer not null,
    attempts_failed     integer not null,
    given_up            integer not null,
    -- Completed checks by how long they took, in milliseconds.
    took_250            integer not null,
    took_500            integer not null,
    took_1000           integer not null,
    took_2000           integer not null,
    took_4000           integer not null,
    took_8000           integer not null,
    took_15000          integer not null,
    took_30000          integer not null,
    took_60000          integer not null,
    took_120000         integer not null,
    took_300000         integer not null,
    took_more           integer not null,
    primary key (project_id, start_at, minutes, product, network_id)
) strict, without rowid;
-- What is old is found by this.
create index activity_by_age on activity (minutes, start_at);
