//! Who asks, and what they may: bearer tokens and their scopes.
//!
//! In: the head of a request. Out: a `Caller`, or 401 or 403. Compares in constant time, and never logs or repeats a token.

use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::{self, HeaderValue};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::problem::{Code, Problem};
use crate::service::Viewer;

/// One thing that a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Make, answer, cancel and replay jobs.
    Submit,
    /// Read jobs, results, logs, events, metrics.
    Read,
    /// Claim and report as a remote worker.
    Work,
    /// All of it, for every principal's jobs.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 4] = [Self::Submit, Self::Read, Self::Work, Self::Admin];

    /// The word of contract 7.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Work => "work",
            Self::Admin => "admin",
        }
    }

    /// The scope with that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Submit => 1,
            Self::Read => 2,
            Self::Work => 4,
            Self::Admin => 8,
        }
    }
}

/// What a token may do. `admin` holds all the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Whether it may do that.
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & (scope.bit() | Scope::Admin.bit()) != 0
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

/// A configured token: `[[auth.tokens]]`.
#[derive(Clone)]
pub struct Token {
    /// The principal.
    pub name: Arc<str>,
    /// SHA-256 of the token's text; the text itself is nowhere.
    pub hash: [u8; 32],
    /// What it may do.
    pub scopes: Scopes,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({}, {:?})", self.name, self.scopes)
    }
}

/// The SHA-256 of a token's text, as the configuration holds it.
pub fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// What they see.
    pub viewer: Viewer,
    /// What they may do.
    pub scopes: Scopes,
    /// They hold a read ticket of the owner's, and are not the owner.
    pub is_ticket: bool,
}

impl Caller {
    /// Goes on only with that scope.
    ///
    /// # Errors
    /// `forbidden`.
    pub fn needs(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.has(scope) {
            return Ok(());
        }
        Err(Problem::new(Code::Forbidden, format!("this needs the scope {}", scope.name())))
    }
}

/// The configured tokens.
pub struct Auth {
    tokens: Vec<Token>,
    local: Caller,
}

impl Auth {
    /// Without tokens everybody is `local`, with every scope.
    pub fn new(tokens: Vec<Token>) -> Self {
        let local = Caller { viewer: Viewer::local(), scopes: Scope::ALL.into_iter().collect(), is_ticket: false };
        Self { tokens, local }
    }

    /// Whether credentials are asked for at all.
    pub fn is_open(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Who sent this request.
    ///
    /// # Errors
    /// `unauthenticated`, with `WWW-Authenticate`.
    pub fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        if self.is_open() {
            return Ok(self.local.clone());
        }
        let mut sent = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(field), None) = (sent.next(), sent.next()) else {
            return Err(unauthenticated("exactly one Authorization: Bearer TOKEN is needed"));
        };
        let token = bearer(field).ok_or_else(|| unauthenticated("Authorization is not Bearer TOKEN"))?;
        let token = self.known(token).ok_or_else(|| unauthenticated("this token is not known"))?;
        let viewer = Viewer { principal: token.name.clone(), sees_all: token.scopes.has(Scope::Admin) };
        Ok(Caller { viewer, scopes: token.scopes, is_ticket: false })
    }

    /// Compares with every token, found or not, so that time says nothing.
    fn known(&self, presented: &str) -> Option<&Token> {
        let presented = hash(presented);
        let mut found = None;
        for token in &self.tokens {
            if bool::from(token.hash.ct_eq(&presented)) {
                found = Some(token);
            }
        }
        found
    }
}

fn bearer(field: &HeaderValue) -> Option<&str> {
    let (scheme, token) = field.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// 401 with the header that says how.
pub fn unauthenticated(why: &str) -> Problem {
    let how = HeaderValue::from_static("Bearer realm=\"longhaul\"");
    Problem::new(Code::Unauthenticated, why).with_header(header::WWW_AUTHENTICATE, how)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth() -> Auth {
        let token = |name: &str, text: &str, scopes: &[Scope]| Token {
            name: name.into(),
            hash: hash(text),
            scopes: scopes.iter().copied().collect(),
        };
        Auth::new(vec![
            token("ann", "lh_ann", &[Scope::Submit, Scope::Read]),
            token("bob", "lh_bob", &[Scope::Read]),
            token("root", "lh_root", &[Scope::Admin]),
        ])
    }

    fn caller(fields: &[&'static str]) -> Result<Caller, Code> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::AUTHORIZATION, HeaderValue::from_static(field));
        }
        auth().caller(&headers).map_err(|problem| problem.code)
    }

    #[test]
    fn a_known_token_names_its_principal() {
        let ann = caller(&["Bearer lh_ann"]).unwrap();
        assert_eq!(ann.viewer, Viewer { principal: "ann".into(), sees_all: false });
        assert_eq!(caller(&["bearer  lh_ann "]).as_ref(), Ok(&ann));
        assert!(ann.needs(Scope::Submit).is_ok() && ann.needs(Scope::Read).is_ok());
        assert_eq!(ann.needs(Scope::Work).map_err(|p| p.code), Err(Code::Forbidden));
        let bob = caller(&["Bearer lh_bob"]).unwrap();
        assert_eq!(bob.needs(Scope::Submit).map_err(|p| p.code), Err(Code::Forbidden));
    }

    #[test]
    fn admin_holds_every_scope_and_sees_every_job() {
        let root = caller(&["Bearer lh_root"]).unwrap();
        assert!(root.viewer.sees_all && Scope::ALL.into_iter().all(|scope| root.needs(scope).is_ok()));
    }

    #[test]
    fn anything_else_is_unauthenticated_and_told_how() {
        for fields in [
            &[][..],
            &["Bearer"],
            &["Bearer "],
            &["Basic lh_ann"],
            &["lh_ann"],
            &["Bearer lh_an"],
            &["Bearer lh_ann x"],
        ] {
            assert_eq!(caller(fields), Err(Code::Unauthenticated), "{fields:?}");
        }
        assert_eq!(caller(&["Bearer lh_ann", "Bearer lh_ann"]), Err(Code::Unauthenticated));
        let answer = unauthenticated("why").into_response();
        assert_eq!(answer.headers()[header::WWW_AUTHENTICATE], "Bearer realm=\"longhaul\"");
    }

    #[test]
    fn without_tokens_everybody_is_local_with_everything() {
        let local = Auth::new(Vec::new()).caller(&HeaderMap::new()).unwrap();
        assert_eq!(local.viewer, Viewer::local());
        assert!(Scope::ALL.into_iter().all(|scope| local.needs(scope).is_ok()));
    }

    #[test]
    fn a_token_is_not_printed() {
        let token = Token { name: "ann".into(), hash: hash("lh_ann"), scopes: Scopes::default() };
        assert_eq!(format!("{token:?}"), "Token(ann, Scopes(0))");
    }
}
