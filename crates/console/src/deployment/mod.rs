//! Pages about the whole deployment, for administrators.

mod accounts;
mod keys;
mod networks;

use ringtrue_web::routes::Routes;

pub fn routes() -> Routes {
    Routes::default().merge(networks::routes()).merge(accounts::routes()).merge(keys::routes())
}
