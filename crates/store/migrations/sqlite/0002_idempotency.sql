-- The first answer to a request with an idempotency key.

create table idempotency_keys (
    tenant       blob not null check (length(tenant) = 16),
    key_digest   blob not null check (length(key_digest) = 32),
    fingerprint  blob not null check (length(fingerprint) = 32),
    claim        blob not null check (length(claim) = 16),
    claimed_at   integer not null,
    lease_until  integer not null,
    expires_at   integer not null,
    answer       blob,
    primary key (tenant, key_digest)
) strict, without rowid;
create index idempotency_keys_by_expiry on idempotency_keys (expires_at);
