//! Callbacks against a courier that a test holds in its hands: what is sent, to whom, how often, and what a restart changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::rig::{Rig, message};
use crate::clock::{Clock, Manual};
use crate::job::Millis;
use crate::mcp::Options;
use crate::mcp::occurrences::{
    self, HOST_ATTEMPTS_MAX, RETRY_AFTER, SECRET_GRACE, SUSPEND_AFTER, SUSPEND_FAILURES, TTL_MAX, TTL_MIN,
    WEBHOOKS_MAX, WebhookOptions,
};
use crate::net::{Answered, Courier, Failure, Post, Sending};
use crate::service::Viewer;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const URL: &str = "https://hooks.example/in";
/// How long something that must come is waited for.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

fn viewer(name: &str) -> Viewer {
    Viewer { principal: name.into(), sees_all: name == "root" }
}

/// What a receiver says to a message; nothing: it never answers.
type Judge = Box<dyn FnMut(&Post, &Value) -> Option<Result<u16, Failure>> + Send>;

/// Hands every message to the test, and answers as its judge says; a challenge is echoed where that says 200.
struct Hands {
    clock: Manual,
    judge: Mutex<Judge>,
    told: mpsc::UnboundedSender<(Post, Value, Instant)>,
}

impl Courier for Hands {
    fn post(&self, post: Post) -> Sending<'_> {
        Box::pin(async move {
            let body: Value = serde_json::from_slice(&post.body).expect("JSON");
            let said = (self.judge.lock().expect("judged"))(&post, &body);
            let answer = json!({"challenge": body["challenge"]}).to_string();
            // It may be dropped with the test.
            let _ = self.told.send((post, body, Instant::now()));
            match said {
                Some(Ok(status)) => Ok(Answered { status, body: Bytes::from(answer) }),
                Some(Err(failure)) => {
                    self.clock.advance(Millis::seconds(10));
                    Err(failure)
                }
                None => std::future::pending().await,
            }
        })
    }
}

/// A rig that delivers.
struct World {
    rig: Rig,
    told: mpsc::UnboundedReceiver<(Post, Value, Instant)>,
    /// When the message that was read last was sent.
    at: Instant,
    close: oneshot::Sender<()>,
    engine: JoinHandle<()>,
}

impl World {
    async fn new(judge: impl FnMut(&Post, &Value) -> Option<Result<u16, Failure>> + Send + 'static) -> Self {
        let principals: HashMap<Arc<str>, bool> =
            [("ann", false), ("bob", false), ("root", true)].map(|(name, sees_all)| (name.into(), sees_all)).into();
        let webhooks = WebhookOptions { principals, ..WebhookOptions::default() };
        let events = occurrences::Options { webhooks, ..occurrences::Options::default() };
        Self::on(Rig::with(Options { events, ..Options::default() }).await, Box::new(judge))
    }

    fn on(rig: Rig, judge: Judge) -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        let courier = Hands { clock: rig.clock.clone(), judge: Mutex::new(judge), told: tell };
        let (close, closing) = oneshot::channel();
        let engine = rig.endpoint.deliver(Arc::new(courier), async move {
            // Dropped or told: either way it is the end.
            let _ = closing.await;
        });
        let engine = tokio::spawn(engine);
        Self { rig, told, at: Instant::now(), close, engine }
    }

    /// Ends the process, as a graceful shutdown would, and starts another on the same store.
    async fn restart(self, judge: impl FnMut(&Post, &Value) -> Option<Result<u16, Failure>> + Send + 'static) -> Self {
        self.close.send(()).expect("it runs");
        self.engine.await.expect("it ends");
        Self::on(self.rig.restart().await, Box::new(judge))
    }

    async fn call(&self, who: &str, method: &str, params: Value) -> Value {
        message(&self.rig.modern_as(viewer(who), method, params, &[]).await)
    }

    /// Subscribes; the result.
    async fn subscribe(&self, who: &str, params: Value) -> Value {
        let answer = self.call(who, "events/subscribe", params).await;
        assert!(answer["result"]["id"].is_string(), "{answer}");
        answer["result"].clone()
    }

    /// Runs a job of this principal to its end; its id.
    async fn job(&self, who: &str) -> String {
        let params = json!({"name": "start", "arguments": {"result": 1}});
        let answer = message(&self.rig.modern_as(viewer(who), "tools/call", params, &[("mcp-name", "start")]).await);
        let id = answer["result"]["structuredContent"]["jobId"].as_str().expect("a handle").to_owned();
        self.rig.ended(&id).await;
        id
    }

    async fn next(&mut self) -> (Post, Value) {
        let (post, body, at) = self.told.recv().await.expect("a message");
        self.at = at;
        crate::schemas::delivery(&body);
        (post, body)
    }

    /// The next message that is no handshake.
    async fn delivered(&mut self) -> (Post, Value) {
        loop {
            let (post, body) = self.next().await;
            if body["type"] != "verification" {
                return (post, body);
            }
        }
    }
}

