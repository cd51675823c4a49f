-- What each node was asked for in the last second, by kind of call and workspace: nodes divide rate limits by it.

create table node_demand (
    node_id       uuid primary key,
    published_at  bigint not null,
    demand        text collate "C" not null
);
