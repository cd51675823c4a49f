-- Tenants, their credentials, keys and the audit log: small tables that every node keeps a copy of in memory.
-- Instants are milliseconds since 1970. `changed` is the version of the control plane that a row was last changed in.

create table control_version (
    id       smallint primary key check (id = 1),
    version  bigint not null check (version >= 0)
);
insert into control_version (id, version) values (1, 0);

create table workspaces (
    id              uuid primary key,
    name            text collate "C" not null check (name <> ''),
    data_residency  text not null check (data_residency in ('eu', 'us')),
    rate_limits     text not null,
    created_at      bigint not null,
    updated_at      bigint not null,
    changed         bigint not null
);
create index workspaces_by_age on workspaces (created_at desc, id desc);
create index workspaces_by_change on workspaces (changed);

create table projects (
    id                uuid primary key,
    workspace_id      uuid not null references workspaces (id),
    name              text collate "C" not null check (name <> ''),
    mode              text not null check (mode in ('sandbox', 'live')),
    disabled          boolean not null,
    configuration     text not null,
    products          text not null,
    allowed_networks  text not null,
    created_at        bigint not null,
    updated_at        bigint not null,
    revision          bigint not null check (revision >= 1),
    changed           bigint not null,
    unique (workspace_id, name),
    unique (workspace_id, id)
);
create index projects_by_age on projects (workspace_id, created_at desc, id desc);
create index projects_by_change on projects (changed);

-- A credential without a project opens the Management API of its workspace.
create table credentials (
    client_id      text collate "C" primary key check (client_id <> ''),
    workspace_id   uuid not null references workspaces (id),
    project_id     uuid,
    secret_digest  bytea not null check (length(secret_digest) = 32),
    scopes         text not null,
    created_at     bigint not null,
    expires_at     bigint,
    deleted_at     bigint,
    changed        bigint not null,
    foreign key (workspace_id, project_id) references projects (workspace_id, id)
);
create index credentials_by_owner on credentials (workspace_id, project_id, created_at desc, client_id desc);
create index credentials_by_change on credentials (changed);

-- `added` is the version that brought the key: it tells the newest key of a purpose, whatever clocks say.
create table sealed_keys (
    id            uuid primary key,
    purpose       text not null check (purpose in ('token', 'callback', 'seal')),
    published_at  bigint not null,
    active_from   bigint not null check (active_from >= published_at),
    retires_at    bigint,
    gone_at       bigint check (gone_at >= retires_at),
    sealed        bytea not null check (length(sealed) > 0),
    added         bigint not null,
    changed       bigint not null,
    unique (purpose, added),
    check (gone_at is null or retires_at is not null)
);

create table revocations (
    token_id    uuid primary key,
    expires_at  bigint not null,
    changed     bigint not null
);
create index revocations_by_change on revocations (changed);
create index revocations_by_expiry on revocations (expires_at);

create table audit_events (
    id            uuid primary key,
    workspace_id  uuid references workspaces (id),
    at            bigint not null,
    actor         text not null check (actor in ('credential', 'operator', 'system')),
    client_id     text,
    action        text not null check (action <> ''),
    target        text not null,
    changes       text not null,
    request_id    text,
    check ((actor = 'credential') = (client_id is not null))
);
create index audit_events_by_age on audit_events (workspace_id, at desc, id desc);
