-- Callbacks are sent again by hand a limited number of times, and only the newest attempts are kept.

alter table callbacks add column resends bigint not null default 0 check (resends >= 0);

delete from callback_attempts
 where exists (select 1 from callback_attempts newer
                where newer.check_id = callback_attempts.check_id and newer.attempt >= callback_attempts.attempt + 20);

-- Attempts of erased callbacks were only emptied.
delete from callback_attempts
 where exists (select 1 from callbacks where callbacks.check_id = callback_attempts.check_id and body is null);
