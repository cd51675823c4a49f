-- Codes are only looked up whole: a hash index costs half of what a tree does, at each check and again at its end.

drop index checks_by_code;
create index checks_by_code on checks using hash (code_hash) where code_hash is not null;