fn to(url: &str, name: &str) -> Value {
    json!({"name": name, "delivery": {"mode": "webhook", "url": url, "secret": SECRET}})
}

fn header<'a>(post: &'a Post, name: &str) -> &'a str {
    post.headers.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
}

/// Whether one of the signatures is by this secret.
fn is_signed(post: &Post, secret: &str) -> bool {
    let key = BASE64.decode(secret.trim_start_matches("whsec_")).expect("Base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key");
    mac.update(format!("{}.{}.", header(post, "webhook-id"), header(post, "webhook-timestamp")).as_bytes());
    mac.update(&post.body);
    let expected = format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()));
    header(post, "webhook-signature").split(' ').any(|signature| signature == expected)
}

fn accept(_: &Post, _: &Value) -> Option<Result<u16, Failure>> {
    Some(Ok(200))
}

#[tokio::test]
async fn a_subscriber_proves_that_it_wants_deliveries_and_gets_its_own_signed() {
    let mut world = World::new(accept).await;
    let made = world.subscribe("ann", to(URL, "job.completed")).await;
    let (post, body) = world.next().await;
    assert_eq!(
        (&body["type"], header(&post, "x-mcp-subscription-id")),
        (&json!("verification"), made["id"].as_str().unwrap())
    );
    assert!(is_signed(&post, SECRET) && !is_signed(&post, OTHER));
    assert_eq!((&made["truncated"], made.get("deliveryStatus")), (&json!(false), None));

    world.job("bob").await;
    let hers = world.job("ann").await;
    let (post, event) = world.next().await;
    assert_eq!((&event["data"]["job_id"], &event["name"]), (&json!(hers), &json!("job.completed")));
    assert!(event.get("type").is_none(), "that marks a message which is no event");
    assert_eq!(header(&post, "webhook-id"), event["eventId"].as_str().unwrap());
    assert!(is_signed(&post, SECRET) && event["cursor"].is_string());
    assert_eq!((&*post.target.host, &*post.target.path), ("hooks.example", "/in"));

    let again = world.subscribe("ann", to(URL, "job.completed")).await;
    assert_eq!((&again["id"], &again["deliveryStatus"]["active"]), (&made["id"], &json!(true)));
    assert!(again["deliveryStatus"]["lastDeliveryAt"].is_string());
    let bobs = world.subscribe("bob", to(URL, "job.completed")).await;
    assert_ne!(bobs["id"], made["id"]);
    assert_eq!(world.next().await.1["type"], "verification", "bob's consent is not ann's");
}

