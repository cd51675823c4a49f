-- Secure SNA and Discovery. A journey is there while its check is open: its device, its operator's answer, its code.

alter table checks add column redirect_url blob;
-- A number that a check has found out.
alter table checks add column number_sealed blob;
-- What Discovery has found out, and whom it told, goes sooner than the rest.
create index checks_discovered_by_end on checks (concluded_at)
    where product = 'discovery' and concluded_at is not null and (number_tail is not null or callback_url is not null);

create table journeys (
    check_id     blob primary key check (length(check_id) = 16),
    brief        blob not null,
    ticket_hash  blob,
    leg          blob,
    code_hash    blob,
    proof        blob,
    wrong_codes  integer not null check (wrong_codes >= 0),
    constraint journeys_leg check ((ticket_hash is null) = (leg is null)),
    constraint journeys_decision check ((code_hash is null) = (proof is null))
) strict, without rowid;
