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
    id       integer primary key check (id = 1),
    version  integer not null check (version >= 0)
) strict;
insert into control_version (id, version) values (1, 0);

-- A tenant.
create table workspaces (
    id              blob primary key check (length(id) = 16),
    name            text not null check (name <> ''),
    data_residency  text not null check (data_residency in ('eu', 'us')),
    -- JSON.
    rate_limits     text not null check (json_valid(rate_limits)),
    created_at      integer not null,
    updated_at      integer not null,
    changed         integer not null
) strict, without rowid;
create index workspaces_by_age on workspaces (created_at desc, id desc);
create index workspaces_by_change on workspaces (changed);

-- An application of a workspace. Its name is unique there. (workspace_id, id) is the target of keys that prove that a
-- row and its project belong to the same workspace.
create table projects (
    id                blob primary key check (length(id) = 16),
    workspace_id      blob not null references workspaces (id),
    name              text not null check (name <> ''),
    mode              text not null check (mode in ('sandbox', 'live')),
    disabled          integer not null check (disabled in (0, 1)),
    -- JSON: the settings of each product, the products that are switched on, and the networks they may be used with.
    configuration     text not null check (json_valid(configuration)),
    products          text not null check (json_valid(products)),
    allowed_networks  text not null check (json_valid(allowed_networks)),
    created_at        integer not null,
    updated_at        integer not null,
    -- An update names the revision that it changes, so that no change is lost.
    revision          integer not null check (revision >= 1),
    -- When the project went live. Its sandbox checks are not listed any more.
    live_since        integer,
    changed           integer not null,
    unique (workspace_id, name),
    unique (workspace_id, id)
) strict, without rowid;
create index projects_by_age on projects (workspace_id, created_at desc, id desc);
create index projects_by_change on projects (changed);

-- An uploaded logo, to which the configuration of its project refers. It is public.
create table logos (
    project_id  blob not null references projects (id),
    -- A digest of the content, and the format's extension.
    file_name   text not null check (file_name <> ''),
    content     blob not null check (length(content) between 1 and 65536),
    primary key (project_id, file_name)
) strict;

-- A client id and the keyed digest of its secret. Without a project, it opens the Management API of its workspace. The
-- foreign key ensures that a project's credential belongs to the workspace of the project.
create table credentials (
    client_id      text primary key check (client_id <> ''),
    workspace_id   blob not null references workspaces (id),
    project_id     blob,
    secret_digest  blob not null check (length(secret_digest) = 32),
    -- JSON.
    scopes         text not null check (json_valid(scopes)),
    label          text,
    created_at     integer not null,
    -- The kind of the actor that created it, followed by its id.
    creator        text not null,
    expires_at     integer,
    -- After a rotation: the end of the overlap with the credential that replaces it.
    retires_at     integer,
    deleted_at     integer,
    -- To the minute. Written in batches; not a change of the control plane.
    last_used_at   integer,
    -- MAC by the hash key. Rows that were written or altered by other means are rejected.
    row_mac  blob check (length(row_mac) = 32),
    changed        integer not null,
    foreign key (workspace_id, project_id) references projects (workspace_id, id)
) strict, without rowid;
create index credentials_by_owner on credentials (workspace_id, project_id, created_at desc, client_id desc);
create index credentials_by_change on credentials (changed);

-- An access token that was revoked before its expiry.
create table revocations (
    token_id    blob primary key check (length(token_id) = 16),
    expires_at  integer not null,
    changed     integer not null
) strict, without rowid;
create index revocations_by_change on revocations (changed);
create index revocations_by_expiry on revocations (expires_at);

