//! Pages of the project menu's group "Build": tools for developers who integrate the API.

mod eligibility;
mod getting_started;
mod handset;
mod sandbox_tokens;
mod sign_in_test;
mod signatures;

use ringtrue_web::routes::Routes;

pub fn routes() -> Routes {
    Routes::default()
        .merge(getting_started::routes())
        .merge(handset::routes())
        .merge(eligibility::routes())
        .merge(signatures::routes())
        .merge(sign_in_test::routes())
        .merge(sandbox_tokens::routes())
}
