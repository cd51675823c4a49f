-- Tenants, their credentials, keys and the audit log: small tables that the process keeps a copy of in memory.
-- Instants are milliseconds since 1970. `changed` is the version of the control plane that a row was last changed in.

create table control_version (
    id       integer primary key check (id = 1),
    version  integer not null check (version >= 0)
) strict;
insert into control_version (id, version) values (1, 0);

create table workspaces (
    id              blob primary key check (length(id) = 16),
    name            text not null check (name <> ''),
    data_residency  text not null check (data_residency in ('eu', 'us')),
    rate_limits     text not null check (json_valid(rate_limits)),
    created_at      integer not null,
    updated_at      integer not null,
    changed         integer not null
) strict, without rowid;
create index workspaces_by_age on workspaces (created_at desc, id desc);
create index workspaces_by_change on workspaces (changed);

create table projects (
    id                blob primary key check (length(id) = 16),
    workspace_id      blob not null references workspaces (id),
    name              text not null check (name <> ''),
    mode              text not null check (mode in ('sandbox', 'live')),
    disabled          integer not null check (disabled in (0, 1)),
    configuration     text not null check (json_valid(configuration)),
    products          text not null check (json_valid(products)),
    allowed_networks  text not null check (json_valid(allowed_networks)),
    created_at        integer not null,
    updated_at        integer not null,
    revision          integer not null check (revision >= 1),
    changed           integer not null,
    unique (workspace_id, name),
    unique (workspace_id, id)
) strict, without rowid;
create index projects_by_age on projects (workspace_id, created_at desc, id desc);
create index projects_by_change on projects (changed);

-- A credential without a project opens the Management API of its workspace.
create table credentials (
    client_id      text primary key not null check (client_id <> ''),
    workspace_id   blob not null references workspaces (id),
    project_id     blob,
    secret_digest  blob not null check (length(secret_digest) = 32),
    scopes         text not null check (json_valid(scopes)),
    created_at     integer not null,
    expires_at     integer,
    deleted_at     integer,
    changed        integer not null,
    foreign key (workspace_id, project_id) references projects (workspace_id, id)
) strict, without rowid;
create index credentials_by_owner on credentials (workspace_id, project_id, created_at desc, client_id desc);
create index credentials_by_change on credentials (changed);

-- `added` is the version that brought the key: it tells the newest key of a purpose, whatever clocks say.
create table sealed_keys (
    id            blob primary key check (length(id) = 16),
    purpose       text not null check (purpose in ('token', 'callback', 'seal')),
    published_at  integer not null,
    active_from   integer not null check (active_from >= published_at),
    retires_at    integer,
    gone_at       integer check (gone_at >= retires_at),
    sealed        blob not null check (length(sealed) > 0),
    added         integer not null,
    changed       integer not null,
    unique (purpose, added),
    check (gone_at is null or retires_at is not null)
) strict, without rowid;

create table revocations (
    token_id    blob primary key check (length(token_id) = 16),
    expires_at  integer not null,
    changed     integer not null
) strict, without rowid;
create index revocations_by_change on revocations (changed);
create index revocations_by_expiry on revocations (expires_at);

create table audit_events (
    id            blob primary key check (length(id) = 16),
    workspace_id  blob references workspaces (id),
    at            integer not null,
    actor         text not null check (actor in ('credential', 'operator', 'system')),
    client_id     text,
    action        text not null check (action <> ''),
    target        text not null,
    changes       text not null check (json_valid(changes)),
    request_id    text,
    check ((actor = 'credential') = (client_id is not null))
) strict, without rowid;
create index audit_events_by_age on audit_events (workspace_id, at desc, id desc);
