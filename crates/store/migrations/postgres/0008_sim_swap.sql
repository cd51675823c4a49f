-- SIM Swap: the minutes that a verdict covers, and the bucket of the last change.

alter table checks add column swap_covered integer;
alter table checks add column swap_within integer;
