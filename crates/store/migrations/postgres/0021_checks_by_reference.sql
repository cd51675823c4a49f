-- Searches for a reference find its checks without reading the others of the project.
create index checks_by_reference on checks (project_id, product, reference_id, id) where reference_id is not null;