#[tokio::test]
async fn a_callback_of_another_scheme_is_told_every_scheme_that_is_taken() {
    let principals: HashMap<Arc<str>, bool> = [("ann".into(), false)].into();
    let reach = crate::net::Reach { private: true, ..Default::default() };
    let webhooks = WebhookOptions { principals, reach };
    let events = occurrences::Options { webhooks, ..occurrences::Options::default() };
    let world = World::on(Rig::with(Options { events, ..Options::default() }).await, Box::new(accept));
    let answer = world.call("ann", "events/subscribe", to("ftp://hooks.example/in", "job.event")).await;
    let said = answer["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(said, "params.delivery.url must begin with https:// or http://", "{answer}");
}

#[tokio::test]
async fn what_is_wrong_with_a_subscription_is_said_and_sends_nothing() {
    let mut world = World::new(accept).await;
    let code = |answer: Value| answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"));
    let with = |member: &str, value: Value| {
        let mut params = to(URL, "job.event");
        params["delivery"][member] = value;
        params
    };
    for (who, params, expected) in [
        ("local", to(URL, "job.event"), -32024),
        ("ann", to(URL, "job.unheard"), -32023),
        ("ann", json!({"name": "job.event"}), -32602),
        ("ann", with("mode", json!("pigeon")), -32026),
        ("ann", with("url", json!("http://hooks.example/in")), -32602),
        ("ann", with("url", json!("https://u:p@hooks.example/in")), -32602),
        ("ann", with("url", Value::Null), -32602),
        ("ann", with("secret", json!("whsec_AAAA")), -32602),
        ("ann", with("secret", Value::Null), -32602),
        ("ann", with("url", json!("https://127.0.0.1/in")), -32027),
        ("ann", with("url", json!("https://[::ffff:10.0.0.1]/in")), -32027),
        ("ann", with("url", json!("https://169.254.169.254/latest")), -32027),
    ] {
        let shown = params.to_string();
        assert_eq!(code(world.call(who, "events/subscribe", params).await), expected, "{who} {shown}");
    }
    assert_eq!(code(world.call("ann", "events/unsubscribe", to(URL, "job.event")).await), -32023);
    assert!(world.told.try_recv().is_err(), "nothing was sent");

    let words = |answer: Value| answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    let unnamed = words(world.call("ann", "events/unsubscribe", json!({"id": "sub_1"})).await);
    assert!(unnamed.contains("takes name, arguments and delivery.url") && unnamed.contains("no id"), "{unnamed}");
    let nowhere = words(world.call("ann", "events/unsubscribe", json!({"name": "job.event", "id": "sub_1"})).await);
    assert!(nowhere.contains("params.delivery must be an object such as {\"url\""), "{nowhere}");
    let other = words(world.call("ann", "events/subscribe", with("url", json!("ftp://hooks.example/in"))).await);
    assert!(other.ends_with("must begin with https://"), "{other}");

    let open = Rig::new().await;
    let listed = message(&open.modern_as(Viewer::local(), "events/list", json!({}), &[]).await);
    assert_eq!(listed["result"]["events"][0]["delivery"], json!(["poll", "push"]));
    let listed = world.call("ann", "events/list", json!({})).await;
    assert_eq!(listed["result"]["events"][0]["delivery"], json!(["poll", "push", "webhook"]));
}

#[tokio::test]
async fn an_endpoint_that_does_not_prove_its_will_gets_no_subscription() {
    for (said, reason) in [
        (Ok(302), "http_4xx"),
        (Ok(404), "http_4xx"),
        (Ok(500), "http_5xx"),
        (Err(Failure::Timeout), "timeout"),
        (Err(Failure::Tls), "tls_error"),
        (Err(Failure::Forbidden), "connection_refused"),
    ] {
        let world = World::new(move |_, _| Some(said)).await;
        let answer = world.call("ann", "events/subscribe", to(URL, "job.event")).await;
        assert_eq!(
            answer["error"],
            json!({"code": -32027, "message": "CallbackEndpointError", "data": {"reason": reason}})
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_as_the_same_message_at_another_time() {
    let mut failures = 3;
    let mut world = World::new(move |_, body| {
        let fails = body.get("eventId").is_some() && failures > 0;
        failures -= i32::from(fails);
        Some(if fails { Err(Failure::Timeout) } else { Ok(200) })
    })
    .await;
    world.subscribe("ann", to(URL, "job.completed")).await;
    world.job("ann").await;
    let (mut tries, mut since) = (Vec::new(), Instant::now());
    for wait in std::iter::once(None).chain(RETRY_AFTER.into_iter().take(3).map(Some)) {
        let (post, _) = world.delivered().await;
        assert!(is_signed(&post, SECRET));
        assert!(wait.is_none_or(|wait| world.at - since >= wait), "not before its time");
        since = world.at;
        tries.push((header(&post, "webhook-id").to_owned(), header(&post, "webhook-timestamp").to_owned(), post.body));
    }
    assert!(tries.windows(2).all(|pair| pair[0].0 == pair[1].0 && pair[0].2 == pair[1].2), "one message");
    assert!(tries.windows(2).all(|pair| pair[0].1 != pair[1].1), "signed anew each time");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_given_up_is_told_as_a_gap_and_one_that_is_refused_for_good_is_not() {
    let mut world = World::new(|_, body| match body["name"].as_str() {
        Some("job.started") => Some(Ok(503)),
        Some("job.created") => Some(Ok(410)),
        Some(_) | None => Some(Ok(200)),
    })
    .await;
    world.subscribe("ann", to(URL, "job.created")).await;
    world.subscribe("ann", to(URL, "job.started")).await;
    world.job("ann").await;
    let mut sent: HashMap<String, usize> = HashMap::new();
    loop {
        let (post, body) = world.delivered().await;
        if body["type"] == "gap" {
            assert!(body["cursor"].is_string() && header(&post, "webhook-id").starts_with("msg_gap_"));
            break;
        }
        *sent.entry(body["name"].as_str().expect("an event").to_owned()).or_default() += 1;
    }
    assert_eq!(sent, HashMap::from([("job.created".to_owned(), 1), ("job.started".to_owned(), 1 + RETRY_AFTER.len())]));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_fails_for_an_hour_is_left_alone_until_its_client_comes_back() {
    let (is_well, attempts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (well, count) = (is_well.clone(), attempts.clone());
    let mut world = World::new(move |_, body| {
        let is_event = body.get("eventId").is_some();
        count.fetch_add(usize::from(is_event), Ordering::SeqCst);
        // Each takes its ten seconds.
        Some(if is_event && !well.load(Ordering::SeqCst) { Err(Failure::Timeout) } else { Ok(200) })
    })
    .await;
    let mut wish = to(URL, "job.completed");
    wish["ttlMs"] = json!(TTL_MAX.0);
    world.subscribe("ann", wish.clone()).await;
    for _ in 0..SUSPEND_FAILURES {
        world.job("ann").await;
    }
    let expected = 1 + usize::try_from(SUSPEND_AFTER.0 / 10_000).expect("is small");
    // Timers do not wait here, not even for what happens on other threads meanwhile.
    let begun = std::time::Instant::now();
    while attempts.load(Ordering::SeqCst) < expected && begun.elapsed() < PATIENCE {
        let _ = tokio::time::timeout(RETRY_AFTER[3] * 10, world.next()).await;
    }
    // Whatever would still be tried is tried.
    while tokio::time::timeout(RETRY_AFTER[3] * 10, world.next()).await.is_ok() {}
    assert_eq!(attempts.load(Ordering::SeqCst), expected, "of five for each job");
    is_well.store(true, Ordering::SeqCst);
    let status = world.subscribe("ann", wish).await["deliveryStatus"].take();
    assert_eq!((&status["active"], &status["lastError"]), (&json!(true), &json!("timeout")));
    assert!(status["failedSince"].is_string());
    // That some were given up may have been told before.
    let body = loop {
        match world.delivered().await.1 {
            gap if gap["type"] == "gap" => {}
            body => break body,
        }
    };
    assert!(body.get("eventId").is_some(), "{body}");
}

#[tokio::test]
async fn an_endpoint_that_never_answers_holds_up_nobody_else() {
    let mut world = World::new(|post, body| {
        let is_dead = &*post.target.host == "dead.example" && body.get("eventId").is_some();
        if is_dead { None } else { Some(Ok(200)) }
    })
    .await;
    for n in 0..2 * HOST_ATTEMPTS_MAX {
        world.subscribe("ann", to(&format!("https://dead.example/{n}"), "job.completed")).await;
    }
    world.subscribe("ann", to(URL, "job.completed")).await;
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(world.job("ann").await);
    }
    let (mut good, mut dead) = (Vec::new(), 0);
    while good.len() < jobs.len() {
        let (post, body) = world.delivered().await;
        match &*post.target.host {
            "dead.example" => dead += 1,
            _ => good.push(body["data"]["job_id"].as_str().expect("an event").to_owned()),
        }
    }
    assert_eq!(good, jobs, "in order, each once");
    assert!(dead <= HOST_ATTEMPTS_MAX, "a host has so many attempts at once");
}

#[tokio::test]
async fn what_was_not_acknowledged_is_told_again_after_a_restart_and_what_was_is_not() {
    let mut world = World::new(|_, body| if body.get("eventId").is_some() { None } else { Some(Ok(200)) }).await;
    let made = world.subscribe("ann", to(URL, "job.completed")).await;
    let first = world.job("ann").await;
    assert_eq!(world.delivered().await.1["data"]["job_id"], json!(first));

    let mut world = world.restart(accept).await;
    assert_eq!(world.next().await.1["data"]["job_id"], json!(first), "without another handshake");
    let again = world.subscribe("ann", to(URL, "job.completed")).await;
    assert_eq!(again["id"], made["id"]);
    let second = world.job("ann").await;
    assert_eq!(world.next().await.1["data"]["job_id"], json!(second));
    // The courier has spoken; only the next look at the subscription has seen the answer.
    while world.subscribe("ann", to(URL, "job.completed")).await["cursor"] == made["cursor"] {
        tokio::task::yield_now().await;
    }
    let mut world = world.restart(accept).await;
    let third = world.job("ann").await;
    let told = world.next().await.1["data"]["job_id"].clone();
    let told = if told == json!(second) { world.next().await.1["data"]["job_id"].clone() } else { told };
    assert_eq!(told, json!(third));
}

#[tokio::test]
async fn a_principal_that_is_not_known_any_more_is_told_so_and_forgotten() {
    let world = World::new(accept).await;
    world.subscribe("ann", to(URL, "job.event")).await;
    world.close.send(()).expect("it runs");
    world.engine.await.expect("it ends");
    let mut rig = world.rig;
    rig.options.events.webhooks.principals.remove("ann");
    let mut world = World::on(rig.restart().await, Box::new(accept));
    let (post, body) = world.next().await;
    assert_eq!((&body["type"], &body["error"]["code"]), (&json!("terminated"), &json!(-32024)));
    assert!(is_signed(&post, SECRET));
    while !world.rig.service.cells("webhook/").await.expect("cells").is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_life_is_cut_to_measure_and_ends_by_itself_or_by_a_word() {
    let mut world = World::new(accept).await;
    let lives = |made: &Value, now| {
        crate::job::Timestamp::parse(made["refreshBefore"].as_str().expect("a time")).expect("a time").since(now)
    };
    let now = world.rig.clock.now();
    for (asked, granted) in
        [(json!(1), TTL_MIN), (json!(120_000), Millis(120_000)), (json!(u64::MAX), TTL_MAX), (Value::Null, TTL_MAX)]
    {
        let mut params = to(URL, "job.completed");
        params["ttlMs"] = asked;
        assert_eq!(lives(&world.subscribe("ann", params).await, now), granted);
    }
    world.job("ann").await;
    assert!(world.delivered().await.1["eventId"].is_string());
    world.rig.clock.advance(TTL_MAX);
    world.job("ann").await;
    world.subscribe("ann", to(URL, "job.failed")).await;
    assert_eq!(world.next().await.1["type"], "verification", "the other's consent has ended with it");
    assert_eq!(
        world.call("ann", "events/unsubscribe", to(URL, "job.completed")).await["error"]["data"]["kind"],
        "subscription"
    );

    world.subscribe("ann", to(URL, "job.created")).await;
    let done = world.call("ann", "events/unsubscribe", to(URL, "job.created")).await;
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    world.job("ann").await;
    world.subscribe("bob", to(URL, "job.completed")).await;
    assert_eq!(world.next().await.1["type"], "verification", "nothing came before it");
}

#[tokio::test]
async fn a_newer_secret_signs_beside_the_older_for_a_while() {
    let mut world = World::new(accept).await;
    world.subscribe("ann", to(URL, "job.completed")).await;
    let mut newer = to(URL, "job.completed");
    newer["delivery"]["secret"] = json!(OTHER);
    world.subscribe("ann", newer).await;
    world.job("ann").await;
    let (post, _) = world.delivered().await;
    assert!(is_signed(&post, SECRET) && is_signed(&post, OTHER));
    world.rig.clock.advance(SECRET_GRACE);
    world.job("ann").await;
    let (post, _) = world.delivered().await;
    assert!(!is_signed(&post, SECRET) && is_signed(&post, OTHER));
}

#[tokio::test]
async fn a_principal_has_so_many_and_leaves_room_for_others() {
    let world = World::new(accept).await;
    for n in 0..WEBHOOKS_MAX {
        let mut params = to(URL, "job.event");
        params["arguments"] = json!({"jobId": format!("job {n}")});
        world.subscribe("ann", params).await;
    }
    let refused = world.call("ann", "events/subscribe", to(URL, "job.event")).await;
    assert_eq!(
        refused["error"],
        json!({"code": -32025, "message": "ResourceExhausted", "data": {"limit": "webhooks", "max": WEBHOOKS_MAX}})
    );
    world.subscribe("bob", to(URL, "job.event")).await;
}
