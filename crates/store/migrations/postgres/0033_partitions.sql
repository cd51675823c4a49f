-- Divides checks, callbacks and attempts by months of their creation, so that old ones can be dropped and new ones stay
-- fast; and adds the column by which a distributed database places them.
--
-- Ids begin with the creation time, so a month is a range of ids. `bucket` repeats the last twelve bits of the id:
-- everything that belongs to a check has its bucket, and therefore its shard.
--
-- Copies the tables. Stop all nodes before.

-- Creates the missing partitions for the months from `first_at` to `last_at`, in milliseconds since 1970, and returns
-- their number. A new partition waits for all transactions on its table, and all later ones wait for it: it must give up
-- soon.
create function create_check_partitions(first_at bigint, last_at bigint) returns integer
    language plpgsql set lock_timeout = '1s' as $$
declare
    month timestamp := date_trunc('month', to_timestamp(first_at / 1000.0) at time zone 'UTC');
    created integer := 0;
    partitioned text;
    name text;
begin
    while month <= to_timestamp(last_at / 1000.0) at time zone 'UTC' loop
        foreach partitioned in array array['checks', 'callbacks', 'callback_attempts'] loop
            name := partitioned || to_char(month, '_YYYY_MM');
            if to_regclass(name) is null then
                execute format(
                    'create table %I partition of %I for values from (%L) to (%L)%s', name, partitioned,
                    min_check_id(month), min_check_id(month + interval '1 month'),
                    case partitioned when 'checks' then ' with (fillfactor = 50)' else '' end);
                created := created + 1;
            end if;
        end loop;
        month := month + interval '1 month';
    end loop;
    return created;
end
$$;

-- Drops the partitions of months before `before`, if no check of the month is open and no callback is waiting. Returns
-- their number.
create function drop_check_partitions(before bigint) returns integer
    language plpgsql set lock_timeout = '1s' as $$
declare
    month_name text;
    month timestamp;
    last_month timestamp := date_trunc('month', to_timestamp(before / 1000.0) at time zone 'UTC');
    dropped integer := 0;
    is_waiting boolean;
begin
    for month_name in
        select substr(relname, length('checks_') + 1) from pg_class
         where relkind = 'r' and relispartition and relname ~ '^checks_[0-9]{4}_[0-9]{2}$' order by 1
    loop
        month := to_timestamp(month_name, 'YYYY_MM')::timestamp;
        exit when month >= last_month;
        execute format('select exists (select 1 from %I where state = ''waiting'')', 'callbacks_' || month_name)
           into is_waiting;
        continue when is_waiting or exists (
            select 1 from deadlines
             where check_id >= min_check_id(month) and check_id < min_check_id(month + interval '1 month'));
        execute format('drop table %I, %I, %I', 'checks_' || month_name, 'callbacks_' || month_name,
                       'callback_attempts_' || month_name);
        dropped := dropped + 3;
    end loop;
    return dropped;
end
$$;

-- The smallest id of a check that was created at this time (UTC) or later.
create function min_check_id(at timestamp) returns uuid language sql immutable as $$
    select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

create function pg_temp.bucket(id uuid) returns smallint language sql immutable as $$
    select ((get_byte(uuid_send(id), 14) & 15) * 256 + get_byte(uuid_send(id), 15))::smallint
$$;

alter table checks rename to old_checks;
alter table old_checks rename constraint checks_pkey to old_checks_pkey;
drop index checks_by_project, checks_by_number, checks_by_code, checks_kept, checks_discovered, checks_by_reference;
alter table callbacks rename to old_callbacks;
alter table old_callbacks rename constraint callbacks_pkey to old_callbacks_pkey;
drop index callbacks_by_due_at;
alter table callback_attempts rename to old_callback_attempts;
alter table old_callback_attempts rename constraint callback_attempts_pkey to old_callback_attempts_pkey;

-- Without `check` constraints: PostgreSQL reads them anew for each statement, and Citus cannot distribute a partitioned
-- table that has them while it is written. The values are right by their types, and SQLite keeps the constraints, on
-- which the tests of both run.
create table checks (like old_checks including defaults, bucket smallint not null, primary key (id, bucket))
    partition by range (id);
create table callbacks (like old_callbacks including defaults, bucket smallint not null,
                        primary key (check_id, bucket)) partition by range (check_id);
create table callback_attempts (like old_callback_attempts including defaults, bucket smallint not null,
                                primary key (check_id, attempt, bucket)) partition by range (check_id);
select create_check_partitions(
    coalesce((select min(created_at) from old_checks), floor(extract(epoch from now()) * 1000)::bigint),
    floor(extract(epoch from now() + interval '2 months') * 1000)::bigint);
-- For ids of other times.
create table checks_default partition of checks default with (fillfactor = 50);
create table callbacks_default partition of callbacks default;
create table callback_attempts_default partition of callback_attempts default;

insert into checks select *, pg_temp.bucket(id) from old_checks;
insert into callbacks select *, pg_temp.bucket(check_id) from old_callbacks;
insert into callback_attempts select *, pg_temp.bucket(check_id) from old_callback_attempts;
drop table old_checks, old_callbacks, old_callback_attempts;

create index checks_by_project on checks (project_id, product, id);
create index checks_by_reference on checks (project_id, product, reference_id, id) where reference_id is not null;
create index checks_by_number on checks (number_hash) where number_hash is not null;
create index checks_by_code on checks using hash (code_hash) where code_hash is not null;
create index checks_kept on checks (created_at) where number_tail is not null;
create index checks_discovered on checks (created_at)
    where product = 'discovery' and (number_tail is not null or callback_url is not null or redirect_url is not null);
create index callbacks_by_due_at on callbacks (due_at) where state = 'waiting';

alter table deadlines add column bucket smallint;
update deadlines set bucket = pg_temp.bucket(check_id);
alter table deadlines alter column bucket set not null, drop constraint deadlines_pkey,
    add primary key (due_at, check_id, bucket);

alter table redirect_sessions add column bucket smallint;
update redirect_sessions set bucket = pg_temp.bucket(check_id);
alter table redirect_sessions alter column bucket set not null, drop constraint redirect_sessions_pkey,
    add primary key (check_id, bucket);

-- The creation times that count towards the limit of a number: eight bytes each, ascending. (Citus accepts no array
-- subscripts in an upsert.) The last check was created at `last_at`, and does not count any more at `expires_at`.
create table number_limits (
    number_hash  bytea not null,
    project_id   uuid not null,
    product      text collate "C" not null,
    max_checks   integer not null,
    last_at      bigint not null,
    expires_at   bigint not null,
    recent       bytea not null,
    primary key (number_hash, project_id, product)
) with (fillfactor = 70);
create index number_limits_by_expiry on number_limits (expires_at);
insert into number_limits (number_hash, project_id, product, max_checks, last_at, expires_at, recent)
select number_hash, project_id, product, count(*), max(created_at), max(created_at) + 3600000,
       string_agg(int8send(created_at), ''::bytea order by created_at)
  from checks
 where number_hash is not null and mode = 'live' and created_at > floor(extract(epoch from now()) * 1000) - 3600000
 group by number_hash, project_id, product;
