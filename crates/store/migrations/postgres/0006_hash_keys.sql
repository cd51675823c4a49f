-- Numbers and codes are hashed with a key of their own.

alter table sealed_keys drop constraint sealed_keys_purpose_check;
alter table sealed_keys add constraint sealed_keys_purpose_check
    check (purpose in ('token', 'callback', 'seal', 'hash'));
