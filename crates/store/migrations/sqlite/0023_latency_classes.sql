-- Classes of durations below 250 ms. `took_250` keeps what was counted before there were any: at most 250 ms.
alter table activity add column within_1_ms integer not null default 0;
alter table activity add column within_2_ms integer not null default 0;
alter table activity add column within_4_ms integer not null default 0;
alter table activity add column within_8_ms integer not null default 0;
alter table activity add column within_16_ms integer not null default 0;
alter table activity add column within_32_ms integer not null default 0;
alter table activity add column within_64_ms integer not null default 0;
alter table activity add column within_125_ms integer not null default 0;
alter table activity add column within_250_ms integer not null default 0;
