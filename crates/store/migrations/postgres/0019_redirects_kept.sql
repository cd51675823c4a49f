-- Where Discovery sent a device goes as soon as whom it told, also when it told nobody.

drop index checks_discovered;
create index checks_discovered on checks (created_at)
    where product = 'discovery' and (number_tail is not null or callback_url is not null or redirect_url is not null);
