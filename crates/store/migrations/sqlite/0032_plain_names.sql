-- Renames tables and columns to the terms of OAuth and HTTP. Data is unchanged.

-- Created again instead of renamed, because SQLite cannot rename constraints. It has rows of open checks only.
create table redirect_sessions (
    check_id          blob primary key check (length(check_id) = 16),
    input             blob not null,
    state_hash        blob,
    pending_redirect  blob,
    code_hash         blob,
    verdict           blob,
    wrong_codes       integer not null check (wrong_codes >= 0),
    constraint redirect_sessions_state check ((state_hash is null) = (pending_redirect is null)),
    constraint redirect_sessions_verdict check ((code_hash is null) = (verdict is null))
) strict, without rowid;
insert into redirect_sessions (check_id, input, state_hash, pending_redirect, code_hash, verdict, wrong_codes)
select check_id, brief, ticket_hash, leg, code_hash, proof, wrong_codes from journeys;
drop table journeys;

alter table roll_call rename to database_state;
alter table database_state rename column calls to generation;
alter table database_state rename column went_back_at to rollback_detected_at;

alter table sign_in_guesses rename to login_throttle;
alter table login_throttle rename column subject to key_hash;
alter table login_throttle rename column wrong to failed_attempts;
alter table login_throttle rename column last_at to last_attempt_at;
drop index sign_in_guesses_by_time;
create index login_throttle_by_time on login_throttle (last_attempt_at);

alter table idempotency_keys rename column answer to response;

-- Completed checks by duration. Each column counts durations up to its bound and above the bound before it.
alter table activity rename column took_250 to within_250_ms_legacy;
alter table activity rename column took_500 to within_500_ms;
alter table activity rename column took_1000 to within_1000_ms;
alter table activity rename column took_2000 to within_2000_ms;
alter table activity rename column took_4000 to within_4000_ms;
alter table activity rename column took_8000 to within_8000_ms;
alter table activity rename column took_15000 to within_15000_ms;
alter table activity rename column took_30000 to within_30000_ms;
alter table activity rename column took_60000 to within_60000_ms;
alter table activity rename column took_120000 to within_120000_ms;
alter table activity rename column took_300000 to within_300000_ms;
alter table activity rename column took_more to over_300000_ms;
