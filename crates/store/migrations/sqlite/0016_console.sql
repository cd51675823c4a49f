-- What the console tells and guards: by which connector an SMS came, and who has guessed at passwords.

-- In no index, or a check that ends would have to change it.
alter table checks add column connector text;

-- Wrong guesses, by account and network address and by the address alone, which are known by keyed hashes only.
create table sign_in_guesses (
    subject  blob primary key check (length(subject) = 32),
    wrong    integer not null check (wrong >= 0),
    last_at  integer not null
) strict, without rowid;
create index sign_in_guesses_by_time on sign_in_guesses (last_at);
