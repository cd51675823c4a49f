-- The first answer to a request with an idempotency key. Distributed by tenant where there are shards.

create table idempotency_keys (
    tenant       uuid not null,
    key_digest   bytea not null check (length(key_digest) = 32),
    fingerprint  bytea not null check (length(fingerprint) = 32),
    claim        uuid not null,
    claimed_at   bigint not null,
    lease_until  bigint not null,
    expires_at   bigint not null,
    answer       bytea,
    primary key (tenant, key_digest)
);
create index idempotency_keys_by_expiry on idempotency_keys (expires_at);
