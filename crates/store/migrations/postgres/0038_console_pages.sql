-- Credentials: a label for people, the creator (the kind of the actor, followed by its id), and the end of the overlap
-- with the credential that replaces it.
alter table credentials add column label text;
alter table credentials add column creator text collate "C";
alter table credentials add column retires_at bigint;

-- The check that a request created or named.
alter table requests add column check_id uuid;

-- The callbacks of a project that failed or were sent again. All others, which are by far the most, have no entry.
create index callbacks_with_failures on callbacks (project_id, check_id)
    where failed_attempts > 0 or resends > 0 or state = 'given_up';
