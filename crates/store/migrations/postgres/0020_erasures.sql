-- Checks of erased numbers of which something is still needed: they are open, or their callbacks are still being tried.
-- Housekeeping erases the rest when they are not. They are named by their ids, since the hash of the number is to be
-- forgotten, and checks that begin later are not meant.

create table erasures (
    check_id  uuid primary key
);
