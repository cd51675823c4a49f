-- What the console tells and guards: by which connector an SMS came, and who has guessed at passwords.

-- In no index, or a check that ends could not be changed in place.
alter table checks add column connector text collate "C";

-- Wrong guesses, by account and network address and by the address alone, which are known by keyed hashes only.
create table sign_in_guesses (
    subject  bytea primary key check (length(subject) = 32),
    wrong    bigint not null check (wrong >= 0),
    last_at  bigint not null
);
create index sign_in_guesses_by_time on sign_in_guesses (last_at);
