//! `token new`: makes a token, and the lines of the configuration that let it in.
//!
//! In: a name and scopes. Out: the token, once; only its hash is ever kept.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::json;

use super::failure::{Ending, Failure};
use super::output::Output;
use crate::config::{self, File, Written};
use crate::http::auth;

/// What a new token is for.
#[derive(Debug, clap::Args)]
pub struct New {
    /// The principal: the owner of what it submits
    #[arg(long)]
    name: String,
    /// Any of submit, read, work, admin, apart by commas
    #[arg(long, value_delimiter = ',', default_value = "submit,read")]
    scopes: Vec<String>,
    /// One JSON value instead of text for people
    #[arg(long)]
    pub json: bool,
}

/// Prints a new token and its lines.
///
/// # Errors
/// `Usage` for a name or scope that cannot be one.
pub fn new(output: &Output, wish: &New) -> Result<Ending, Failure> {
    let mut secret = [0; 32];
    let no_chance = |why| Failure::Usage(format!("the system gives no randomness: {why}"));
    getrandom::fill(&mut secret).map_err(no_chance)?;
    let token = format!("lh_{}", BASE64_URL_SAFE_NO_PAD.encode(secret));
    let hash = auth::hash(&token);
    let lines = lines(&wish.name, &wish.scopes, &hash);
    let file = File { name: "the new token".to_owned(), text: lines.clone() };
    if let Err(complaints) = config::read(&Written { file: Some(file), ..Written::default() }) {
        let complaints: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        return Err(Failure::Usage(complaints.join("\n")));
    }
    if output.json {
        let New { name, scopes, json: _ } = wish;
        output
            .value(&json!({ "token": token, "name": name, "hash": written(&hash), "scopes": scopes, "toml": lines }))?;
        return Ok(Ending::Done);
    }
    output.note("The token. It is shown this once; give it to the client as LONGHAUL_TOKEN:");
    output.line(&token)?;
    output.note("The server's side of it, for longhaul.toml:");
    output.line(&format!("\n{lines}"))?;
    Ok(Ending::Done)
}

/// A hash as the configuration has it.
fn written(hash: &[u8; 32]) -> String {
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn lines(name: &str, scopes: &[String], hash: &[u8; 32]) -> String {
    let hash = written(hash);
    let name = toml::Value::from(name);
    let scopes: Vec<String> = scopes.iter().map(|scope| toml::Value::from(scope.trim()).to_string()).collect();
    format!("[[auth.tokens]]\nname = {name}\nhash = \"{hash}\"\nscopes = [{}]", scopes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_let_the_token_in() {
        let text = lines("ci", &["submit".to_owned(), " admin".to_owned()], &auth::hash("lh_x"));
        let file = File { name: "f".to_owned(), text };
        let config = config::read(&Written { file: Some(file), ..Written::default() }).expect("complete");
        assert_eq!((&*config.tokens[0].name, config.tokens[0].hash), ("ci", auth::hash("lh_x")));
        assert!(config.tokens[0].scopes.has(auth::Scope::Admin));
    }
}
