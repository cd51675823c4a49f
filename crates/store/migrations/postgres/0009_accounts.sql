-- People who sign in to the console.

create table accounts (
    id             uuid primary key,
    email          text collate "C" not null unique check (email <> ''),
    is_admin       boolean not null,
    -- Nobody signs in by password before one is set, through a link.
    password_hash  text check (password_hash <> ''),
    created_at     bigint not null
);

create table memberships (
    account_id    uuid not null references accounts (id),
    workspace_id  uuid not null references workspaces (id),
    role          text not null check (role in ('viewer', 'developer', 'owner')),
    primary key (account_id, workspace_id)
);
create index memberships_by_workspace on memberships (workspace_id);

-- What forms are protected by is derived from the token, so a copy of this table opens nothing.
create table sessions (
    token_hash  bytea primary key check (length(token_hash) = 32),
    account_id  uuid not null references accounts (id),
    created_at  bigint not null,
    seen_at     bigint not null,
    expires_at  bigint not null
);
create index sessions_by_account on sessions (account_id);
create index sessions_by_expiry on sessions (expires_at);

-- A link is good once.
create table account_links (
    token_hash  bytea primary key check (length(token_hash) = 32),
    account_id  uuid not null references accounts (id),
    purpose     text not null check (purpose in ('set_password', 'sign_in')),
    expires_at  bigint not null
);
create index account_links_by_expiry on account_links (expires_at);

-- Accounts act, too.
alter table audit_events add column account_id uuid;
alter table audit_events drop constraint audit_events_actor_check;
alter table audit_events add constraint audit_events_actor_check
    check (actor in ('credential', 'account', 'operator', 'system'));
alter table audit_events add constraint audit_events_account check ((actor = 'account') = (account_id is not null));
