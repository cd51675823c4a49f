-- What callers asked for lately, and what they were answered. Values are masked before they come here.

create table requests (
    project_id  blob not null references projects (id),
    id          blob not null check (length(id) = 16),
    at          integer not null,
    -- Callers may give one of their own, and the same one twice.
    request_id  text not null check (request_id <> ''),
    method      text not null,
    route       text not null,
    status      integer not null check (status between 100 and 599),
    error_code  text,
    detail      text,
    client_id   text not null,
    micros      integer not null check (micros >= 0),
    query       text,
    body        text,
    skipped     integer not null check (skipped >= 0),
    primary key (project_id, id),
    check ((error_code is null) = (detail is null))
) strict, without rowid;
create index requests_by_request_id on requests (project_id, request_id);
create index requests_by_age on requests (at);
