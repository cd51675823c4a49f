-- Verifications: checks whose steps are checks of other products.

-- The verification whose step a check is.
alter table checks add column verification_id uuid;
-- Of a completed verification: the method that gave the verdict, and the answer about SIM changes.
alter table checks add column method text collate "C";
alter table checks add column no_sim_change boolean;

create table verifications (
    check_id          uuid not null,
    bucket            smallint not null,
    -- The check of the current step, which every move names; after the end the verification itself.
    step_id           uuid not null,
    -- JSON, without personal data.
    progress          text not null,
    -- Sealed input of the steps. Erased at the end.
    input             bytea,
    code_redeemed_at  bigint,
    primary key (check_id, bucket)
) partition by range (check_id);
create table verifications_default partition of verifications default;

-- As before, with the partitions of `verifications`.
create or replace function create_check_partitions(first_at bigint, last_at bigint) returns integer
    language plpgsql set lock_timeout = '1s' as $$
declare
    month timestamp := date_trunc('month', to_timestamp(first_at / 1000.0) at time zone 'UTC');
    created integer := 0;
    partitioned text;
    name text;
begin
    while month <= to_timestamp(last_at / 1000.0) at time zone 'UTC' loop
        foreach partitioned in array array['checks', 'callbacks', 'callback_attempts', 'verifications'] loop
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

-- As before. Months before this migration have no partition of `verifications`.
create or replace function drop_check_partitions(before bigint) returns integer
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
        execute format('drop table if exists %I', 'verifications_' || month_name);
        dropped := dropped + 3;
    end loop;
    return dropped;
end
$$;

select create_check_partitions(
    floor(extract(epoch from now()) * 1000)::bigint,
    floor(extract(epoch from now() + interval '2 months') * 1000)::bigint);

-- JSON: names that the previous release does not know. It would reject them in `products` and `scopes`.
alter table projects add column products_added text not null default '[]';
alter table credentials add column scopes_added text not null default '[]';
