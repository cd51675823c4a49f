-- Requests that only name a client have a share of their own.
alter table requests add column authenticated integer not null default 1 check (authenticated in (0, 1));
