-- The tables by subject: tenants, keys and the audit log; accounts of the console; checks, verifications and their
-- callbacks; sign-ins; numbers and SMS; counters and logs; nodes. docs/schema.md shows how they relate.
--
-- Instants are milliseconds since 1970. Ids are UUIDs of version 7, which begin with the creation time. Sealed values
-- are encrypted with a seal key, and hashes of numbers, codes and tokens are keyed: a copy of the database reveals none
-- of them. JSON is stored as text.

-- ===== Tenants =====
--
-- The control plane: small tables that every node keeps in memory. `changed` is the version of the control plane in
-- which a row was changed last; a node reads the rows with a version above its own.

-- One row: the version of the control plane. A change raises it in its transaction, so changes are serialised.
create table control_version (
    id       smallint primary key check (id = 1),
    version  bigint not null check (version >= 0)
);
insert into control_version (id, version) values (1, 0);

-- A tenant.
create table workspaces (
    id              uuid primary key,
    name            text collate "C" not null check (name <> ''),
    data_residency  text not null check (data_residency in ('eu', 'us')),
    -- JSON.
    rate_limits     text not null,
    created_at      bigint not null,
    updated_at      bigint not null,
    changed         bigint not null
);
create index workspaces_by_age on workspaces (created_at desc, id desc);
create index workspaces_by_change on workspaces (changed);

-- An application of a workspace. Its name is unique there. (workspace_id, id) is the target of keys that prove that a
-- row and its project belong to the same workspace.
create table projects (
    id                uuid primary key,
    workspace_id      uuid not null references workspaces (id),
    name              text collate "C" not null check (name <> ''),
    mode              text not null check (mode in ('sandbox', 'live')),
    disabled          boolean not null,
    -- JSON: the settings of each product, the products that are switched on, and the networks they may be used with.
    configuration     text not null,
    products          text not null,
    allowed_networks  text not null,
    created_at        bigint not null,
    updated_at        bigint not null,
    -- An update names the revision that it changes, so that no change is lost.
    revision          bigint not null check (revision >= 1),
    -- When the project went live. Its sandbox checks are not listed any more.
    live_since        bigint,
    changed           bigint not null,
    unique (workspace_id, name),
    unique (workspace_id, id)
);
create index projects_by_age on projects (workspace_id, created_at desc, id desc);
create index projects_by_change on projects (changed);

-- An uploaded logo, to which the configuration of its project refers. It is public.
create table logos (
    project_id  uuid not null references projects (id),
    -- A digest of the content, and the format's extension.
    file_name   text collate "C" not null check (file_name <> ''),
    content     bytea not null check (length(content) between 1 and 65536),
    primary key (project_id, file_name)
);

-- A client id and the keyed digest of its secret. Without a project, it opens the Management API of its workspace. The
-- foreign key ensures that a project's credential belongs to the workspace of the project.
create table credentials (
    client_id      text collate "C" primary key check (client_id <> ''),
    workspace_id   uuid not null references workspaces (id),
    project_id     uuid,
    secret_digest  bytea not null check (length(secret_digest) = 32),
    -- JSON.
    scopes         text not null,
    label          text,
    created_at     bigint not null,
    -- The kind of the actor that created it, followed by its id.
    creator        text collate "C" not null,
    expires_at     bigint,
    -- After a rotation: the end of the overlap with the credential that replaces it.
    retires_at     bigint,
    deleted_at     bigint,
    -- To the minute. Written in batches; not a change of the control plane.
    last_used_at   bigint,
    -- MAC by the hash key. Rows that were written or altered by other means are rejected.
    row_mac  bytea check (length(row_mac) = 32),
    changed        bigint not null,
    foreign key (workspace_id, project_id) references projects (workspace_id, id)
);
create index credentials_by_owner on credentials (workspace_id, project_id, created_at desc, client_id desc);
create index credentials_by_change on credentials (changed);

