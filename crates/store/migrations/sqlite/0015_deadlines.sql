-- A check that ends changes no column of an index. What has to change is the short list of open checks.

create table deadlines (
    due_at    integer not null,
    check_id  blob not null check (length(check_id) = 16),
    primary key (due_at, check_id)
) strict, without rowid;
insert into deadlines (due_at, check_id) select expires_at, id from checks where concluded_at is null;

drop index checks_by_deadline;
drop index checks_by_end;
drop index checks_discovered_by_end;
-- What is still to be erased.
create index checks_kept on checks (created_at) where number_tail is not null;
-- What Discovery has found out, and whom it told, goes sooner than the rest.
create index checks_discovered on checks (created_at)
    where product = 'discovery' and (number_tail is not null or callback_url is not null);
