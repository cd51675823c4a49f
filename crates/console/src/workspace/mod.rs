//! Pages of a workspace: its projects, members, audit log and usage.

mod audit;
pub mod members;
mod new_project;
mod usage;
mod workspaces;

use ringtrue_web::routes::Routes;

pub fn routes() -> Routes {
    Routes::default()
        .merge(workspaces::routes())
        .merge(new_project::routes())
        .merge(members::routes())
        .merge(audit::routes())
        .merge(usage::routes())
}