-- An access token that was revoked before its expiry.
create table revocations (
    token_id    uuid primary key,
    expires_at  bigint not null,
    changed     bigint not null
);
create index revocations_by_change on revocations (changed);
create index revocations_by_expiry on revocations (expires_at);

-- A key of the deployment, sealed by the master key together with its purpose and schedule. `added` is the version of
-- the control plane that brought it: the newest key of a purpose does not depend on clocks, and two nodes cannot both
-- add it.
create table sealed_keys (
    id            uuid primary key,
    purpose       text not null check (purpose in ('token', 'callback', 'sandbox_callback', 'id_token', 'id_token_ec', 'seal', 'link', 'hash')),
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

-- A change of the control plane or of an account, written in the transaction that makes it. Without a workspace, it
-- concerns the deployment.
create table audit_events (
    id            uuid primary key,
    workspace_id  uuid references workspaces (id),
    at            bigint not null,
    actor         text not null check (actor in ('credential', 'account', 'operator', 'system')),
    client_id     text,
    account_id    uuid,
    action        text not null check (action <> ''),
    target        text not null,
    -- JSON.
    changes       text not null,
    request_id    text,
    constraint audit_events_credential check ((actor = 'credential') = (client_id is not null)),
    constraint audit_events_account check ((actor = 'account') = (account_id is not null))
);
create index audit_events_by_age on audit_events (workspace_id, at desc, id desc);
create index audit_events_by_time on audit_events (at desc, id desc);

-- The response to the first request with an idempotency key, or the claim of the request that is being processed. The
-- key gives a request to one node at a time; the fingerprint tells another request with the same key.
create table idempotency_keys (
    tenant       uuid not null,
    key_digest   bytea not null check (length(key_digest) = 32),
    fingerprint  bytea not null check (length(fingerprint) = 32),
    claim        uuid not null,
    claimed_at   bigint not null,
    lease_until  bigint not null,
    expires_at   bigint not null,
    -- Null: the request is being processed.
    response     bytea,
    -- Places the row in a distributed database: twelve bits of the digest.
    bucket       smallint not null,
    primary key (tenant, key_digest, bucket)
);
create index idempotency_keys_by_expiry on idempotency_keys (expires_at);

-- ===== Accounts of the console =====

-- A person who signs in. An email address has one account, and so has an identity at the OpenID provider.
create table accounts (
    id                   uuid primary key,
    email                text collate "C" not null unique check (email <> ''),
    is_admin             boolean not null,
    -- Whether a claim, and nothing else, made the account an administrator.
    admin_by_claim       boolean not null default false,
    -- Null: no password was set. One is set through a link.
    password_hash        text check (password_hash <> ''),
    -- Keyed hash of issuer and subject. Null: not linked to an identity.
    identity_hash        bytea check (length(identity_hash) = 32),
    identity_issuer      text,
    -- The seed of the TOTP secret and the recovery codes, sealed. Null: no second factor.
    second_factor_seed   bytea check (length(second_factor_seed) > 0),
    -- The last time step whose code was accepted.
    second_factor_step   bigint not null default 0,
    -- Bit set of the used recovery codes.
    recovery_codes_used  bigint not null default 0,
    created_at           bigint not null,
    -- Null: nobody has signed in with this account yet.
    signed_in_at         bigint,
    disabled_at          bigint,
    -- MAC by the hash key. Rows that were written or altered by other means are rejected.
    row_mac  bytea check (length(row_mac) = 32)
);
create unique index accounts_by_identity on accounts (identity_hash);

-- The role of an account in a workspace; one at most. `role` is the higher one of that from a claim and that set by
-- hand. `manual_role` is set only beside a `claim_role`.
create table memberships (
    account_id    uuid not null references accounts (id),
    workspace_id  uuid not null references workspaces (id),
    role          text not null check (role in ('viewer', 'developer', 'owner')),
    claim_role    text check (claim_role in ('viewer', 'developer', 'owner')),
    manual_role   text check (manual_role in ('viewer', 'developer', 'owner')),
    -- MAC by the hash key. Rows that were written or altered by other means are rejected.
    row_mac  bytea check (length(row_mac) = 32),
    primary key (account_id, workspace_id)
);
create index memberships_by_workspace on memberships (workspace_id);

-- A membership that waits for its email address to accept it; one for each address and workspace. Its link is derived
-- from the id by the hash key.
create table invitations (
    id            uuid primary key,
    workspace_id  uuid not null references workspaces (id),
    email         text collate "C" not null check (email <> ''),
    role          text not null check (role in ('viewer', 'developer', 'owner')),
    -- Null: the operator, at the command line.
    invited_by    uuid,
    created_at    bigint not null,
    expires_at    bigint not null,
    -- MAC by the hash key. Rows that were written or altered by other means are rejected.
    row_mac  bytea check (length(row_mac) = 32),
    unique (workspace_id, email)
);
create index invitations_by_expiry on invitations (expires_at);

-- A browser that is signed in. The tokens of forms are derived from the session's token, of which only the hash is here.
create table sessions (
    token_hash  bytea primary key check (length(token_hash) = 32),
    account_id  uuid not null references accounts (id),
    -- The network of the browser's address, and the name that the browser sends.
    network     text not null,
    user_agent  text not null,
    created_at  bigint not null,
    seen_at     bigint not null,
    expires_at  bigint not null,
    -- MAC by the hash key. Rows that were written or altered by other means are rejected.
    row_mac  bytea check (length(row_mac) = 32)
);
create index sessions_by_account on sessions (account_id);
create index sessions_by_expiry on sessions (expires_at);

-- A link that can be used once: redeeming it deletes its row.
create table account_links (
    token_hash  bytea primary key check (length(token_hash) = 32),
    account_id  uuid not null references accounts (id),
    purpose     text not null check (purpose in ('set_password', 'sign_in')),
    expires_at  bigint not null,
    -- MAC by the hash key. Rows that were written or altered by other means are rejected.
    row_mac  bytea check (length(row_mac) = 32)
);
create index account_links_by_account on account_links (account_id);
create index account_links_by_expiry on account_links (expires_at);

-- Failed sign-ins of an account from an address, or of an address. The key is a keyed hash of them.
create table login_throttle (
    key_hash         bytea primary key check (length(key_hash) = 32),
    failed_attempts  bigint not null check (failed_attempts >= 0),
    last_attempt_at  bigint not null
);
create index login_throttle_by_time on login_throttle (last_attempt_at);

-- ===== Checks, verifications and callbacks =====
--
-- Partitioned by months of creation, so that old checks are dropped, not deleted. Ids begin with the creation time, so a
-- month is a range of ids. `bucket` places the rows of a check on the same shard of a distributed database: it is derived
-- from the SMS code if there is one, otherwise from the id.
--
-- No `check` constraints on partitioned tables: PostgreSQL reads them anew for each statement, and Citus cannot
-- distribute a partitioned table that has them while it is written. SQLite has them, and the same tests run on both.
-- No foreign keys either, because each insert would lock the row that it refers to.

-- The smallest id of a check that was created at this time (UTC) or later.
create function min_check_id(at timestamp) returns uuid language sql immutable as $$
    select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

-- Creates the missing partitions for the months from `first_at` to `last_at`, in milliseconds since 1970, and returns
-- their number. A new partition waits for all transactions on its table, and all later ones wait for it: it must give up
-- soon.
create function create_check_partitions(first_at bigint, last_at bigint) returns integer
    language plpgsql set lock_timeout = '1s' as $$
declare
    month timestamp := date_trunc('month', to_timestamp(first_at / 1000.0) at time zone 'UTC');
    created integer := 0;
    partitioned text;
    name text;
begin
    while month <= to_timestamp(last_at / 1000.0) at time zone 'UTC' loop
        foreach partitioned in array array['checks', 'callbacks', 'callback_attempts', 'verifications'] loop
            name := partitioned || to_char(month, '_YYYY_MM');
            if to_regclass(name) is null then
                execute format(
                    'create table %I partition of %I for values from (%L) to (%L)%s', name, partitioned,
                    min_check_id(month), min_check_id(month + interval '1 month'),
                    case partitioned when 'checks' then ' with (fillfactor = 50)' else '' end);
                created := created + 1;
            end if;
        end loop;
        month := month + interval '1 month';
    end loop;
    return created;
end
$$;

-- Drops the partitions of months before `before`, if no check of the month is open and no callback is waiting. Returns
-- their number.
create function drop_check_partitions(before bigint) returns integer
    language plpgsql set lock_timeout = '1s' as $$
declare
    month_name text;
    month timestamp;
    last_month timestamp := date_trunc('month', to_timestamp(before / 1000.0) at time zone 'UTC');
    dropped integer := 0;
    is_waiting boolean;
begin
    for month_name in
        select substr(relname, length('checks_') + 1) from pg_class
         where relkind = 'r' and relispartition and relname ~ '^checks_[0-9]{4}_[0-9]{2}$' order by 1
    loop
        month := to_timestamp(month_name, 'YYYY_MM')::timestamp;
        exit when month >= last_month;
        execute format('select exists (select 1 from %I where state = ''waiting'')', 'callbacks_' || month_name)
           into is_waiting;
        continue when is_waiting or exists (
            select 1 from deadlines
             where check_id >= min_check_id(month) and check_id < min_check_id(month + interval '1 month'));
        execute format('drop table %I, %I, %I, %I', 'checks_' || month_name, 'callbacks_' || month_name,
                       'callback_attempts_' || month_name, 'verifications_' || month_name);
        dropped := dropped + 4;
    end loop;
    return dropped;
end
$$;

-- A check of any product. A verification is one, too, and each of its steps is another one. A check that ends changes no
-- indexed column, so that PostgreSQL updates it in place: half of each page is left free for that.
create table checks (
    id               uuid not null,
    bucket           smallint not null,
    project_id       uuid not null,
    -- The verification of which this check is a step.
    verification_id  uuid,
    product          text collate "C" not null,
    mode             text collate "C" not null,
    created_at       bigint not null,
    expires_at       bigint not null,
    -- Stays when the check ends, and shows which status it left.
    pending_at       bigint,
    concluded_at     bigint,
    status           text collate "C" not null,
    matched          boolean,
    error_code       text collate "C",
    network_id       text collate "C",
    -- A tail without its hash marks a check of which something is still to be erased.
    number_hash      bytea,
    number_tail      text collate "C",
    -- The number that Discovery found, sealed.
    number_sealed    bytea,
    reference_id     text collate "C",
    -- Sealed.
    callback_url     bytea,
    redirect_url     bytea,
    -- Reverse SMS: where the SMS is expected, its code, and the connector that received it.
    receiver         text collate "C",
    code_hash        bytea,
    connector        text collate "C",
    -- Silent checks: the way by which the device was verified, why its wallet gave no verdict, and the error of the
    -- redirect after which the wallet was left.
    way              text collate "C",
    wallet_failure   text collate "C",
    redirect_error   text collate "C",
    -- SIM Swap: the minutes that the verdict covers, and those within which the SIM was changed.
    swap_covered     integer,
    swap_within      integer,
    -- A completed verification: the method that gave the verdict, and the answer about SIM changes.
    method           text collate "C",
    no_sim_change    boolean,
    primary key (id, bucket)
) partition by range (id);
create index checks_by_project on checks (project_id, product, id);
create index checks_by_reference on checks (project_id, product, reference_id, id) where reference_id is not null;
create index checks_by_number on checks (number_hash) where number_hash is not null;
-- Codes are only looked up whole: a hash index costs half of what a tree does.
create index checks_by_code on checks using hash (code_hash) where code_hash is not null;
-- Checks of which something is still to be erased. Discovery has a shorter period.
create index checks_kept on checks (created_at) where number_tail is not null;
create index checks_discovered on checks (created_at)
    where product = 'discovery' and (number_tail is not null or callback_url is not null or redirect_url is not null);

-- An open check and when it expires. Ending a check deletes its row: this index of open checks is the only one that a
-- conclusion changes.
create table deadlines (
    due_at    bigint not null,
    check_id  uuid not null,
    bucket    smallint not null,
    primary key (due_at, check_id, bucket)
);

-- What a verification has besides its check.
create table verifications (
    check_id          uuid not null,
    bucket            smallint not null,
    -- The check of the current step; after the end the verification itself. A move to the next step names the step that
    -- it leaves, so that one move succeeds.
    step_id           uuid not null,
    -- JSON, without personal data.
    progress          text not null,
    -- Sealed input of the steps. Erased at the end.
    input             bytea,
    code_redeemed_at  bigint,
    -- Keyed hash of the redeemed code: the completion code, or the redirect code that gave the verdict.
    code_hash         bytea,
    -- Language tag (BCP 47) of the hosted page.
    locale            text,
    -- When the hosted page was first opened, and on which kind of device.
    opened_at         bigint,
    opened_on         text collate "C",
    primary key (check_id, bucket),
    constraint verifications_opened check ((opened_at is null) = (opened_on is null))
) partition by range (check_id);

-- What an open silent check keeps while its device is redirected: one redirect at a time, whose `state` is used once.
create table redirect_sessions (
    check_id          uuid not null,
    bucket            smallint not null,
    -- Sealed.
    input             bytea not null,
    state_hash        bytea,
    -- Sealed.
    pending_redirect  bytea,
    -- When the last redirect began, and in which browser if it began at the hosted page.
    began_at          bigint,
    browser_hash      bytea,
    -- The redirect code, and the operator's verdict that it confirms, sealed.
    code_hash         bytea,
    verdict           bytea,
    wrong_codes       integer not null check (wrong_codes >= 0),
    primary key (check_id, bucket),
    constraint redirect_sessions_state check ((state_hash is null) = (pending_redirect is null)),
    constraint redirect_sessions_verdict check ((code_hash is null) = (verdict is null))
) with (fillfactor = 50);

-- The callback of a check; one at most. The transaction that ends the check inserts it. `due_at` is both schedule and
-- lease: a node that takes a callback moves it to the end of the lease.
create table callbacks (
    check_id          uuid not null,
    bucket            smallint not null,
    project_id        uuid not null,
    product           text collate "C" not null,
    created_at        bigint not null,
    state             text collate "C" not null,
    due_at            bigint,
    -- Since the callback was last sent by hand, and before that.
    failed_attempts   integer not null,
    earlier_attempts  integer not null default 0,
    -- How often it was sent again by hand.
    resends           bigint not null default 0,
    -- Sealed.
    url               bytea not null,
    body              bytea,
    primary key (check_id, bucket)
) partition by range (check_id);
create index callbacks_by_due_at on callbacks (due_at) where state = 'waiting';
-- Callbacks that failed or were sent again. All others, which are by far the most, have no entry.
create index callbacks_with_failures on callbacks (project_id, check_id)
    where failed_attempts > 0 or resends > 0 or state = 'given_up';

-- One attempt to deliver a callback. The newest attempts are kept.
create table callback_attempts (
    check_id    uuid not null,
    bucket      smallint not null,
    attempt     integer not null,
    started_at  bigint not null,
    ended_at    bigint not null,
    status      integer,
    failure     text collate "C",
    -- Request and response, sealed.
    exchange    bytea,
    primary key (check_id, attempt, bucket)
) partition by range (check_id);

-- Nodes create the partitions of later months.
select create_check_partitions(
    floor(extract(epoch from now()) * 1000)::bigint,
    floor(extract(epoch from now() + interval '2 months') * 1000)::bigint);
-- For ids of other times.
create table checks_default partition of checks default with (fillfactor = 50);
create table callbacks_default partition of callbacks default;
create table callback_attempts_default partition of callback_attempts default;
create table verifications_default partition of verifications default;

-- A check of an erased number that is still open, or whose callback is still being delivered. Housekeeping erases the
-- rest at its end. Named by id, because the hash of the number is gone and later checks are not meant.
create table erasures (
    check_id  uuid primary key
);

-- One row. Checks created before `deleted_before` are deleted, or about to be, and lists omit them. Counters outlive
-- checks, so lists read them only from this instant on.
create table check_retention (
    id              smallint primary key check (id = 1),
    deleted_before  bigint not null
);
insert into check_retention (id, deleted_before) values (1, 0);

-- ===== Sign-ins =====
--
-- Users of other applications who sign in with their number (OpenID Connect). A project is the client. Rows live for
-- minutes; housekeeping deletes expired ones.

-- An authorization request, from its arrival to the expiry of its tokens. The first write of `proof` or `error` ends
-- it, and the first write of `redeemed_at` uses its code; both are conditional.
create table sign_ins (
    id               uuid primary key,
    project_id       uuid not null,
    client_id        text not null check (client_id <> ''),
    -- Sealed: redirect URI, state, nonce, challenge and hints.
    request          bytea not null,
    created_at       bigint not null,
    -- When the user can no longer finish it, and after the end, when its code or tokens expire.
    expires_at       bigint not null,
    -- The check that proves the number. Null: none was started yet.
    check_product    text,
    check_id         uuid,
    -- The number that a verification is to prove, sealed. Null: the operator finds it, or it follows later.
    number           bytea,
    -- The proven number, and how and when it was proven, sealed.
    proof            bytea,
    code_expires_at  bigint,
    redeemed_at      bigint,
    -- When the code was used a second time, which revokes the tokens.
    revoked_at       bigint,
    -- The OAuth error that the client got instead.
    error            text,
    constraint sign_ins_check check ((check_product is null) = (check_id is null)),
    constraint sign_ins_code check ((proof is null) = (code_expires_at is null)),
    constraint sign_ins_end check (proof is null or error is null),
    constraint sign_ins_redeemed check (redeemed_at is null or proof is not null),
    constraint sign_ins_revoked check (revoked_at is null or redeemed_at is not null)
);
create index sign_ins_by_expiry on sign_ins (expires_at);

-- An authorization request that a client has sent in advance (RFC 9126). Taking it deletes its row.
create table pushed_authorizations (
    -- Keyed hash of the `request_uri`.
    reference_hash  bytea primary key check (length(reference_hash) = 32),
    client_id       text not null check (client_id <> ''),
    -- Sealed.
    parameters      bytea not null,
    expires_at      bigint not null
);
create index pushed_authorizations_by_expiry on pushed_authorizations (expires_at);

-- A browser that stays signed in to a project.
create table sign_in_sessions (
    token_hash   bytea primary key check (length(token_hash) = 32),
    project_id   uuid not null,
    -- Finds the sessions of a number that is erased.
    number_hash  bytea not null check (length(number_hash) = 32),
    -- Sealed.
    proof        bytea not null,
    expires_at   bigint not null
);
create index sign_in_sessions_by_number on sign_in_sessions (number_hash);
create index sign_in_sessions_by_expiry on sign_in_sessions (expires_at);

-- A signed assertion of a client, until it expires. The key ensures that it is used once.
create table used_assertions (
    -- Keyed hash of the client and the `jti`.
    assertion_hash  bytea primary key check (length(assertion_hash) = 32),
    expires_at      bigint not null
);
create index used_assertions_by_expiry on used_assertions (expires_at);

-- ===== Numbers and SMS =====

-- The recent checks of a number, a project and a product, for the limit of checks per number. `recent` holds their
-- creation times: eight bytes each, ascending. (Citus accepts no array subscripts in an upsert.) The last check was
-- created at `last_at`, and does not count any more at `expires_at`.
create table number_limits (
    number_hash  bytea not null,
    project_id   uuid not null,
    product      text collate "C" not null,
    max_checks   integer not null,
    last_at      bigint not null,
    expires_at   bigint not null,
    recent       bytea not null,
    -- Places the row in a distributed database: twelve bits of the number's hash.
    bucket       smallint not null,
    primary key (number_hash, project_id, product, bucket)
) with (fillfactor = 70);
create index number_limits_by_expiry on number_limits (expires_at);

-- A concatenated SMS of which parts were received. Parts may arrive at different nodes.
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

-- A part of a concatenated SMS. The key ignores repetitions of a part.
create table sms_parts (
    sms_key       bytea not null references concatenated_sms (sms_key) on delete cascade,
    sequence      bigint not null check (sequence between 1 and 255),
    content_hash  bytea not null check (length(content_hash) = 32),
    -- Sealed. Null: the SMS was processed.
    content       bytea,
    primary key (sms_key, sequence)
);

-- A SIM swap that a project made at its simulated operator; the last one of a number. A project keeps its newest swaps.
create table simulated_sim_swaps (
    project_id   uuid not null,
    number_hash  bytea not null check (length(number_hash) = 32),
    -- Sealed.
    number       bytea not null,
    swapped_at   bigint not null,
    created_at   bigint not null,
    primary key (project_id, number_hash)
);

-- ===== Counters and logs =====
--
-- Counters have no foreign key to `projects`, which would lock the project's row at each count.

-- Checks of a project by hour, product, status, match, network and way (`via`), for billing and lists. A counter is the sum of its
-- slots: transactions that count at the same time use different slots, and do not wait for each other's commits. In a
-- distributed database it is also the sum of its buckets: each server counts its checks in a bucket of its own, so that a
-- check and its counters are written on one server. The key has no nulls: -1 stands for no verdict, '' for no network.
-- Without `check` constraints, because PostgreSQL reads them for each statement; in particular, a check must be able to
-- end even if its counter is wrong.
create table usage_counters (
    project_id  uuid not null,
    product     text collate "C" not null,
    hour        text collate "C" not null,
    status      text collate "C" not null,
    matched     smallint not null,
    network_id  text collate "C" not null,
    via         text collate "C" not null,
    slot        smallint not null,
    bucket      smallint not null,
    count       bigint not null,
    primary key (project_id, hour, product, status, matched, network_id, via, slot, bucket)
) with (fillfactor = 50);

-- The hourly counters summed up by day. A list finds the day of a page here, and the hour of the day there.
create table usage_days (
    project_id  uuid not null,
    product     text collate "C" not null,
    day         text collate "C" not null,
    status      text collate "C" not null,
    matched     smallint not null,
    network_id  text collate "C" not null,
    via         text collate "C" not null,
    slot        smallint not null,
    bucket      smallint not null,
    count       bigint not null,
    primary key (project_id, day, product, status, matched, network_id, via, slot, bucket)
) with (fillfactor = 50);

-- Counts of a project for the console, by minute, or by hour once its minutes are old: `minutes` says which. '' stands
-- for no network. Counts are only added to, and may be negative for a moment.
create table activity (
    project_id          uuid not null,
    start_at            bigint not null,
    minutes             bigint not null check (minutes in (1, 60)),
    product             text collate "C" not null check (product <> ''),
    network_id          text collate "C" not null check (length(network_id) in (0, 5, 6)),
    -- Whether the checks are steps of verifications.
    is_step             boolean not null,
    created             bigint not null,
    seen                bigint not null,
    completed           bigint not null,
    matched             bigint not null,
    expired             bigint not null,
    failed              bigint not null,
    attempts_delivered  bigint not null,
    attempts_failed     bigint not null,
    given_up            bigint not null,
    -- Completed checks by duration. Each column counts durations up to its bound and above the bound before it.
    within_1_ms         bigint not null,
    within_2_ms         bigint not null,
    within_4_ms         bigint not null,
    within_8_ms         bigint not null,
    within_16_ms        bigint not null,
    within_32_ms        bigint not null,
    within_64_ms        bigint not null,
    within_125_ms       bigint not null,
    within_250_ms       bigint not null,
    within_500_ms       bigint not null,
    within_1000_ms      bigint not null,
    within_2000_ms      bigint not null,
    within_4000_ms      bigint not null,
    within_8000_ms      bigint not null,
    within_15000_ms     bigint not null,
    within_30000_ms     bigint not null,
    within_60000_ms     bigint not null,
    within_120000_ms    bigint not null,
    within_300000_ms    bigint not null,
    over_300000_ms      bigint not null,
    primary key (project_id, start_at, minutes, product, network_id, is_step)
);
create index activity_by_age on activity (minutes, start_at);

-- How far a project's verifications get, and why they are lost, by the minute or hour in which they were created. Counts
-- are only added to.
create table funnel_counts (
    project_id  uuid not null,
    start_at    bigint not null,
    minutes     bigint not null check (minutes in (1, 60)),
    -- The stage or the loss, such as 'reached:sms_shown' or 'lost:sms_shown:expired'.
    event       text collate "C" not null check (event <> ''),
    count       bigint not null,
    primary key (project_id, start_at, minutes, event)
);
create index funnel_counts_by_age on funnel_counts (minutes, start_at);

-- A recent API request of a project, with its values masked.
create table requests (
    project_id     uuid not null references projects (id),
    id             uuid not null,
    at             bigint not null,
    -- Clients may choose it, and use one twice.
    request_id     text collate "C" not null check (request_id <> ''),
    method         text not null,
    route          text not null,
    status         integer not null check (status between 100 and 599),
    error_code     text collate "C",
    detail         text,
    client_id      text not null,
    -- Requests that only name a client have a share of the log of their own.
    authenticated  boolean not null,
    micros         bigint not null check (micros >= 0),
    query          text,
    body           text,
    -- The check that the request created or named.
    check_id       uuid,
    -- Similar requests that sampling skipped since the last logged one.
    skipped        bigint not null check (skipped >= 0),
    primary key (project_id, id),
    check ((error_code is null) = (detail is null))
);
create index requests_by_request_id on requests (project_id, request_id);
create index requests_by_age on requests (at);

-- ===== Nodes and the database =====

-- A running server, and its last heartbeat.
create table nodes (
    id       uuid primary key,
    seen_at  bigint not null
);

-- The requests that a node counted in each of the last seconds, by the keyed hash of what they are counted for: nodes
-- divide rate limits in proportion to them.
create table node_demand (
    node_id       uuid primary key,
    published_at  bigint not null,
    demand        text collate "C" not null
);

-- A resource that one node at a time may use, such as the binds of an account at an SMSC.
create table leases (
    name        text collate "C" primary key,
    holder_id   uuid not null,
    expires_at  bigint not null,
    -- Established connections of the holder.
    links_up    bigint not null check (links_up >= 0)
);

-- One row. Heartbeats raise `generation`, which serialises them; a database in which it is lower than a node remembers
-- was restored from a backup. The table's OID is part of the database's identity.
create table database_state (
    id                    smallint primary key check (id = 1),
    generation            bigint not null,
    -- The latest time that a node has recorded. Time never falls below it, so that a clock that is set back revives
    -- nothing that has expired.
    latest_at             bigint not null,
    -- Distinguishes copies of a database.
    identity              text,
    -- Set when a node notices that the database went back, until `ringtrue restored` clears it.
    rollback_detected_at  bigint
);
insert into database_state (id, generation, latest_at) values (1, 0, 0);

-- One row. A release can use this database if its newest migration is at least `oldest_version`. A migration that
-- removes something that the previous release uses raises it.
create table schema_compatibility (
    id              smallint primary key check (id = 1),
    oldest_version  bigint not null
);
insert into schema_compatibility (id, oldest_version) values (1, 1);
