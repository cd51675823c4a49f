-- A counter is the sum of its slots. Whoever counts at the same time as others does so in a slot of its own, and waits for
-- nobody's commit.

-- PostgreSQL reads the checks of a table anew, from their text, for each statement. These tables are written to by every batch,
-- with values that are right by their type.
alter table usage_counters drop constraint usage_counters_product_check, drop constraint usage_counters_hour_check,
    drop constraint usage_counters_status_check, drop constraint usage_counters_matched_check,
    drop constraint usage_counters_network_id_check;
alter table usage_days drop constraint usage_days_day_check;

alter table usage_counters add column slot smallint not null default 0;
alter table usage_counters drop constraint usage_counters_pkey;
alter table usage_counters add primary key (project_id, hour, product, status, matched, network_id, slot);

alter table usage_days add column slot smallint not null default 0;
alter table usage_days drop constraint usage_days_pkey;
alter table usage_days add primary key (project_id, day, product, status, matched, network_id, slot);
