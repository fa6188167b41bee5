//! `events/subscribe` and `events/unsubscribe`.
//!
//! In: a key and how to deliver. Out: a durable subscription whose endpoint has said that it wants it; the same call again refreshes it. A limit is
//! looked at before anything is sent anywhere.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use subtle::ConstantTimeEq;
use tokio::sync::oneshot;

use super::super::super::reply::Members;
use super::super::super::rpc::{self, Error, INVALID_PARAMS};
use super::super::super::{Endpoint, refusal};
use super::super::Asked;
use super::super::dialect::Fault;
use super::super::kinds::Wanted;
use super::super::push::skips;
use super::envelope::Secret;
use super::record::{Key, Live, Record};
use super::{WEBHOOKS_ALL_MAX, WEBHOOKS_MAX, Webhooks, envelope, outcome};
use crate::events::Scope;
use crate::job::json::wrong;
use crate::job::{Millis, Timestamp};
use crate::net::{ATTEMPT_MAX, BAD_SCHEME, Post, Target};
use crate::service::{Refused, Viewer};

/// Shortest life of a subscription; a shorter one becomes this.
pub const TTL_MIN: Millis = Millis::seconds(60);
/// Its life if the client does not say.
pub const TTL_DEFAULT: Millis = Millis::seconds(3_600);
/// Longest life; a longer one, and one without an end, becomes this.
pub const TTL_MAX: Millis = Millis::seconds(24 * 3_600);
/// Most handshakes with one host in `HANDSHAKES_EVERY`.
pub const HANDSHAKES_MAX: usize = 30;
const HANDSHAKES_EVERY: Millis = Millis::seconds(60);

/// How to deliver, as clients write it.
#[derive(Deserialize)]
struct To<'a> {
    #[serde(borrow, default)]
    mode: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    url: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    secret: Option<Cow<'a, str>>,
}

fn refuse(text: impl Into<String>) -> Error {
    Error::answered(INVALID_PARAMS, text)
}

/// Reads `params.delivery`, an object such as this.
fn to<'a>(asked: &Asked<'a>, example: &str) -> Result<To<'a>, Error> {
    let delivery = asked.delivery.filter(|raw| rpc::is_object(raw));
    let raw = delivery.ok_or_else(|| refuse(format!("params.delivery must be an object such as {example}")))?;
    serde_json::from_str(raw.get()).map_err(|why| refuse(wrong("params.delivery", raw.get(), &why)))
}

/// What the subscription is told apart by, and where it leads.
fn key(
    hooks: &Webhooks,
    viewer: &Viewer,
    wanted: &Wanted,
    asked: &Asked<'_>,
    to: &To<'_>,
) -> Result<(Key, Target), Error> {
    let url = to.url.as_deref().ok_or_else(|| refuse("params.delivery.url is missing"))?;
    let why = |why| match why {
        BAD_SCHEME if hooks.options.reach.private => "must begin with https:// or http://",
        other => other,
    };
    let target = Target::of(url).map_err(|said| refuse(format!("params.delivery.url {}", why(said))))?;
    let key = Key {
        principal: viewer.principal.clone(),
        url: url.into(),
        name: wanted.name.into(),
        arguments: canonical(asked.arguments).into(),
    };
    Ok((key, target))
}

/// The arguments in the form of RFC 8785, neither defaulted nor coerced. They are known to be texts under names of plain letters.
fn canonical(arguments: Option<&RawValue>) -> String {
    let members: Option<BTreeMap<String, String>> = arguments.and_then(|raw| serde_json::from_str(raw.get()).ok());
    serde_json::to_string(&members.unwrap_or_default()).unwrap_or_default()
}

