-- A check that ends changes no column of an index, so that its row is changed in place (a "heap-only" update): that is
-- less than half the work. What has to change is the short list of open checks.

create table deadlines (
    due_at    bigint not null,
    check_id  uuid not null,
    primary key (due_at, check_id)
);
insert into deadlines (due_at, check_id) select expires_at, id from checks where concluded_at is null;

drop index checks_by_deadline;
drop index checks_by_end;
drop index checks_discovered_by_end;
-- What is still to be erased.
create index checks_kept on checks (created_at) where number_tail is not null;
-- What Discovery has found out, and whom it told, goes sooner than the rest.
create index checks_discovered on checks (created_at)
    where product = 'discovery' and (number_tail is not null or callback_url is not null);

-- A row finds room for its next version beside it. A check is changed once, so it takes that room anyway.
alter table checks set (fillfactor = 50);
alter table journeys set (fillfactor = 50);
alter table usage_counters set (fillfactor = 50);
alter table usage_days set (fillfactor = 50);
