-- When a project went live. Checks of its time in the sandbox are not listed any more.

alter table projects add column live_since bigint;
