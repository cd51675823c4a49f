-- Callbacks of sandbox checks are signed by a key of their own.

alter table sealed_keys drop constraint sealed_keys_purpose_check;
alter table sealed_keys add constraint sealed_keys_purpose_check
    check (purpose in ('token', 'callback', 'sandbox_callback', 'seal', 'hash'));
