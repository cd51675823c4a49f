-- Requests that only name a client have a share of their own.
alter table requests add column authenticated boolean not null default true;
