-- Leases: what only one node at a time may use, such as the binds of an account at an SMSC.

create table leases (
    name        text collate "C" primary key,
    holder_id   uuid not null,
    expires_at  bigint not null,
    -- Established connections of the holder.
    links_up    bigint not null check (links_up >= 0)
);

-- Concatenated SMS of which parts were received. Parts may arrive at different nodes.

create table concatenated_sms (
    -- Keyed hash of connector, sender, receiver, reference and number of parts.
    sms_key       bytea primary key check (length(sms_key) = 32),
    -- Distinguishes SMS that use the same reference one after the other.
    sms_id        uuid not null,
    connector     text collate "C" not null,
    sender_hash   bytea not null check (length(sender_hash) = 32),
    total_parts   bigint not null check (total_parts between 2 and 255),
    expires_at    bigint not null,
    -- Null: parts are missing, or the SMS has not been processed yet.
    processed_at  bigint
);
create index concatenated_sms_by_sender on concatenated_sms (sender_hash) where processed_at is null;
create index concatenated_sms_by_connector on concatenated_sms (connector, expires_at);
create index concatenated_sms_by_expiry on concatenated_sms (expires_at);

create table sms_parts (
    sms_key       bytea not null references concatenated_sms (sms_key) on delete cascade,
    sequence      bigint not null check (sequence between 1 and 255),
    content_hash  bytea not null check (length(content_hash) = 32),
    -- Sealed. Null: the SMS was processed.
    content       bytea,
    primary key (sms_key, sequence)
);

-- SIM swaps that projects made at their simulated operator.

create table simulated_sim_swaps (
    project_id   uuid not null,
    number_hash  bytea not null check (length(number_hash) = 32),
    -- Sealed.
    number       bytea not null,
    swapped_at   bigint not null,
    -- A project keeps its newest swaps.
    created_at   bigint not null,
    primary key (project_id, number_hash)
);
