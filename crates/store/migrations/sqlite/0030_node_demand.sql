-- What each node was asked for in the last second, by kind of call and workspace: nodes divide rate limits by it.

create table node_demand (
    node_id       blob primary key check (length(node_id) = 16),
    published_at  integer not null,
    demand        text not null
) strict, without rowid;
