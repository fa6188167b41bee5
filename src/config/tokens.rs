//! `[[auth.tokens]]`: who may come in, and what for.
//!
//! In: the file's tables. Out: tokens by their hashes; the tokens themselves are never here.

use super::complaint::Complaints;
use super::form::choice;
use super::raw::Section;
use super::setting::{self as key, TOKEN};
use crate::http::auth::{Scope, Token};

choice!(Scope, "\"submit\", \"read\", \"work\", \"admin\"",
    "submit" => Self::Submit, "read" => Self::Read, "work" => Self::Work, "admin" => Self::Admin);

/// All of them; a name or hash belongs to one.
pub(super) fn read(top: &Section<'_>, complaints: &mut Complaints) -> Vec<Token> {
    let Some(auth) = top.inner("auth", complaints) else { return Vec::new() };
    auth.check_keys(&[], &["tokens"], complaints);
    let Some(items) = auth.find("tokens") else { return Vec::new() };
    let Some(items) = items.get_ref().as_array() else {
        auth.refuse("tokens", complaints, "expected `[[auth.tokens]]` with name, hash and scopes");
        return Vec::new();
    };
    let mut tokens: Vec<Token> = Vec::new();
    for item in items {
        let Some(section) = auth.item("tokens", item, complaints) else { continue };
        let Some(token) = read_token(&section, complaints) else { continue };
        match tokens.iter().find(|other| other.name == token.name || other.hash == token.hash) {
            Some(_) => section.refuse("name", complaints, format!("{:?} or its hash is used twice", token.name)),
            None => tokens.push(token),
        }
    }
    tokens
}

fn read_token(section: &Section<'_>, complaints: &mut Complaints) -> Option<Token> {
    section.check_keys(&[TOKEN], &[], complaints);
    let name = section.need(&key::TOKEN_NAME, complaints);
    let scopes = section.need(&key::SCOPES, complaints);
    let hash = section.need(&key::TOKEN_HASH, complaints).and_then(|text| {
        let hash = text.strip_prefix("sha256:").and_then(read_hex);
        if hash.is_none() {
            section.refuse(
                "hash",
                complaints,
                "expected `sha256:` and 64 hex digits; `longhaul token new` prints them",
            );
        }
        hash
    });
    let name = name.filter(|name| {
        let is_plain = name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_graphic()) && name != "local";
        if !is_plain {
            section.refuse("name", complaints, "expected 1 to 64 visible ASCII characters, and not `local`");
        }
        is_plain
    });
    Some(Token { name: name?.into(), hash: hash?, scopes: scopes?.into_iter().collect() })
}

fn read_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}
