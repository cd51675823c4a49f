-- People who sign in to the console.

create table accounts (
    id             blob primary key check (length(id) = 16),
    email          text not null unique check (email <> ''),
    is_admin       integer not null check (is_admin in (0, 1)),
    -- Nobody signs in by password before one is set, through a link.
    password_hash  text check (password_hash <> ''),
    created_at     integer not null
) strict, without rowid;

create table memberships (
    account_id    blob not null references accounts (id),
    workspace_id  blob not null references workspaces (id),
    role          text not null check (role in ('viewer', 'developer', 'owner')),
    primary key (account_id, workspace_id)
) strict, without rowid;
create index memberships_by_workspace on memberships (workspace_id);

-- What forms are protected by is derived from the token, so a copy of this table opens nothing.
create table sessions (
    token_hash  blob primary key check (length(token_hash) = 32),
    account_id  blob not null references accounts (id),
    created_at  integer not null,
    seen_at     integer not null,
    expires_at  integer not null
) strict, without rowid;
create index sessions_by_account on sessions (account_id);
create index sessions_by_expiry on sessions (expires_at);

-- A link is good once.
create table account_links (
    token_hash  blob primary key check (length(token_hash) = 32),
    account_id  blob not null references accounts (id),
    purpose     text not null check (purpose in ('set_password', 'sign_in')),
    expires_at  integer not null
) strict, without rowid;
create index account_links_by_expiry on account_links (expires_at);

-- Accounts act, too. A condition is not altered in place, so the table is made anew.
create table audit_events_with_accounts (
    id            blob primary key check (length(id) = 16),
    workspace_id  blob references workspaces (id),
    at            integer not null,
    actor         text not null check (actor in ('credential', 'account', 'operator', 'system')),
    client_id     text,
    action        text not null check (action <> ''),
    target        text not null,
    changes       text not null check (json_valid(changes)),
    request_id    text,
    account_id    blob check (length(account_id) = 16),
    check ((actor = 'credential') = (client_id is not null)),
    check ((actor = 'account') = (account_id is not null))
) strict, without rowid;
insert into audit_events_with_accounts
select id, workspace_id, at, actor, client_id, action, target, changes, request_id, null from audit_events;
drop table audit_events;
alter table audit_events_with_accounts rename to audit_events;
create index audit_events_by_age on audit_events (workspace_id, at desc, id desc);
