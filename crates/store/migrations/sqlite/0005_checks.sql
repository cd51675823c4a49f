-- Checks of all products, and what belongs to them.
--
-- Ids are UUIDs of version 7 whose instant is `created_at`, so their order is the order of creation.

create table checks (
    id            blob primary key check (length(id) = 16),
    project_id    blob not null check (length(project_id) = 16),
    created_at    integer not null,
    expires_at    integer not null,
    pending_at    integer,
    concluded_at  integer,
    product       text not null check (product <> ''),
    mode          text not null check (mode in ('sandbox', 'live')),
    status        text not null check (status in ('ACCEPTED', 'PENDING', 'COMPLETED', 'EXPIRED', 'ERROR')),
    matched       integer check (matched in (0, 1)),
    error_code    text,
    network_id    text,
    receiver      text,
    number_hash   blob check (length(number_hash) = 32),
    number_tail   text,
    code_hash     blob check (length(code_hash) = 32),
    reference_id  text,
    callback_url  blob,
    -- A tail without its hash marks a check of which something is still to be erased.
    constraint checks_number check (number_hash is null or number_tail is not null),
    constraint checks_open check ((status in ('ACCEPTED', 'PENDING')) = (concluded_at is null)),
    -- `pending_at` stays when a check ends, and tells which status it left.
    constraint checks_pending check (status <> 'PENDING' or pending_at is not null),
    constraint checks_error check ((status = 'ERROR') = (error_code is not null)),
    constraint checks_verdict check (product <> 'reverse_sms' or (status = 'COMPLETED') = (matched is not null))
) strict, without rowid;
create index checks_by_project on checks (project_id, product, id);
create index checks_by_deadline on checks (expires_at) where concluded_at is null;
create index checks_by_number on checks (number_hash, project_id, created_at) where number_hash is not null;
create index checks_by_code on checks (code_hash) where code_hash is not null;
-- What is still to be erased.
create index checks_by_end on checks (concluded_at) where concluded_at is not null and number_tail is not null;

-- `due_at` is both schedule and lease: whoever takes a callback moves it to the end of the lease.
create table callbacks (
    check_id         blob primary key check (length(check_id) = 16),
    project_id       blob not null check (length(project_id) = 16),
    created_at       integer not null,
    due_at           integer,
    failed_attempts  integer not null check (failed_attempts >= 0),
    state            text not null check (state in ('waiting', 'delivered', 'given_up')),
    product          text not null,
    url              blob not null,
    body             blob,
    constraint callbacks_waiting check ((state = 'waiting') = (due_at is not null)),
    constraint callbacks_body check (state <> 'waiting' or body is not null)
) strict, without rowid;
create index callbacks_by_due_at on callbacks (due_at) where state = 'waiting';

create table callback_attempts (
    check_id    blob not null check (length(check_id) = 16),
    attempt     integer not null check (attempt > 0),
    started_at  integer not null,
    ended_at    integer not null,
    status      integer,
    failure     text,
    exchange    blob,
    primary key (check_id, attempt)
) strict, without rowid;

-- The hourly counters, summed up by day: a list finds the day of a page here, and the hour of the day there.
create table usage_days (
    project_id  blob not null check (length(project_id) = 16),
    product     text not null,
    day         text not null check (length(day) = 10),
    status      text not null,
    matched     integer not null,
    network_id  text not null,
    count       integer not null,
    primary key (project_id, day, product, status, matched, network_id)
) strict, without rowid;
insert into usage_days (project_id, product, day, status, matched, network_id, count)
select project_id, product, substr(hour, 1, 10), status, matched, network_id, sum(count)
  from usage_counters
 group by project_id, product, substr(hour, 1, 10), status, matched, network_id;
