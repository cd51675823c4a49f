//! Verifies a number with the client of openapi-generator's `rust`.

use std::env::var;

use ringtrue_client::{
    apis::{Error, configuration::Configuration, o_auth_api, projects_api, verifications_api},
    models::{
        ChainEnd, NextStep, ProjectConfigurationPatch, ProjectPatch, ReverseSmsConfigurationPatch, SecureSnaRedemption,
        VerificationInput, verification_input::Methods,
    },
};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Returns a configuration with a token.
async fn authorize(scope: &str, prefix: &str) -> Outcome<Configuration> {
    let credentials = (var(format!("{prefix}CLIENT_ID"))?, Some(var(format!("{prefix}CLIENT_SECRET"))?));
    let base_path = var("BASE_URL")?;
    let login = Configuration { base_path: base_path.clone(), basic_auth: Some(credentials), ..Configuration::default() };
    // After the grant come all optional parameters, by name; the scope is the last one.
    let token =
        o_auth_api::create_token(&login, "client_credentials", None, None, None, None, None, None, None, None, None, Some(scope)).await?;
    Ok(Configuration { base_path, oauth_access_token: Some(token.access_token), ..Configuration::default() })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let client = authorize("verification", "").await?;
    let methods = Some(vec![Methods::SecureSna, Methods::ReverseSms]);
    let input = VerificationInput { methods, ..VerificationInput::new(var("PHONE_NUMBER")?) };
    let created = verifications_api::create_verification(&client, input, None).await?;
    let NextStep::SecureSna(step) = *created.next_step else { return Err("another first step".into()) };
    let end: ChainEnd = client.client.get(&step.url).send().await?.json().await?;
    let redemption = SecureSnaRedemption { code: Some(end.code.ok_or("no code")?), ..SecureSnaRedemption::new() };
    let id = created.verification_id.to_string();
    let verified = verifications_api::redeem_verification_code(&client, &id, redemption).await?;
    assert_eq!(verified.steps[0].method, "secure_sna");

    let unknown = verifications_api::get_verification(&client, "01a1d9b0-3c4d-7e5f-9061-7b8c9d0e1f2a").await;
    let Err(Error::ResponseError(refused)) = unknown else { return Err("an unknown verification".into()) };
    let problem: Value = serde_json::from_str(&refused.content)?;

    let mut reverse_sms = ReverseSmsConfigurationPatch::new();
    reverse_sms.ttl = Some(Some(120));
    let mut settings = ProjectConfigurationPatch::new();
    settings.reverse_sms = Some(Some(Box::new(reverse_sms)));
    settings.verification = Some(None);
    let mut patch = ProjectPatch::new();
    patch.configuration = Some(Some(Box::new(settings)));
    let manager = authorize("management", "WORKSPACE_").await?;
    let (workspace, id) = (var("WORKSPACE_ID")?, var("PROJECT_ID")?);
    let project = projects_api::update_project(&manager, &workspace, &id, patch, None, None).await?;

    let seen = json!({
        "next_step": "secure_sna",
        "status": verified.status,
        "match": verified.r#match,
        "method": verified.method,
        "error_code": problem["error_code"],
        "ttl": project.configuration.reverse_sms.ttl,
    });
    println!("{seen}");
    Ok(())
}