-- A key of the deployment, sealed by the master key together with its purpose and schedule. `added` is the version of
-- the control plane that brought it: the newest key of a purpose does not depend on clocks, and two nodes cannot both
-- add it.
create table sealed_keys (
    id            blob primary key check (length(id) = 16),
    purpose       text not null check (purpose in ('token', 'callback', 'sandbox_callback', 'id_token', 'id_token_ec', 'seal', 'link', 'hash')),
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

-- A change of the control plane or of an account, written in the transaction that makes it. Without a workspace, it
-- concerns the deployment.
create table audit_events (
    id            blob primary key check (length(id) = 16),
    workspace_id  blob references workspaces (id),
    at            integer not null,
    actor         text not null check (actor in ('credential', 'account', 'operator', 'system')),
    client_id     text,
    account_id    blob check (length(account_id) = 16),
    action        text not null check (action <> ''),
    target        text not null,
    -- JSON.
    changes       text not null check (json_valid(changes)),
    request_id    text,
    constraint audit_events_credential check ((actor = 'credential') = (client_id is not null)),
    constraint audit_events_account check ((actor = 'account') = (account_id is not null))
) strict, without rowid;
create index audit_events_by_age on audit_events (workspace_id, at desc, id desc);
create index audit_events_by_time on audit_events (at desc, id desc);

-- The response to the first request with an idempotency key, or the claim of the request that is being processed. The
-- key gives a request to one node at a time; the fingerprint tells another request with the same key.
create table idempotency_keys (
    tenant       blob not null check (length(tenant) = 16),
    key_digest   blob not null check (length(key_digest) = 32),
    fingerprint  blob not null check (length(fingerprint) = 32),
    claim        blob not null check (length(claim) = 16),
    claimed_at   integer not null,
    lease_until  integer not null,
    expires_at   integer not null,
    -- Null: the request is being processed.
    response     blob,
    primary key (tenant, key_digest)
) strict, without rowid;
create index idempotency_keys_by_expiry on idempotency_keys (expires_at);

-- ===== Accounts of the console =====

-- A person who signs in. An email address has one account, and so has an identity at the OpenID provider.
create table accounts (
    id                   blob primary key check (length(id) = 16),
    email                text not null unique check (email <> ''),
    is_admin             integer not null check (is_admin in (0, 1)),
    -- Whether a claim, and nothing else, made the account an administrator.
    admin_by_claim       integer not null default 0 check (admin_by_claim in (0, 1)),
    -- Null: no password was set. One is set through a link.
    password_hash        text check (password_hash <> ''),
    -- Keyed hash of issuer and subject. Null: not linked to an identity.
    identity_hash        blob check (length(identity_hash) = 32),
    identity_issuer      text,
    -- The seed of the TOTP secret and the recovery codes, sealed. Null: no second factor.
    second_factor_seed   blob check (length(second_factor_seed) > 0),
    -- The last time step whose code was accepted.
    second_factor_step   integer not null default 0,
    -- Bit set of the used recovery codes.
    recovery_codes_used  integer not null default 0,
    created_at           integer not null,
    -- Null: nobody has signed in with this account yet.
    signed_in_at         integer,
    disabled_at          integer,
    -- MAC by the hash key. Rows that were written or altered by other means are rejected.
    row_mac  blob check (length(row_mac) = 32)
) strict, without rowid;
create unique index accounts_by_identity on accounts (identity_hash);

-- The role of an account in a workspace; one at most. `role` is the higher one of that from a claim and that set by
-- hand. `manual_role` is set only beside a `claim_role`.
create table memberships (
    account_id    blob not null references accounts (id),
    workspace_id  blob not null references workspaces (id),
    role          text not null check (role in ('viewer', 'developer', 'owner')),
    claim_role    text check (claim_role in ('viewer', 'developer', 'owner')),
    manual_role   text check (manual_role in ('viewer', 'developer', 'owner')),
    -- MAC by the hash key. Rows that were written or altered by other means are rejected.
    row_mac  blob check (length(row_mac) = 32),
    primary key (account_id, workspace_id)
) strict, without rowid;
create index memberships_by_workspace on memberships (workspace_id);

-- A membership that waits for its email address to accept it; one for each address and workspace. Its link is derived
-- from the id by the hash key.
create table invitations (
    id            blob primary key check (length(id) = 16),
    workspace_id  blob not null references workspaces (id),
    email         text not null check (email <> ''),
    role          text not null check (role in ('viewer', 'developer', 'owner')),
    -- Null: the operator, at the command line.
    invited_by    blob check (length(invited_by) = 16),
    created_at    integer not null,
    expires_at    integer not null,
    -- MAC by the hash key. Rows that were written or altered by other means are rejected.
    row_mac  blob check (length(row_mac) = 32),
    unique (workspace_id, email)
) strict, without rowid;
create index invitations_by_expiry on invitations (expires_at);

-- A browser that is signed in. The tokens of forms are derived from the session's token, of which only the hash is here.
create table sessions (
    token_hash  blob primary key check (length(token_hash) = 32),
    account_id  blob not null references accounts (id),
    -- The network of the browser's address, and the name that the browser sends.
    network     text not null,
    user_agent  text not null,
    created_at  integer not null,
    seen_at     integer not null,
    expires_at  integer not null,
    -- MAC by the hash key. Rows that were written or altered by other means are rejected.
    row_mac  blob check (length(row_mac) = 32)
) strict, without rowid;
create index sessions_by_account on sessions (account_id);
create index sessions_by_expiry on sessions (expires_at);

-- A link that can be used once: redeeming it deletes its row.
create table account_links (
    token_hash  blob primary key check (length(token_hash) = 32),
    account_id  blob not null references accounts (id),
    purpose     text not null check (purpose in ('set_password', 'sign_in')),
    expires_at  integer not null,
    -- MAC by the hash key. Rows that were written or altered by other means are rejected.
    row_mac  blob check (length(row_mac) = 32)
) strict, without rowid;
create index account_links_by_account on account_links (account_id);
create index account_links_by_expiry on account_links (expires_at);

-- Failed sign-ins of an account from an address, or of an address. The key is a keyed hash of them.
create table login_throttle (
    key_hash         blob primary key check (length(key_hash) = 32),
    failed_attempts  integer not null check (failed_attempts >= 0),
    last_attempt_at  integer not null
) strict, without rowid;
create index login_throttle_by_time on login_throttle (last_attempt_at);

-- ===== Checks, verifications and callbacks =====
--
-- No foreign keys to projects and checks: each insert would look up the row that it refers to.
--
-- SQLite builds a table of a list of more than two values, each time that it checks a row against it, which is half of
-- the cost of an insert. Constraints of the busiest tables have `or` instead of `in`.

-- A check of any product. A verification is one, too, and each of its steps is another one.
create table checks (
    id               blob primary key check (length(id) = 16),
    project_id       blob not null check (length(project_id) = 16),
    -- The verification of which this check is a step.
    verification_id  blob check (length(verification_id) = 16),
    product          text not null check (product <> ''),
    mode             text not null check (mode in ('sandbox', 'live')),
    created_at       integer not null,
    expires_at       integer not null,
    -- Stays when the check ends, and shows which status it left.
    pending_at       integer,
    concluded_at     integer,
    status           text not null
                     check (status = 'ACCEPTED' or status = 'PENDING' or status = 'COMPLETED' or status = 'EXPIRED'
                            or status = 'ERROR'),
    matched          integer check (matched in (0, 1)),
    error_code       text,
    network_id       text,
    -- A tail without its hash marks a check of which something is still to be erased.
    number_hash      blob check (length(number_hash) = 32),
    number_tail      text,
    -- The number that Discovery found, sealed.
    number_sealed    blob,
    reference_id     text,
    -- Sealed.
    callback_url     blob,
    redirect_url     blob,
    -- Reverse SMS: where the SMS is expected, its code, and the connector that received it.
    receiver         text,
    code_hash        blob check (length(code_hash) = 32),
    connector        text,
    -- Silent checks: the way by which the device was verified, why its wallet gave no verdict, and the error of the
    -- redirect after which the wallet was left.
    way              text,
    wallet_failure   text,
    redirect_error   text,
    -- SIM Swap: the minutes that the verdict covers, and those within which the SIM was changed.
    swap_covered     integer,
    swap_within      integer,
    -- A completed verification: the method that gave the verdict, and the answer about SIM changes.
    method           text,
    no_sim_change    integer check (no_sim_change in (0, 1)),
    constraint checks_number check (number_hash is null or number_tail is not null),
    constraint checks_open check ((status in ('ACCEPTED', 'PENDING')) = (concluded_at is null)),
    constraint checks_pending check (status <> 'PENDING' or pending_at is not null),
    constraint checks_error check ((status = 'ERROR') = (error_code is not null)),
    constraint checks_verdict check (product <> 'reverse_sms' or (status = 'COMPLETED') = (matched is not null))
) strict, without rowid;
create index checks_by_project on checks (project_id, product, id);
create index checks_by_reference on checks (project_id, product, reference_id, id) where reference_id is not null;
create index checks_by_number on checks (number_hash, project_id, created_at) where number_hash is not null;
create index checks_by_code on checks (code_hash) where code_hash is not null;
-- Checks of which something is still to be erased. Discovery has a shorter period.
create index checks_kept on checks (created_at) where number_tail is not null;
create index checks_discovered on checks (created_at)
    where product = 'discovery' and (number_tail is not null or callback_url is not null or redirect_url is not null);

-- An open check and when it expires. Ending a check deletes its row: this index of open checks is the only one that a
-- conclusion changes.
create table deadlines (
    due_at    integer not null,
    check_id  blob not null check (length(check_id) = 16),
    primary key (due_at, check_id)
) strict, without rowid;

-- What a verification has besides its check.
create table verifications (
    check_id          blob primary key check (length(check_id) = 16),
    -- The check of the current step; after the end the verification itself. A move to the next step names the step that
    -- it leaves, so that one move succeeds.
    step_id           blob not null check (length(step_id) = 16),
    -- JSON, without personal data.
    progress          text not null check (json_valid(progress)),
    -- Sealed input of the steps. Erased at the end.
    input             blob,
    code_redeemed_at  integer,
    -- Keyed hash of the redeemed code: the completion code, or the redirect code that gave the verdict.
    code_hash         blob check (length(code_hash) = 32),
    -- Language tag (BCP 47) of the hosted page.
    locale            text,
    -- When the hosted page was first opened, and on which kind of device.
    opened_at         integer,
    opened_on         text,
    check ((opened_at is null) = (opened_on is null))
) strict, without rowid;

-- What an open silent check keeps while its device is redirected: one redirect at a time, whose `state` is used once.
create table redirect_sessions (
    check_id          blob primary key check (length(check_id) = 16),
    -- Sealed.
    input             blob not null,
    state_hash        blob,
    -- Sealed.
    pending_redirect  blob,
    -- When the last redirect began, and in which browser if it began at the hosted page.
    began_at          integer,
    browser_hash      blob,
    -- The redirect code, and the operator's verdict that it confirms, sealed.
    code_hash         blob,
    verdict           blob,
    wrong_codes       integer not null check (wrong_codes >= 0),
    constraint redirect_sessions_state check ((state_hash is null) = (pending_redirect is null)),
    constraint redirect_sessions_verdict check ((code_hash is null) = (verdict is null))
) strict, without rowid;

-- The callback of a check; one at most. The transaction that ends the check inserts it. `due_at` is both schedule and
-- lease: a node that takes a callback moves it to the end of the lease.
create table callbacks (
    check_id          blob primary key check (length(check_id) = 16),
    project_id        blob not null check (length(project_id) = 16),
    product           text not null,
    created_at        integer not null,
    state             text not null check (state = 'waiting' or state = 'delivered' or state = 'given_up'),
    due_at            integer,
    -- Since the callback was last sent by hand, and before that.
    failed_attempts   integer not null check (failed_attempts >= 0),
    earlier_attempts  integer not null default 0 check (earlier_attempts >= 0),
    -- How often it was sent again by hand.
    resends           integer not null default 0 check (resends >= 0),
    -- Sealed.
    url               blob not null,
    body              blob,
    constraint callbacks_waiting check ((state = 'waiting') = (due_at is not null)),
    constraint callbacks_body check (state <> 'waiting' or body is not null)
) strict, without rowid;
create index callbacks_by_due_at on callbacks (due_at) where state = 'waiting';
-- Callbacks that failed or were sent again. All others, which are by far the most, have no entry.
create index callbacks_with_failures on callbacks (project_id, check_id)
    where failed_attempts > 0 or resends > 0 or state = 'given_up';

-- One attempt to deliver a callback. The newest attempts are kept.
create table callback_attempts (
    check_id    blob not null check (length(check_id) = 16),
    attempt     integer not null check (attempt > 0),
    started_at  integer not null,
    ended_at    integer not null,
    status      integer,
    failure     text,
    -- Request and response, sealed.
    exchange    blob,
    primary key (check_id, attempt)
) strict, without rowid;

-- A check of an erased number that is still open, or whose callback is still being delivered. Housekeeping erases the
-- rest at its end. Named by id, because the hash of the number is gone and later checks are not meant.
create table erasures (
    check_id  blob primary key check (length(check_id) = 16)
) strict, without rowid;

-- One row. Checks created before `deleted_before` are deleted, or about to be, and lists omit them. Counters outlive
-- checks, so lists read them only from this instant on.
create table check_retention (
    id              integer primary key check (id = 1),
    deleted_before  integer not null
) strict;
insert into check_retention (id, deleted_before) values (1, 0);

-- ===== Sign-ins =====
--
-- Users of other applications who sign in with their number (OpenID Connect). A project is the client. Rows live for
-- minutes; housekeeping deletes expired ones.

-- An authorization request, from its arrival to the expiry of its tokens. The first write of `proof` or `error` ends
-- it, and the first write of `redeemed_at` uses its code; both are conditional.
create table sign_ins (
    id               blob primary key check (length(id) = 16),
    project_id       blob not null check (length(project_id) = 16),
    client_id        text not null check (client_id <> ''),
    -- Sealed: redirect URI, state, nonce, challenge and hints.
    request          blob not null,
    created_at       integer not null,
    -- When the user can no longer finish it, and after the end, when its code or tokens expire.
    expires_at       integer not null,
    -- The check that proves the number. Null: none was started yet.
    check_product    text,
    check_id         blob check (length(check_id) = 16),
    -- The number that a verification is to prove, sealed. Null: the operator finds it, or it follows later.
    number           blob,
    -- The proven number, and how and when it was proven, sealed.
    proof            blob,
    code_expires_at  integer,
    redeemed_at      integer,
    -- When the code was used a second time, which revokes the tokens.
    revoked_at       integer,
    -- The OAuth error that the client got instead.
    error            text,
    constraint sign_ins_check check ((check_product is null) = (check_id is null)),
    constraint sign_ins_code check ((proof is null) = (code_expires_at is null)),
    constraint sign_ins_end check (proof is null or error is null),
    constraint sign_ins_redeemed check (redeemed_at is null or proof is not null),
    constraint sign_ins_revoked check (revoked_at is null or redeemed_at is not null)
) strict, without rowid;
create index sign_ins_by_expiry on sign_ins (expires_at);

-- An authorization request that a client has sent in advance (RFC 9126). Taking it deletes its row.
create table pushed_authorizations (
    -- Keyed hash of the `request_uri`.
    reference_hash  blob primary key check (length(reference_hash) = 32),
    client_id       text not null check (client_id <> ''),
    -- Sealed.
    parameters      blob not null,
    expires_at      integer not null
) strict, without rowid;
create index pushed_authorizations_by_expiry on pushed_authorizations (expires_at);

-- A browser that stays signed in to a project.
create table sign_in_sessions (
    token_hash   blob primary key check (length(token_hash) = 32),
    project_id   blob not null check (length(project_id) = 16),
    -- Finds the sessions of a number that is erased.
    number_hash  blob not null check (length(number_hash) = 32),
    -- Sealed.
    proof        blob not null,
    expires_at   integer not null
) strict, without rowid;
create index sign_in_sessions_by_number on sign_in_sessions (number_hash);
create index sign_in_sessions_by_expiry on sign_in_sessions (expires_at);

-- A signed assertion of a client, until it expires. The key ensures that it is used once.
create table used_assertions (
    -- Keyed hash of the client and the `jti`.
    assertion_hash  blob primary key check (length(assertion_hash) = 32),
    expires_at      integer not null
) strict, without rowid;
create index used_assertions_by_expiry on used_assertions (expires_at);

-- ===== Numbers and SMS =====

-- A concatenated SMS of which parts were received. Parts may arrive at different nodes.
create table concatenated_sms (
    -- Keyed hash of connector, sender, receiver, reference and number of parts.
    sms_key       blob primary key check (length(sms_key) = 32),
    -- Distinguishes SMS that use the same reference one after the other.
    sms_id        blob not null check (length(sms_id) = 16),
    connector     text not null,
    sender_hash   blob not null check (length(sender_hash) = 32),
    total_parts   integer not null check (total_parts between 2 and 255),
    expires_at    integer not null,
    -- Null: parts are missing, or the SMS has not been processed yet.
    processed_at  integer
) strict, without rowid;
create index concatenated_sms_by_sender on concatenated_sms (sender_hash) where processed_at is null;
create index concatenated_sms_by_connector on concatenated_sms (connector, expires_at);
create index concatenated_sms_by_expiry on concatenated_sms (expires_at);

-- A part of a concatenated SMS. The key ignores repetitions of a part.
create table sms_parts (
    sms_key       blob not null references concatenated_sms (sms_key) on delete cascade,
    sequence      integer not null check (sequence between 1 and 255),
    content_hash  blob not null check (length(content_hash) = 32),
    -- Sealed. Null: the SMS was processed.
    content       blob,
    primary key (sms_key, sequence)
) strict, without rowid;

-- A SIM swap that a project made at its simulated operator; the last one of a number. A project keeps its newest swaps.
create table simulated_sim_swaps (
    project_id   blob not null check (length(project_id) = 16),
    number_hash  blob not null check (length(number_hash) = 32),
    -- Sealed.
    number       blob not null,
    swapped_at   integer not null,
    created_at   integer not null,
    primary key (project_id, number_hash)
) strict, without rowid;

-- ===== Counters and logs =====
--
-- Counters have no foreign key to `projects`: each count would look up the project.

-- Checks of a project by hour, product, status, match, network and way (`via`), for billing and lists. A counter is the sum of its
-- slots: nodes that count at the same time use different slots, and do not wait for each other's commits. The key has no
-- nulls: -1 stands for no verdict, '' for no network. There is no
-- `count >= 0`: a check must be able to end even if its counter is wrong.
create table usage_counters (
    project_id  blob not null check (length(project_id) = 16),
    product     text not null check (product <> ''),
    hour        text not null check (length(hour) = 13),
    status      text not null
                check (status = 'ACCEPTED' or status = 'PENDING' or status = 'COMPLETED' or status = 'EXPIRED'
                       or status = 'ERROR'),
    matched     integer not null check (matched between -1 and 1),
    network_id  text not null check (length(network_id) = 0 or length(network_id) between 5 and 6),
    via         text not null,
    slot        integer not null,
    count       integer not null,
    primary key (project_id, hour, product, status, matched, network_id, via, slot)
) strict, without rowid;

-- The hourly counters summed up by day. A list finds the day of a page here, and the hour of the day there.
create table usage_days (
    project_id  blob not null check (length(project_id) = 16),
    product     text not null,
    day         text not null check (length(day) = 10),
    status      text not null,
    matched     integer not null,
    network_id  text not null,
    via         text not null,
    slot        integer not null,
    count       integer not null,
    primary key (project_id, day, product, status, matched, network_id, via, slot)
) strict, without rowid;

-- Counts of a project for the console, by minute, or by hour once its minutes are old: `minutes` says which. '' stands
-- for no network. Counts are only added to, and may be negative for a moment.
create table activity (
    project_id          blob not null check (length(project_id) = 16),
    start_at            integer not null,
    minutes             integer not null check (minutes in (1, 60)),
    product             text not null check (product <> ''),
    network_id          text not null check (length(network_id) in (0, 5, 6)),
    -- Whether the checks are steps of verifications.
    is_step             integer not null check (is_step in (0, 1)),
    created             integer not null,
    seen                integer not null,
    completed           integer not null,
    matched             integer not null,
    expired             integer not null,
    failed              integer not null,
    attempts_delivered  integer not null,
    attempts_failed     integer not null,
    given_up            integer not null,
    -- Completed checks by duration. Each column counts durations up to its bound and above the bound before it.
    within_1_ms         integer not null,
    within_2_ms         integer not null,
    within_4_ms         integer not null,
    within_8_ms         integer not null,
    within_16_ms        integer not null,
    within_32_ms        integer not null,
    within_64_ms        integer not null,
    within_125_ms       integer not null,
    within_250_ms       integer not null,
    within_500_ms       integer not null,
    within_1000_ms      integer not null,
    within_2000_ms      integer not null,
    within_4000_ms      integer not null,
    within_8000_ms      integer not null,
    within_15000_ms     integer not null,
    within_30000_ms     integer not null,
    within_60000_ms     integer not null,
    within_120000_ms    integer not null,
    within_300000_ms    integer not null,
    over_300000_ms      integer not null,
    primary key (project_id, start_at, minutes, product, network_id, is_step)
) strict, without rowid;
create index activity_by_age on activity (minutes, start_at);

-- How far a project's verifications get, and why they are lost, by the minute or hour in which they were created. Counts
-- are only added to.
create table funnel_counts (
    project_id  blob not null check (length(project_id) = 16),
    start_at    integer not null,
    minutes     integer not null check (minutes in (1, 60)),
    -- The stage or the loss, such as 'reached:sms_shown' or 'lost:sms_shown:expired'.
    event       text not null check (event <> ''),
    count       integer not null,
    primary key (project_id, start_at, minutes, event)
) strict, without rowid;
create index funnel_counts_by_age on funnel_counts (minutes, start_at);

-- A recent API request of a project, with its values masked.
create table requests (
    project_id     blob not null references projects (id),
    id             blob not null check (length(id) = 16),
    at             integer not null,
    -- Clients may choose it, and use one twice.
    request_id     text not null check (request_id <> ''),
    method         text not null,
    route          text not null,
    status         integer not null check (status between 100 and 599),
    error_code     text,
    detail         text,
    client_id      text not null,
    -- Requests that only name a client have a share of the log of their own.
    authenticated  integer not null check (authenticated in (0, 1)),
    micros         integer not null check (micros >= 0),
    query          text,
    body           text,
    -- The check that the request created or named.
    check_id       blob check (length(check_id) = 16),
    -- Similar requests that sampling skipped since the last logged one.
    skipped        integer not null check (skipped >= 0),
    primary key (project_id, id),
    check ((error_code is null) = (detail is null))
) strict, without rowid;
create index requests_by_request_id on requests (project_id, request_id);
create index requests_by_age on requests (at);

-- ===== Nodes and the database =====

-- A running server, and its last heartbeat.
create table nodes (
    id       blob primary key check (length(id) = 16),
    seen_at  integer not null
) strict, without rowid;

-- The requests that a node counted in each of the last seconds, by the keyed hash of what they are counted for: nodes
-- divide rate limits in proportion to them.
create table node_demand (
    node_id       blob primary key check (length(node_id) = 16),
    published_at  integer not null,
    demand        text not null
) strict, without rowid;

-- A resource that one node at a time may use, such as the binds of an account at an SMSC.
create table leases (
    name        text primary key,
    holder_id   blob not null check (length(holder_id) = 16),
    expires_at  integer not null,
    -- Established connections of the holder.
    links_up    integer not null check (links_up >= 0)
) strict, without rowid;

-- One row. Heartbeats raise `generation`, which serialises them; a database in which it is lower than a node remembers
-- was restored from a backup.
create table database_state (
    id                    integer primary key check (id = 1),
    generation            integer not null,
    -- The latest time that a node has recorded. Time never falls below it, so that a clock that is set back revives
    -- nothing that has expired.
    latest_at             integer not null,
    -- Distinguishes copies of a database.
    identity              text,
    -- Set when a node notices that the database went back, until `ringtrue restored` clears it.
    rollback_detected_at  integer
) strict;
insert into database_state (id, generation, latest_at) values (1, 0, 0);

-- One row. A release can use this database if its newest migration is at least `oldest_version`. A migration that
-- removes something that the previous release uses raises it.
create table schema_compatibility (
    id              integer primary key check (id = 1),
    oldest_version  integer not null
) strict;
insert into schema_compatibility (id, oldest_version) values (1, 1);
