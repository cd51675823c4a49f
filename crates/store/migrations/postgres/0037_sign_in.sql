-- Sign-in by OpenID Connect, and second factors.

-- Keyed hash of issuer and subject. Null: not linked to an identity.
alter table accounts add column identity_hash bytea check (length(identity_hash) = 32);
alter table accounts add column identity_issuer text;
create unique index accounts_by_identity on accounts (identity_hash);
-- Whether a claim, and nothing else, made the account an administrator.
alter table accounts add column admin_by_claim boolean not null default false;

-- The TOTP secret and the recovery codes are derived from the salt by the hash key. Null: no second factor.
alter table accounts add column second_factor_salt bytea check (length(second_factor_salt) = 16);
-- The last time step whose code was accepted.
alter table accounts add column second_factor_step bigint not null default 0;
-- Bit set of the used recovery codes.
alter table accounts add column recovery_codes_used bigint not null default 0;

-- `role` is the higher one of both. `manual_role` is set only beside a `claim_role`.
alter table memberships add column claim_role text check (claim_role in ('viewer', 'developer', 'owner'));
alter table memberships add column manual_role text check (manual_role in ('viewer', 'developer', 'owner'));

-- The name of an action that the previous release does not know. It would reject it in `action`.
alter table audit_events add column action_added text;
