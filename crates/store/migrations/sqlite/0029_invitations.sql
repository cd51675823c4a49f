-- Invitations: pending memberships with links of their own. The link is derived from the id by the hash key.

create table invitations (
    id            blob primary key check (length(id) = 16),
    workspace_id  blob not null references workspaces (id),
    email         text not null check (email <> ''),
    role          text not null check (role in ('viewer', 'developer', 'owner')),
    -- Null: the operator, at the command line.
    invited_by    blob check (length(invited_by) = 16),
    created_at    integer not null,
    expires_at    integer not null,
    unique (workspace_id, email)
) strict, without rowid;
create index invitations_by_expiry on invitations (expires_at);

alter table accounts add column disabled_at integer;
-- Null: nobody has signed in with this account yet.
alter table accounts add column signed_in_at integer;
update accounts set signed_in_at = (select max(seen_at) from sessions where sessions.account_id = accounts.id);
-- Whoever chose a password was signed in by that, and the session may be forgotten by now.
update accounts set signed_in_at = created_at where signed_in_at is null and password_hash is not null;

-- The network of the browser's address, and what the browser calls itself.
alter table sessions add column network text not null default '';
alter table sessions add column user_agent text not null default '';

-- Links that were shown to owners of a workspace may belong to accounts of others. None is valid for longer than a day.
delete from account_links;
-- Members who never chose a password cannot do so without their links. Owners can invite them again.
delete from memberships where account_id in
    (select id from accounts where password_hash is null and signed_in_at is null and is_admin = 0);
delete from accounts where password_hash is null and signed_in_at is null and is_admin = 0;
create index account_links_by_account on account_links (account_id);
