//! Sign-in with password, second factor or OpenID Connect; the user's own account; and the forms and cookies of a
//! session.

mod account;
mod browser_name;
pub mod console_session;
pub mod flash;
pub mod forms;
mod layout_source;
mod openid_connect;
pub mod response_context;
mod second_factor;
mod sign_in;
mod visitor;

use ringtrue_web::routes::Routes;

pub fn routes() -> Routes {
    Routes::default()
        .merge(sign_in::routes())
        .merge(account::routes())
        .merge(openid_connect::routes())
        .merge(second_factor::routes())
}
