//! Read tickets: one job, a quarter of an hour, for those who cannot send a header (`EventSource`, a widget's page).
//!
//! A ticket is `job id | expiry | issuer | HMAC-SHA256 of these` in unpadded URL-safe Base64. Its key is kept in the store,
//! so that tickets survive a restart. Never lets anybody do more than read that job.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::auth::{Caller, Scope, unauthenticated};
use super::problem::{Code, Problem};
use crate::job::{JobId, Millis, Timestamp};
use crate::service::{CellChange, Refused, Service, Viewer};

/// How long a ticket is good.
pub const LIFETIME: Millis = Millis::seconds(15 * 60);
/// Longest ticket that is looked at, in characters; longer is none of ours.
pub const LEN_MAX: usize = 512;
/// The cell that keeps the key.
const CELL: &str = "ticket-key";

const JOB: usize = 16;
const EXPIRY: usize = 8;
const MAC: usize = 32;

/// What signs tickets.
pub struct Tickets {
    key: [u8; 32],
}

/// A fresh ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// For `?ticket=`.
    pub text: String,
    /// When it ends.
    pub expires_at: Timestamp,
}

impl Tickets {
    /// Signs with this key.
    pub const fn with_key(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// Signs with the key that the store keeps; at the very first start that becomes `seed`.
    ///
    /// # Errors
    /// What the store refuses.
    pub async fn load(service: &Service, seed: [u8; 32]) -> Result<Self, Refused> {
        for (name, value) in service.cells(CELL).await? {
            if name == CELL
                && let Ok(key) = value.as_ref().try_into()
            {
                return Ok(Self::with_key(key));
            }
        }
        let value = Some(bytes::Bytes::copy_from_slice(&seed));
        match service.put_cells(vec![CellChange { name: CELL.into(), expect: None, value }]).await {
            Ok(()) => {}
            Err(Refused::DiskFull) => tracing::warn!("the disk is full: tickets end with this process"),
            Err(refused) => return Err(refused),
        }
        Ok(Self::with_key(seed))
    }

    /// A ticket for a job that the issuer has just been shown.
    pub fn issue(&self, job: JobId, issuer: &str, now: Timestamp) -> Ticket {
        let expires_at = now.plus(LIFETIME);
        let mut bytes = job.as_u128().to_be_bytes().to_vec();
        bytes.extend(expires_at.0.to_be_bytes());
        bytes.extend(issuer.as_bytes());
        let mac = self.mac(&bytes).finalize().into_bytes();
        bytes.extend(mac);
        Ticket { text: BASE64.encode(bytes), expires_at }
    }

    /// The caller that a ticket for this job makes: they may read, and their streams count as the issuer's.
    ///
    /// # Errors
    /// `unauthenticated` if it is none of ours or has ended; `forbidden` if it is for another job.
    pub fn admit(&self, text: &str, job: JobId, now: Timestamp) -> Result<Caller, Problem> {
        let bytes = self.genuine(text).ok_or_else(|| unauthenticated("this ticket is not valid"))?;
        let (id, rest) = bytes.split_at(JOB);
        let (expiry, issuer) = rest.split_at(EXPIRY);
        let expires_at = Timestamp(expiry.try_into().map_or(0, i64::from_be_bytes));
        if expires_at <= now {
            return Err(unauthenticated("this ticket has ended; get a new one"));
        }
        if id != job.as_u128().to_be_bytes() {
            return Err(Problem::new(Code::Forbidden, "this ticket is for another job"));
        }
        let principal = String::from_utf8_lossy(issuer).into();
        // The issuer saw the job when the ticket was made; the router lets a ticket reach nothing else.
        let viewer = Viewer { principal, sees_all: true };
        Ok(Caller { viewer, scopes: [Scope::Read].into_iter().collect(), is_ticket: true })
    }

    /// What was signed, if we signed it. The comparison takes constant time.
    fn genuine(&self, text: &str) -> Option<Vec<u8>> {
        let mut bytes = (text.len() <= LEN_MAX).then(|| BASE64.decode(text).ok()).flatten()?;
        let signed = bytes.len().checked_sub(MAC).filter(|len| *len >= JOB + EXPIRY)?;
        let mac = bytes.split_off(signed);
        self.mac(&bytes).verify_slice(&mac).ok()?;
        Some(bytes)
    }

    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes a key of any length");
        mac.update(b"longhaul ticket 1");
        mac.update(bytes);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);
    const JOB_A: JobId = JobId::from_u128(0xa);
    const TICKETS: Tickets = Tickets::with_key([7; 32]);

    fn admitted(text: &str, job: JobId, now: Timestamp) -> Result<Caller, Code> {
        TICKETS.admit(text, job, now).map_err(|problem| problem.code)
    }

    #[test]
    fn a_ticket_lets_its_bearer_read_its_job_until_it_ends() {
        let ticket = TICKETS.issue(JOB_A, "ann", NOW);
        let caller = admitted(&ticket.text, JOB_A, NOW).unwrap();
        assert_eq!(&*caller.viewer.principal, "ann");
        assert!(caller.needs(Scope::Read).is_ok() && caller.needs(Scope::Submit).is_err());
        assert_eq!(admitted(&ticket.text, JobId::from_u128(0xb), NOW), Err(Code::Forbidden));
        let last = Timestamp(ticket.expires_at.0 - 1);
        assert!(admitted(&ticket.text, JOB_A, last).is_ok());
        assert_eq!(admitted(&ticket.text, JOB_A, ticket.expires_at), Err(Code::Unauthenticated));
    }

    #[test]
    fn a_ticket_with_any_character_changed_is_none() {
        let ticket = TICKETS.issue(JOB_A, "ann", NOW).text;
        for at in 0..ticket.len() {
            let mut forged = ticket.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(admitted(&forged, JOB_A, NOW), Err(Code::Unauthenticated), "at {at}");
        }
        for text in ["", "A", "not base64!", &ticket[1..], &"A".repeat(LEN_MAX + 1), &"A".repeat(LEN_MAX)] {
            assert_eq!(admitted(text, JOB_A, NOW), Err(Code::Unauthenticated));
        }
        let other = Tickets::with_key([8; 32]).issue(JOB_A, "ann", NOW).text;
        assert_eq!(admitted(&other, JOB_A, NOW), Err(Code::Unauthenticated));
    }
}
