-- Callbacks that are sent again: how many attempts were made before.
alter table callbacks add column earlier_attempts integer not null default 0 check (earlier_attempts >= 0);
