-- Verifications: checks whose steps are checks of other products.

-- The verification whose step a check is.
alter table checks add column verification_id blob check (length(verification_id) = 16);
-- Of a completed verification: the method that gave the verdict, and the answer about SIM changes.
alter table checks add column method text;
alter table checks add column no_sim_change integer check (no_sim_change in (0, 1));

create table verifications (
    check_id          blob primary key check (length(check_id) = 16),
    -- The check of the current step, which every move names; after the end the verification itself.
    step_id           blob not null check (length(step_id) = 16),
    -- JSON, without personal data.
    progress          text not null check (json_valid(progress)),
    -- Sealed input of the steps. Erased at the end.
    input             blob,
    code_redeemed_at  integer
) strict, without rowid;

-- JSON: names that the previous release does not know. It would reject them in `products` and `scopes`.
alter table projects add column products_added text not null default '[]' check (json_valid(products_added));
alter table credentials add column scopes_added text not null default '[]' check (json_valid(scopes_added));