/// Answers `events/subscribe`. Durable when it returns.
///
/// # Errors
/// `Forbidden` without a principal, `NotFound`, `Unsupported`, -32602, `ResourceExhausted`, `CallbackEndpointError`; -32603 as `Service::put_cells`.
pub(in super::super) async fn subscribe(
    endpoint: &Arc<Endpoint>,
    viewer: &Viewer,
    asked: &Asked<'_>,
) -> Result<Members, Error> {
    let hooks = &endpoint.webhooks;
    let fault = |fault| hooks.dialect.error(fault);
    if !hooks.are_offered() || !hooks.options.principals.contains_key(&viewer.principal) {
        return Err(fault(Fault::Forbidden("callbacks need an authenticated principal")));
    }
    let wanted = Wanted::of(&hooks.dialect, &asked.name, asked.arguments)?;
    let to = to(asked, r#"{"mode": "webhook", "url": "https://…", "secret": "whsec_…"}"#)?;
    if let Some(mode) = to.mode.as_deref().filter(|mode| *mode != "webhook") {
        return Err(fault(Fault::Unsupported { feature: "deliveryMode", value: mode }));
    }
    let (key, target) = key(hooks, viewer, &wanted, asked, &to)?;
    if !target.is_secure && !hooks.options.reach.private {
        return Err(refuse(format!("params.delivery.url {BAD_SCHEME}")));
    }
    let secret = to.secret.as_deref().and_then(Secret::of);
    let secret = secret.ok_or_else(|| refuse("params.delivery.secret must be whsec_ and Base64 of 24 to 64 bytes"))?;
    let now = endpoint.clock.now();
    let expires = now.plus(ttl(asked)?);
    if let Some(live) = hooks.find(&key.id()) {
        let status = live.with(|record| {
            record.renew(secret.clone(), now);
            record.expires = expires.0;
            // What went wrong is told, and begins anew.
            let status = status(record);
            record.resume();
            status
        });
        live.changed.notify_one();
        live.save(&hooks.service).await.map_err(|refused| refusal::internal(&refused))?;
        // It may have ended meanwhile; then this is the first call of a new one.
        if !live.is_over() {
            return Ok(answer(&live, false, Some(status)));
        }
    }
    room(hooks, viewer)?;
    if !hooks.options.reach.admits(&target) {
        return Err(fault(Fault::Callback("connection_refused")));
    }
    let (record, truncated) = record(endpoint, viewer, asked, &wanted, (key, secret, expires)).await?;
    if !hooks.is_verified(&record.key) {
        verify(hooks, &record, &target).await?;
    }
    let live = open(hooks, viewer, record).await?;
    Ok(answer(&live, truncated, None))
}

/// How long it is granted. A life is never refused.
fn ttl(asked: &Asked<'_>) -> Result<Millis, Error> {
    let Some(raw) = asked.ttl_ms else { return Ok(TTL_DEFAULT) };
    let asked: Option<u64> =
        serde_json::from_str(raw.get()).map_err(|_| refuse("params.ttlMs must be a whole number of milliseconds"))?;
    Ok(asked.map_or(TTL_MAX, Millis).clamp(TTL_MIN, TTL_MAX))
}

/// # Errors
/// `ResourceExhausted`, the limit named.
fn room(hooks: &Webhooks, viewer: &Viewer) -> Result<(), Error> {
    let table = hooks.table();
    let own = table.values().filter(|live| live.with(|record| record.key.principal == viewer.principal)).count();
    let exhausted = |limit, max| hooks.dialect.error(Fault::Exhausted { limit, max });
    match (own >= WEBHOOKS_MAX, table.len() >= WEBHOOKS_ALL_MAX) {
        (true, _) => Err(exhausted("webhooks", WEBHOOKS_MAX)),
        (false, true) => Err(exhausted("webhooks of all", WEBHOOKS_ALL_MAX)),
        (false, false) => Ok(()),
    }
}

/// A subscription that begins where it was asked to, and whether something before that is missing.
async fn record(
    endpoint: &Arc<Endpoint>,
    viewer: &Viewer,
    asked: &Asked<'_>,
    wanted: &Wanted,
    (key, secret, expires): (Key, Secret, Timestamp),
) -> Result<(Record, bool), Error> {
    let (start, is_lost) = asked.start();
    let oldest = asked.oldest(endpoint.clock.now());
    let skips = skips(endpoint, viewer, wanted, start, oldest).await?;
    let tail = endpoint.service.tail(viewer, Scope::Feed(wanted.filter()), start).await;
    let tail = tail.map_err(|refused| refusal::internal(&refused))?;
    let record = Record {
        key,
        sees_all: viewer.sees_all,
        secret,
        earlier: None,
        expires: expires.0,
        oldest: oldest.map(|oldest| oldest.0),
        watermark: tail.cursor().to_string().into(),
        delivered: None,
        error: None,
        failed_since: None,
        failures: 0,
        suspended: false,
    };
    Ok((record, is_lost || skips || !tail.connects()))
}

/// Has the endpoint say that it wants deliveries.
///
/// # Errors
/// `CallbackEndpointError`, `ResourceExhausted` after too many handshakes with its host.
async fn verify(hooks: &Webhooks, record: &Record, target: &Target) -> Result<(), Error> {
    if !hooks.may_greet(&target.host) {
        return Err(hooks.dialect.error(Fault::Exhausted { limit: "handshakes with a host", max: HANDSHAKES_MAX }));
    }
    let failed = |reason| hooks.dialect.error(Fault::Callback(reason));
    let (challenge, now) = (hooks.random(), hooks.clock.now());
    let (message, body) = (hooks.control_id("verification"), envelope::verification(&challenge));
    let headers = envelope::headers(record.secrets(now), &message, &record.key.id(), now, &body);
    let courier = hooks.courier.get().ok_or_else(|| failed("connection_refused"))?;
    let told = tokio::time::timeout(ATTEMPT_MAX, async {
        let _place = hooks.places.enter(&target.host).await;
        courier.post(Post { target: target.clone(), headers, body }).await
    });
    let told = told.await.map_err(|_| failed("timeout"))?;
    outcome::of(&told).map_err(|why| failed(why.category))?;
    let echoed: Option<Value> = told.ok().and_then(|answered| serde_json::from_slice(&answered.body).ok());
    let echoed = echoed.as_ref().and_then(|echoed| echoed["challenge"].as_str()).unwrap_or_default();
    let is_echo = bool::from(echoed.as_bytes().ct_eq(challenge.as_bytes()));
    if is_echo { Ok(()) } else { Err(failed("challenge_failed")) }
}

/// Has the subscription kept and delivered to. If another call made the same one meanwhile, that one stands.
async fn open(hooks: &Arc<Webhooks>, viewer: &Viewer, record: Record) -> Result<Arc<Live>, Error> {
    let id = record.key.id();
    if let Some(live) = hooks.find(&id) {
        return Ok(live);
    }
    // Others may have come while the endpoint was asked.
    room(hooks, viewer)?;
    let live = Arc::new(Live::new(record));
    hooks.table().insert(id, live.clone());
    let (tell, told) = oneshot::channel();
    // Written by whoever delivers, so that it is delivered to even if this call is dropped right now.
    let handed = hooks.opened.send((live.clone(), Some(tell))).is_ok();
    let saved = if handed { told.await.unwrap_or(Err(Refused::Draining)) } else { Err(Refused::Draining) };
    if saved.is_err() {
        hooks.forget(&live);
    }
    saved.map(|()| live).map_err(|refused| refusal::internal(&refused))
}

fn status(record: &Record) -> Value {
    let mut status = json!({ "active": true, "lastError": record.error });
    let stamps = [("lastDeliveryAt", record.delivered), ("failedSince", record.failed_since)];
    for (name, at) in stamps.into_iter().filter_map(|(name, at)| Some((name, at?))) {
        status[name] = json!(Timestamp(at));
    }
    status
}

fn answer(live: &Live, truncated: bool, status: Option<Value>) -> Members {
    let (expires, cursor) = live.with(|record| (Timestamp(record.expires), record.watermark.clone()));
    let mut json = format!(
        "\"id\":\"{}\",\"refreshBefore\":\"{expires}\",\"cursor\":\"{cursor}\",\"truncated\":{truncated}",
        live.id
    );
    if let Some(status) = status {
        json += &format!(",\"deliveryStatus\":{status}");
    }
    Members { json: json.into_bytes(), ..Members::default() }
}

/// Answers `events/unsubscribe`. Durable when it returns: then no further attempt begins.
///
/// # Errors
/// `Forbidden` without a principal, -32602, `NotFound`; -32603 as `Service::put_cells`.
pub(in super::super) async fn unsubscribe(
    endpoint: &Arc<Endpoint>,
    viewer: &Viewer,
    asked: &Asked<'_>,
) -> Result<Members, Error> {
    let hooks = &endpoint.webhooks;
    if !hooks.are_offered() || !hooks.options.principals.contains_key(&viewer.principal) {
        return Err(hooks.dialect.error(Fault::Forbidden("callbacks need an authenticated principal")));
    }
    let wanted = Wanted::of(&hooks.dialect, &asked.name, asked.arguments)?;
    let to = to(asked, r#"{"url": "https://…"}, with the url that was subscribed with"#)?;
    let (key, _) = key(hooks, viewer, &wanted, asked, &to)?;
    let live = hooks.find(&key.id()).ok_or_else(|| hooks.dialect.error(Fault::NoSubscription))?;
    hooks.forget(&live);
    let ended = live.end(&hooks.service).await;
    ended.map(|()| Members::default()).map_err(|refused| refusal::internal(&refused))
}

impl Webhooks {
    /// Whether the endpoint of this key has said that it wants this principal's deliveries.
    fn is_verified(&self, key: &Key) -> bool {
        let now = self.clock.now();
        let is_same =
            |live: &Arc<Live>| live.with(|record| record.key.principal == key.principal && record.key.url == key.url);
        self.table().values().any(|live| is_same(live) && !live.is_over() && !live.is_expired(now))
    }

    /// Counts a handshake with the host; false: there were too many lately.
    fn may_greet(&self, host: &str) -> bool {
        let now = self.clock.now();
        let mut handshakes = self.handshakes.lock().unwrap_or_else(PoisonError::into_inner);
        handshakes.retain(|_, (since, _)| now.since(*since) < HANDSHAKES_EVERY);
        let (_, count) = handshakes.entry(host.into()).or_insert((now, 0));
        *count += 1;
        *count <= HANDSHAKES_MAX
    }
}
