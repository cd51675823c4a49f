-- Renames tables and columns to the terms of OAuth and HTTP. Data is unchanged.

alter table journeys rename to redirect_sessions;
alter table redirect_sessions rename column brief to input;
alter table redirect_sessions rename column ticket_hash to state_hash;
alter table redirect_sessions rename column leg to pending_redirect;
alter table redirect_sessions rename column proof to verdict;
alter table redirect_sessions rename constraint journeys_pkey to redirect_sessions_pkey;
alter table redirect_sessions rename constraint journeys_wrong_codes_check to redirect_sessions_wrong_codes_check;
alter table redirect_sessions rename constraint journeys_leg to redirect_sessions_state;
alter table redirect_sessions rename constraint journeys_decision to redirect_sessions_verdict;

-- Renamed, not created again: its OID is part of the database's identity.
alter table roll_call rename to database_state;
alter table database_state rename column calls to generation;
alter table database_state rename column went_back_at to rollback_detected_at;
alter table database_state rename constraint roll_call_pkey to database_state_pkey;
alter table database_state rename constraint roll_call_id_check to database_state_id_check;

alter table sign_in_guesses rename to login_throttle;
alter table login_throttle rename column subject to key_hash;
alter table login_throttle rename column wrong to failed_attempts;
alter table login_throttle rename column last_at to last_attempt_at;
alter table login_throttle rename constraint sign_in_guesses_pkey to login_throttle_pkey;
alter table login_throttle rename constraint sign_in_guesses_subject_check to login_throttle_key_hash_check;
alter table login_throttle rename constraint sign_in_guesses_wrong_check to login_throttle_failed_attempts_check;
alter index sign_in_guesses_by_time rename to login_throttle_by_time;

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

-- PostgreSQL 18 and later name `not null` constraints after their table and column.
do $$
declare
    renamed record;
begin
    for renamed in
        select relname, conname, relname || '_' || attname || '_not_null' as new_name
          from pg_constraint
               join pg_class on pg_class.oid = conrelid
               join pg_attribute on attrelid = conrelid and attnum = conkey[1]
         where contype = 'n'
           and conrelid in ('redirect_sessions'::regclass, 'database_state'::regclass, 'login_throttle'::regclass,
                            'activity'::regclass)
    loop
        if renamed.conname <> renamed.new_name then
            execute format('alter table %I rename constraint %I to %I', renamed.relname, renamed.conname,
                           renamed.new_name);
        end if;
    end loop;
end
$$;
